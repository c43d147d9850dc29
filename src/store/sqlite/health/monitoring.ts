// Monitoring's reads. Every one goes by an index or by a range of the primary key, in pages: between two pages other
// requests get their turn, however many rows there are.

import type { ExecutionId } from '../../../core/execution-id.ts'
import { earlier } from '../../../core/instant.ts'
import type { Environment } from '../../../core/partner.ts'
import type { Backlog, MonitoringStore, WebhookCount } from '../../monitoring.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import type { Connection } from '../file/connection.ts'
import { walBytes } from '../file/own-files.ts'
import { createDisputes } from '../pass/disputes.ts'
import { createOpenByTenant } from './open-by-tenant.ts'
import { createSchedulerReader } from './scheduler.ts'
import { breathe, PAGE_ROWS } from './short-reads.ts'
import { createStock } from './stock.ts'
import { createVitals } from './vitals.ts'

export function createMonitoringStore(connection: Connection): MonitoringStore {
  const { db, read, write } = connection
  const sql = prepare(connection)
  const disputes = createDisputes(db)
  const openByTenant = createOpenByTenant(connection)

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
      const none = (): Backlog => ({ open: 0, due: 0, oldestDueAt: null })
      const backlog = { test: none(), live: none() }
      const tenants = await read(() => openByTenant(now))
      for (const { environment, open, due, oldestDueAt } of tenants.values()) {
        const sum = backlog[environment]
        sum.open += open
        sum.due += due
        if (oldestDueAt !== null) sum.oldestDueAt = earlier(oldestDueAt, sum.oldestDueAt ?? oldestDueAt)
      }
      return backlog
    },

    takeStock: createStock(connection),
    readVitals: createVitals(connection),

    countWebhooks: () => read(() => sql.webhooks.all().map((row) => ({ ...row, count: Number(row.count) }))),

    walBytes: async () => walBytes(db.name),
  }
}

type PassRow = { tick_id: bigint; at: bigint; finished_at: bigint | null }
type CreatedRow = { environment: Environment; n: bigint; last: ExecutionId }

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
