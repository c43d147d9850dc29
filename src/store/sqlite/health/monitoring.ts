// Monitoring's reads. Every one goes by an index or by a range of the primary key, in pages: between two pages other
// requests get their turn, however many rows there are.

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Environment } from '../../../core/partner.ts'
import type { Backlog, MonitoringStore, PlanCounts, WebhookCount } from '../../monitoring.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { IS_OPEN, UNLEASED_IN_OWN_TIME } from '../expressions.ts'
import type { Connection } from '../file/connection.ts'
import { walBytes } from '../file/own-files.ts'
import { createDisputes } from '../pass/disputes.ts'
import { createSchedulerReader } from './scheduler.ts'
import { breathe, PAGE_ROWS } from './short-reads.ts'

export function createMonitoringStore(connection: Connection): MonitoringStore {
  const { db, read, write } = connection
  const sql = prepare(connection)
  const disputes = createDisputes(db)

  return {
    // A savepoint undone inside a transaction that commits: the page still goes to the log and to the disk, so that a
    // full disk shows, and the row was never there.
    probeWrite: () =>
      write(() => {
        sql.save.run()
        sql.probe.run()
        sql.undo.run()
        sql.release.run()
      }),

    readScheduler: createSchedulerReader(connection),
    readDispute: () => read(disputes.standing),

    readMarks: () =>
      read(() => ({
        executionId: (sql.newestExecution.get() ?? null) as ExecutionId | null,
        passId: Number(sql.newestPass.get() ?? 0n),
      })),

    async countExecutionsAfter(after) {
      const created: Record<Environment, number> = { test: 0, live: 0 }
      let last = after
      for (;;) {
        const rows = await read(() => sql.createdAfter.all({ after: last ?? '', limit: PAGE_ROWS }))
        for (const { environment, n } of rows) created[environment] += Number(n)
        for (const row of rows) if (last === null || row.last > last) last = row.last
        if (rows.reduce((sum, { n }) => sum + Number(n), 0) < PAGE_ROWS) return { created, last }
        await breathe()
      }
    },

    listPassesAfter: (passId) =>
      read(() =>
        sql.passesAfter.all({ after: passId }).map((row) => ({
          passId: Number(row.tick_id),
          at: instant(row.at),
          finishedAt: instantOrNull(row.finished_at),
        })),
      ),

    async readBacklog(now) {
      const backlog: Backlog = { open: 0, due: 0, oldestDueAt: null }
      const seen = (row: OpenRow): void => {
        backlog.open += 1
        if (row.due === 0n) return
        backlog.due += 1
        // How long something waits is nobody's alarm in a sandbox.
        if (row.sandbox === 1n) return
        const createdAt = instant(row.created_at)
        if (backlog.oldestDueAt === null || createdAt < backlog.oldestDueAt) backlog.oldestDueAt = createdAt
      }
      for (const tenant_id of await read(() => sql.tenants.all())) {
        for (const walk of [sql.pendingAfter, sql.leasedAfter]) {
          let after: OpenKey = { tenant_id, lease_expires_at: FIRST, created_at: FIRST, execution_id: '' }
          for (;;) {
            const rows = await read(() => walk.all({ ...after, now, limit: PAGE_ROWS }))
            rows.forEach(seen)
            const last = rows.at(-1)
            if (rows.length < PAGE_ROWS || last === undefined) break
            after = { ...after, ...last }
            await breathe()
          }
        }
      }
      return backlog
    },

    async countPlans() {
      const counts: PlanCounts = { active: 0, paused: 0, cancelled: 0 }
      const newest = await read(() => sql.newestPlan.get() ?? 0n)
      for (let from = 0n; from < newest; from += BigInt(PAGE_ROWS)) {
        const rows = await read(() => sql.plansBetween.all({ from, to: from + BigInt(PAGE_ROWS) }))
        for (const { status, n } of rows) counts[status] += Number(n)
        await breathe()
      }
      return counts
    },

    countWebhooks: () => read(() => sql.webhooks.all().map((row) => ({ ...row, count: Number(row.count) }))),

    walBytes: () => walBytes(db.name),
  }
}

/** Below every instant. */
const FIRST = -(2n ** 62n)
type OpenKey = { tenant_id: bigint; lease_expires_at: bigint; created_at: bigint; execution_id: string }
type OpenRow = OpenKey & { sandbox: bigint; due: bigint }
type PassRow = { tick_id: bigint; at: bigint; finished_at: bigint | null }
type CreatedRow = { environment: Environment; n: bigint; last: ExecutionId }

/** A page of a tenant's open executions, in the order of their index. */
const openAfter = (place: string): string =>
  `select e.lease_expires_at, e.created_at, e.execution_id, s.tenant_id is not null as sandbox,
     ${UNLEASED_IN_OWN_TIME} as due
   from executions e left join sandboxes s on s.tenant_id = e.tenant_id
   where ${IS_OPEN} and e.tenant_id = :tenant_id and ${place}
   order by e.lease_expires_at, e.created_at, e.execution_id limit :limit`

function prepare({ db }: Connection) {
  return {
    save: db.prepare('savepoint probe'),
    probe: db.prepare('insert into ticks (at) values (0)'),
    undo: db.prepare('rollback to probe'),
    release: db.prepare('release probe'),
    newestExecution: db.prepare<[], string | null>('select max(execution_id) from executions').pluck(),
    newestPass: db.prepare<[], bigint | null>('select max(tick_id) from ticks').pluck(),
    createdAfter: db.prepare<object, CreatedRow>(
      `select environment, count(*) as n, max(execution_id) as last
       from (select tenant_id, execution_id from executions
             where execution_id > :after order by execution_id limit :limit)
       join tenants using (tenant_id) group by environment`,
    ),
    passesAfter: db.prepare<object, PassRow>(
      'select tick_id, at, finished_at from ticks where tick_id > :after order by tick_id',
    ),
    tenants: db.prepare<[], bigint>('select tenant_id from tenants').pluck(),
    pendingAfter: db.prepare<object, OpenRow>(
      openAfter(
        `e.lease_expires_at is null and (e.created_at, e.execution_id) > (:created_at, :execution_id)`,
      ),
    ),
    leasedAfter: db.prepare<object, OpenRow>(
      openAfter(
        `(e.lease_expires_at, e.created_at, e.execution_id) > (:lease_expires_at, :created_at, :execution_id)`,
      ),
    ),
    newestPlan: db.prepare<[], bigint | null>('select max(plan_id) from plans').pluck(),
    plansBetween: db.prepare<object, { status: keyof PlanCounts; n: bigint }>(
      `select status, count(*) as n from plans where plan_id > :from and plan_id <= :to group by status`,
    ),
    // One row a tenant at most: few.
    webhooks: db.prepare<[], Omit<WebhookCount, 'count'> & { count: bigint }>(
      `select environment, status,
         case when consecutive_failures > 0 then 'failed' when last_delivered_at is not null then 'delivered' end
           as last,
         count(*) as count
       from webhooks join tenants using (tenant_id) group by 1, 2, 3`,
    ),
  }
}
