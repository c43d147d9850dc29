// Executions as partners poll and confirm them on a file: a twin of ../postgres/executions.ts, because every purchase
// goes this way.

import { type ExecutionFacts, RECORDED_SINCE, type Recorded, type Refused } from '../../core/confirmation.ts'
import { type Execution, LEASE_AHEAD_MAX_MS } from '../../core/execution.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import { type ExecutionRow, executionOf, lateFillParams, tradeParams } from '../rows/ledger.ts'
import { SEAL, sealedProblem, sealIn } from '../seal.ts'
import { ASKED, createListings, type Levers, RECORDED, seenOf } from '../shared/executions.ts'
import { IS_OPEN, OF_TENANT, SELECT_EXECUTION } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import type { ExecutionStore } from '../store.ts'
import { insertInto } from '../tables.ts'
import { createPollNotes, type PollNotes } from '../writes.ts'
import { type Driver, preparedAll } from './driver.ts'
import type { Connection, Database } from './file/connection.ts'
import type { Ledger, Stops } from './plans.ts'
import { createRefuseWhenStill } from './seal.ts'
import type { TenantTime } from './tenant-time.ts'

type DuePage = { executions: Execution[]; remaining: number }
type Handing = { limit: number; deliver: (execution: Execution, now: Instant) => Execution; now: Instant }
type Parts = { driver: Driver; ledger: Ledger; stops: Stops; time: TenantTime; polls: PollNotes }

export function createExecutionStore(
  connection: Connection,
  parts: Parts,
): Omit<ExecutionStore, keyof Levers> {
  const { driver, ledger, stops, time, polls } = parts
  const { clock, read } = connection
  const sql = prepare(connection)
  const refuseWhenStill = createRefuseWhenStill(connection.db)
  const dueList = createDueList(connection.db)
  const confirmations = createConfirmations(connection.db, ledger)
  const keep = createKeeper(connection.db)

  /** Leases the first `limit` due executions, and counts the rest. */
  function hand(tenant: Tenant, { limit, deliver, now }: Handing): DuePage {
    const due = dueList.first(tenant, now, limit)
    const executions = due.map((row) => deliver(executionOf(row), now))
    const delivered = executions.map((one) => [
      one.executionId,
      one.status,
      one.deliveredCount,
      one.leaseExpiresAt,
    ])
    sql.deliver.run({ tenant: tenant.tenantId, delivered: JSON.stringify(delivered) })
    sql.forgetCounts.run({ tenant: tenant.tenantId })
    return { executions, remaining: dueList.count(tenant, now) }
  }

  return {
    async deliverDue(tenant, limit, deliver) {
      polls.note(tenant, clock())
      for (;;) {
        // Most polls find nothing: they take no write lock and wait for no disk.
        const found = await read(() => {
          // A poll that finds nothing writes nothing, and so would not meet the seal.
          const seal = sealIn(sql.seal.get({}))
          if (seal) throw sealedProblem(seal)
          refuseWhenStill()
          if (stops.isAnyStopping(tenant)) return 'stopping'
          return dueList.count(tenant, time.of(tenant.tenantId, connection.present())) === 0
            ? 'nothing'
            : 'due'
        })
        if (found === 'nothing') return { executions: [], remaining: 0 }
        // Not one execution of a user who is being disabled is handed out: they are all cancelled first.
        if (found === 'stopping') await stops.finishAll(tenant)
        const page = await time.write(tenant, (now) =>
          stops.isAnyStopping(tenant) ? null : hand(tenant, { limit, deliver, now }),
        )
        if (page) return page
      }
    },

    confirmExecution: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const confirmation = decide(confirmations.facts(tenant, ids), now)
        if (confirmation.kind === 'recorded') confirmations.record(tenant, confirmation, now)
        if (confirmation.kind === 'refused') keep(tenant, confirmation, now)
        return confirmation
      }),

    // One write after the other is dated and committed.
    ...createListings(driver, { earliest: EARLIEST, isSettled: () => true }),
  }
}

const EARLIEST = query<{ first: string | null }>(
  `select min(e.execution_id) as first from tenants t cross join executions e on e.tenant_id = t.tenant_id
   where ${OF_TENANT} and e.created_at >= :since`,
)

function prepare({ db }: Connection) {
  return {
    ...preparedAll(db, { seal: SEAL }),
    // The plus keeps SQLite from reading the tenant's whole index for each of them.
    deliver: db.prepare(
      `update executions
       set status = d.value ->> 1, delivered_count = d.value ->> 2, lease_expires_at = d.value ->> 3
       from json_each(:delivered) d where execution_id = d.value ->> 0 and +tenant_id = :tenant`,
    ),
    forgetCounts: db.prepare('delete from open_counts where tenant_id = :tenant and n = 0'),
  }
}

// What a poll hands out. Open executions are in one index by the end of their lease (sql/0009_load.sql), and triggers
// count them by that end (sql/0010_open_counts.sql). So a poll never reads executions under a lease, and never counts
// the rest one by one.

/** `unleasedAt` for a row of open_counts, where 0 stands for never delivered: that lease is over at any time. */
const IS_DUE = `tenant_id = :tenant and (lease_expires_at <= :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})`

/** A place after every execution. */
const END = { created_at: 2n ** 62n, execution_id: '' }

function createDueList(db: Database) {
  const sql = {
    count: db.prepare<object, bigint>(`select coalesce(sum(n), 0) from open_counts where ${IS_DUE}`).pluck(),
    leases: db
      .prepare<object, bigint>(
        `select lease_expires_at from open_counts where ${IS_DUE} and n > 0 order by lease_expires_at`,
      )
      .pluck(),
    underLease: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION}
       where e.tenant_id = :tenant and ${IS_OPEN} and e.lease_expires_at is nullif(:lease, 0)
         and (e.created_at, e.execution_id) < (:created_at, :execution_id)
       order by e.created_at, e.execution_id limit :limit`,
    ),
  }
  const at = ({ tenantId }: Tenant, now: Instant) => ({ tenant: tenantId, now })

  return {
    /** How many are due. */
    count: (tenant: Tenant, now: Instant): number => Number(sql.count.get(at(tenant, now))),

    /** The oldest due executions, in the order of creation. */
    first(tenant: Tenant, now: Instant, limit: number): ExecutionRow[] {
      let found: ExecutionRow[] = []
      for (const lease of sql.leases.all(at(tenant, now))) {
        // Leases follow the order of creation, as polls did, so most hold nothing older than what was found already.
        const { created_at, execution_id } = found[limit - 1] ?? END
        const older = sql.underLease.all({ tenant: tenant.tenantId, lease, created_at, execution_id, limit })
        if (older.length > 0) found = [...found, ...older].sort(byCreation).slice(0, limit)
      }
      return found
    },
  }
}

function byCreation(a: ExecutionRow, b: ExecutionRow): number {
  if (a.created_at !== b.created_at) return a.created_at < b.created_at ? -1 : 1
  return a.execution_id < b.execution_id ? -1 : 1
}

/** The reads and writes of a confirmation, by hand: as steps, they take a fifth more. */
function createConfirmations(db: Database, ledger: Ledger) {
  const asked = preparedAll(db, ASKED)
  const recorded = preparedAll(db, RECORDED)
  return {
    facts({ tenantId }: Tenant, ids: { executionId: string; partnerOrderId: string }): ExecutionFacts {
      const params = { tenant: tenantId, execution_id: ids.executionId, order: ids.partnerOrderId }
      return seenOf({
        execution: asked.execution.get(params),
        window: asked.window.get(params),
        trade: asked.trade.get(params),
        lateFills: asked.lateFills.all(params),
        holder: asked.holder.get(params),
        latest: asked.latest.get(params),
      })
    },

    /** It decides a late fill of the same order. */
    record({ tenantId }: Tenant, confirmation: Recorded, now: Instant): void {
      const { execution, window, trade, settles } = confirmation
      const { executionId, planId, status } = execution
      recorded.settle.run({ tenant: tenantId, execution_id: executionId, status })
      recorded.trade.run(tradeParams({ tenantId, planId }, trade))
      ledger.write(window)
      if (settles !== null) recorded.decide.run({ report_id: settles, now, reason: RECORDED_SINCE })
    },
  }
}

/** Keeps a refused fill as a late fill, or counts it; does nothing if the same one is already kept. */
function createKeeper(db: Database) {
  const sql = {
    keep: db.prepare(`${insertInto('late_reports')} on conflict (execution_id, fingerprint) do nothing`),
    count: db.prepare(
      'update executions set unkept_reports = unkept_reports + 1 where execution_id = :execution_id',
    ),
  }
  return (tenant: Tenant, refused: Refused, now: Instant): void => {
    const { execution, keeping } = refused
    if (keeping === 'counted') sql.count.run({ execution_id: execution.executionId })
    if (keeping === 'new') sql.keep.run(lateFillParams(refused, tenant.tenantId, now))
  }
}

// Writes when tenants last polled (../writes.ts).

export function pollNotesOf({ db, write }: Connection): PollNotes {
  const insert = db.prepare(
    `insert into polls (tenant_id, polled_at) select value ->> 0, value ->> 1 from json_each(:polls) where true
     on conflict do update set polled_at = excluded.polled_at`,
  )
  return createPollNotes((polls) => write(() => insert.run({ polls: JSON.stringify(polls) })))
}
