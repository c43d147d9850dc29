// Executions as partners poll them on a server: a twin of ../sqlite/executions.ts, because every purchase goes this
// way. Confirmations of a tenant share a transaction (confirmations.ts).

import { type Execution, LEASE_AHEAD_MAX_MS } from '../../core/execution.ts'
import type { Caller, Tenant } from '../../core/partner.ts'
import { standsStill, writesLost } from '../../core/standstill.ts'
import { type Instant, MINUTE_MS, plus } from '../../core/time.ts'
import { isIntact } from '../digests.ts'
import { createPollNotes, type PollNotes } from '../monitoring.ts'
import { type ExecutionRow, executionOf } from '../rows/ledger.ts'
import { sealedProblem } from '../seal.ts'
import { createListings, type Levers } from '../shared/executions.ts'
import { finishStops, isAnyStopping } from '../shared/users.ts'
import { IS_OPEN, OF_TENANT, SELECT_EXECUTION, unleasedAt } from '../sql/fragments.ts'
import { instant, query } from '../statement.ts'
import type { ExecutionStore } from '../store.ts'
import { columnsToAdd } from '../tables.ts'
import type { Base } from '../transaction.ts'
import { callOf } from '../transaction.ts'
import { createConfirm } from './confirmations.ts'
import { within } from './driver.ts'
import type { Connection, WriteTx } from './server/connection.ts'
import { LOCK } from './server/locks.ts'
import { STILL_SQL, type StillState } from './server/month-gate.ts'
import { arraysFor, arraysOf, namesOf, rowsIn, TENANT_NOW_SQL, type Tx } from './server/pipeline.ts'

// Without the order and the offset, the planner may look for the least id in the whole table, and would read all of it
// for each tenant that has none.
const EARLIEST = query<{ first: string | null }>(
  `select min((select min(e.execution_id) from (
     select o.execution_id from executions o where o.tenant_id = t.tenant_id and o.created_at >= :since
     order by o.created_at, o.execution_id offset 0) e)) as first
   from tenants t where ${OF_TENANT}`,
)

/** No write takes longer than this: nothing more is added among what was created before. */
const WRITE_MAX_MS = 5 * MINUTE_MS

export function createExecutionStore(
  connection: Connection,
  driver: Base,
  notes: PollNotes,
): Omit<ExecutionStore, keyof Levers> {
  const poll = createPoll(connection, { driver, notes })
  const confirm = createConfirm(connection)

  return {
    deliverDue: (tenant, limit, deliver) => poll(tenant, { limit, deliver }),

    confirmExecution: (tenant, ids, decide) => confirm(tenant, ids, decide),

    ...createListings(driver, { earliest: EARLIEST, isSettled }),
  }
}

type Read = Awaited<ReturnType<ExecutionStore['readExecutions']>>

/**
 * Whether a page is full, and older than every write that is under way: writes do not end in the order in which they
 * read the clock.
 */
function isSettled({ executions, now }: Read, limit: number): boolean {
  const last = executions[limit - 1]
  return last !== undefined && last.createdAt < plus(now, -WRITE_MAX_MS)
}

// What a poll hands out. Open executions are in one index by the end of their lease, those never delivered under 0, so
// a poll never reads executions under a lease.

/**
 * How many of those that a poll leaves are counted: the next poll gets far fewer, and counting a million takes time.
 */
const REMAINING_MAX = 10_000

const OPEN = `e.tenant_id = :tenant and ${IS_OPEN}`
/** Phrased exactly like this, because an index has the same condition. */
const LEASE = 'coalesce(e.lease_expires_at, 0)'
/** A lease that ends after this counts as over as well. */
const ahead = (now: string): string => `${now} + ${LEASE_AHEAD_MAX_MS}`

const firstLease = (where: string): string =>
  `(select ${LEASE} from executions e where ${OPEN} and ${where} order by ${LEASE} limit 1)`

/** The leases that are over, one step along the index for each. */
const LEASES = `leases (lease) as (
  select coalesce(${firstLease(`${LEASE} <= :now::bigint`)}, ${firstLease(`${LEASE} > ${ahead(':now::bigint')}`)})
  union all
  select coalesce(${firstLease(`${LEASE} > leases.lease and ${LEASE} <= :now`)},
    ${firstLease(`${LEASE} > greatest(leases.lease, ${ahead(':now')})`)})
  from leases where leases.lease is not null)`

/** Leases follow the order of creation, as polls did, and what was never delivered is the youngest. */
const RANKED = `ranked as (
  select lease, row_number() over (order by lease = 0, lease) as place from leases where lease is not null)`
/** The oldest are taken from this many leases; from the others, only what is older still, which is little. */
const NEAR = 4

const under = (lease: string, bound = ''): string => `
  select e.created_at, e.execution_id from executions e
  where ${OPEN} and ${LEASE} = ${lease} ${bound}
  order by e.created_at, e.execution_id limit :limit`
/** Older than the last of those found, or anything when they are too few. */
const OLDER = `and (e.created_at, e.execution_id) <
  (coalesce(last.created_at, ${2n ** 62n}), coalesce(last.execution_id, ''))`

const FIRST = query<ExecutionRow>(`
  with recursive ${LEASES}, ${RANKED},
  near as materialized (
    select o.* from ranked r cross join lateral (${under('r.lease')}) o where r.place <= ${NEAR}
    order by o.created_at, o.execution_id limit :limit),
  last as materialized (
    select * from near order by created_at, execution_id offset greatest(:limit - 1, 0) limit 1),
  far as (
    select o.* from ranked r left join last on true cross join lateral (${under('r.lease', OLDER)}) o
    where r.place > ${NEAR}),
  found as (
    select execution_id from (select * from near union all select * from far) o
    order by created_at, execution_id limit :limit)
  ${SELECT_EXECUTION}
  where e.execution_id = any(array(select execution_id from found)) and +e.tenant_id = :tenant and ${IS_OPEN} and ${unleasedAt(':now')}
  order by e.execution_id
  for no key update of e`)

// Both orders are only for the planner: without them, it may scan the table, most of which is history.
const overdue = (where: string): string =>
  `(select from executions e where ${OPEN} and ${LEASE} ${where} order by ${LEASE} limit ${REMAINING_MAX})`
const COUNT = query<{ n: bigint }>(`
  select least(count(*), ${REMAINING_MAX}) as n
  from (${overdue('<= :now::bigint')} union all ${overdue(`> ${ahead(':now::bigint')}`)}) due`)

/** The rows are locked in the order of their ids, as everywhere. */
const byCreation = (a: ExecutionRow, b: ExecutionRow): number =>
  Number(a.created_at - b.created_at) || (a.execution_id < b.execution_id ? -1 : 1)

/** The last two are null in a database that takes writes. */
type Look = StillState & {
  clock: bigint
  due: boolean
  sealed_at: bigint | null
  moved_to: string | null
}
// Read from the two ends of the index instead of with `exists`: a planner that expects many matches would search the
// table itself for one.
const endOf = (order: 'asc' | 'desc'): string =>
  `(select ${LEASE} from executions e where ${OPEN} order by ${LEASE} ${order} limit 1)`
const LOOK = query<Look>(`
  with t as materialized (${TENANT_NOW_SQL})
  select t.clock, coalesce(${endOf('asc')} <= t.now or ${endOf('desc')} > ${ahead('t.now')}, false) as due, s.at as sealed_at, s.moved_to,
    ${STILL_SQL}
  from t left join sealed s on true`)

const dueList = {
  /** Whether anything is due, and what the clock says; `clock` is the time of a test's clock. */
  look: (tx: Tx, { tenantId }: Tenant, clock: Instant | null): Promise<Look | undefined> =>
    tx.get(LOOK, { tenant: tenantId, clock }),

  /**
   * The oldest of what is due, in the order of creation, locked. It waits for rows that somebody else holds: only then
   * is it known whether they are still due (docs/decisions/commits.md#polls-wait-for-locked-rows).
   */
  first: async (tx: Tx, { tenantId }: Tenant, now: Instant, limit: number) =>
    (await tx.all(FIRST, { tenant: tenantId, now, limit })).sort(byCreation),

  /** How many are due, up to REMAINING_MAX. */
  count: async (tx: Tx, { tenantId }: Tenant, now: Instant): Promise<number> =>
    Number((await tx.get(COUNT, { tenant: tenantId, now }))?.n),
}

// A poll: first looks without locks, because most find nothing; then takes its tenant's turn, and leases what is due.

type DuePage = { executions: Execution[]; remaining: number }
type Handing = { limit: number; deliver: (execution: Execution, now: Instant) => Execution }

const TURN = query(`select pg_advisory_xact_lock(${LOCK.poll}, :tenant::int)`)

const LEASED = arraysFor('executions', ['execution_id', 'status', 'delivered_count', 'lease_expires_at'])
const LEASE_DUE = query(
  `update executions
   set status = r.status, delivered_count = r.delivered_count, lease_expires_at = r.lease_expires_at
   from ${rowsIn(LEASED, 'r')}
   where executions.execution_id = r.execution_id and +executions.tenant_id = :tenant`,
)
const leasedRow = (one: Execution) => ({
  execution_id: one.executionId,
  status: one.status,
  delivered_count: one.deliveredCount,
  lease_expires_at: one.leaseExpiresAt,
})

function createPoll(connection: Connection, { driver, notes }: { driver: Base; notes: PollNotes }) {
  const { clock, look, write } = connection

  /** Leases the first `limit` due executions, and counts the rest. Null while a user is being disabled. */
  async function hand(tx: WriteTx, tenant: Tenant, { limit, deliver }: Handing): Promise<DuePage | null> {
    const { tenantId } = tenant
    const [times] = await Promise.all([tx.times, tx.run(TURN, { tenant: tenantId })])
    const now = times.of(tenantId)
    // Checked once the rows are locked: a disable that comes later finds them delivered, and cancels them.
    const [due, isStopping] = await Promise.all([
      dueList.first(tx, tenant, now, limit),
      within(tx, (steps) => isAnyStopping(steps, tenant)),
    ])
    if (isStopping) return null
    // A damaged row must not lead to a purchase. The check names it, and it stays unchanged.
    const sound = due.filter((row) => isIntact('executions', row))
    const executions = sound.map((row) => deliver(executionOf(row), now))
    const leased = { tenant: tenantId, ...arraysOf(LEASED, executions.map(leasedRow)) }
    if (executions.length > 0) tx.unwaited(tx.run(LEASE_DUE, leased))
    return { executions, remaining: (await dueList.count(tx, tenant, now)) - (due.length - sound.length) }
  }

  return async (tenant: Caller, handing: Handing): Promise<DuePage> => {
    for (;;) {
      const [state, isStopping] = await look(
        (tx) =>
          Promise.all([
            dueList.look(tx, tenant, clock.parameter()),
            within(tx, (steps) => isAnyStopping(steps, tenant)),
          ]),
        callOf(tenant),
      )
      if (state) notes.note(tenant, instant(state.clock))
      // A poll that finds nothing writes nothing, and so would not meet the seal.
      if (state?.moved_to != null && state.sealed_at !== null)
        throw sealedProblem({ at: instant(state.sealed_at), movedTo: state.moved_to })
      if (state?.restored) throw standsStill(state.restored)
      if (state?.lost) throw writesLost()
      // Not one execution of a user who is being disabled is handed out: they are all cancelled first.
      if (isStopping) await finishStops(driver, tenant)
      else if (!state?.due) return { executions: [], remaining: 0 }
      const page = await write((tx) => hand(tx, tenant, handing), callOf(tenant))
      if (page) return page
    }
  }
}

// Writes when tenants last polled (../monitoring.ts).

const POLLED = arraysFor('polls', columnsToAdd('polls'))
const PUT = query(
  `insert into polls (${namesOf(POLLED)}) select * from ${rowsIn(POLLED, 'r')} order by tenant_id
   on conflict (tenant_id) do update set polled_at = excluded.polled_at`,
)

export function pollNotesOf({ write }: Connection): PollNotes {
  return createPollNotes((polls) => {
    const rows = polls.map(([tenant_id, polled_at]) => ({ tenant_id, polled_at }))
    return write((tx) => tx.run(PUT, arraysOf(POLLED, rows)))
  })
}
