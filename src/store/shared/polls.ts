// Executions as partners poll them: a poll looks first, because most find nothing and write nothing, and then leases
// the due ones, in two ranges of one index: expired leases, and executions that were never delivered.

import { type Execution, LEASE_AHEAD_MAX_MS } from '../../core/execution.ts'
import type { Frozen } from '../../core/frozen.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import { refuseFrozen } from '../frozen.ts'
import { type ExecutionRow, executionOf } from '../rows/ledger.ts'
import { IS_OPEN, SELECT_EXECUTION, unleasedAt } from '../sql/fragments.ts'
import { countOf, query } from '../statement.ts'
import type { ExecutionStore } from '../store.ts'
import { insertRows, updateOf } from '../tables.ts'
import { type Base, callOf, type ReadTx, runRows, type Steps, type WriteTx } from '../transaction.ts'
import { createPollNotes, type PollNotes } from '../writes.ts'
import { timeOf } from './sandboxes.ts'
import { finishStops, isAnyStopping } from './users.ts'

/** How many of the executions left by a poll are counted: the next poll gets half as many. */
const REMAINING_MAX = 1_000

const OPEN = `from executions e where e.tenant_id = :tenant and ${IS_OPEN}`
/** Conditions along the index executions_open, each with the order in which its executions are delivered. */
const RANGES = [
  { is: 'e.lease_expires_at <= cast(:now as bigint)', order: 'e.lease_expires_at, e.execution_id' },
  // The clock has been set back since.
  {
    is: `e.lease_expires_at > cast(:now as bigint) + ${LEASE_AHEAD_MAX_MS}`,
    order: 'e.lease_expires_at, e.execution_id',
  },
  // Every lease is null, but without that column a server would not use the index's order.
  { is: 'e.lease_expires_at is null', order: 'e.lease_expires_at, e.created_at, e.execution_id' },
] as const

const eachRange = (part: (range: (typeof RANGES)[number], place: number) => string): string =>
  RANGES.map((range, place) => `select * from (${part(range, place)}) r${place}`).join(' union all ')
/** Without an order, a server that expects many may search the whole table for the first. */
const atMost = (limit: number): string =>
  eachRange(({ is }) => `select 1 as one ${OPEN} and ${is} order by e.lease_expires_at limit ${limit}`)

const HAS_DUE = query(`select count(*) as n from (${atMost(1)}) x`, countOf)
// On a server the row is looked at again once its lock is held: somebody may have leased, confirmed or cancelled it.
const DUE = query<ExecutionRow>(
  ({ forUpdate }) => `
  ${SELECT_EXECUTION}
  where e.execution_id in (
    select execution_id from (${eachRange(
      ({ is, order }, place) =>
        `select e.execution_id, ${place} as place, coalesce(e.lease_expires_at, e.created_at) as at ${OPEN} and ${is}
         order by ${order} limit :limit`,
    )}) x order by place, at, execution_id limit :limit)
    and +e.tenant_id = :tenant and ${IS_OPEN} and ${unleasedAt('cast(:now as bigint)')}
  order by e.execution_id ${forUpdate('e')}`,
)
const COUNT = query(`select count(*) as n from (${atMost(REMAINING_MAX)}) x`, countOf)
const LEASE = updateOf(
  'executions',
  ['execution_id'],
  ['status', 'delivered_count', 'lease_expires_at'],
  'and +executions.tenant_id = :tenant',
)

type Page = Awaited<ReturnType<ExecutionStore['deliverDue']>>
type DeliveryOf = { limit: number; deliver: (execution: Execution, now: Instant) => Execution }

export const createPollStore = (base: Base, polls: PollNotes): Pick<ExecutionStore, 'deliverDue'> => ({
  async deliverDue(tenant, limit, deliver) {
    for (;;) {
      const { found, clock, frozen } = await base.look((tx) => look(tx, tenant), callOf(tenant))
      polls.note(tenant, clock)
      refuseFrozen(frozen, true)
      // No execution of a user who is being disabled is delivered: all are cancelled first.
      if (found === 'stopping') await finishStops(base, tenant)
      if (found === 'nothing') return { executions: [], remaining: 0 }
      const scope = { ...callOf(tenant), acts: true }
      const page = await base.write((tx) => lease(tx, tenant, { limit, deliver }), scope)
      if (page) return page
    }
  },
})

type Looked = { found: 'nothing' | 'stopping' | 'due'; clock: Instant; frozen: Frozen | null }

function* look(tx: ReadTx, tenant: Tenant): Steps<Looked> {
  const { tenantId } = tenant
  const [now, clock, frozen, isStopping] = yield* tx.together(
    timeOf(tx, tenantId),
    tx.clock,
    tx.frozen,
    isAnyStopping(tx, tenant),
  )
  if (isStopping) return { found: 'stopping', clock, frozen }
  const due = yield* tx.get(HAS_DUE, { tenant: tenantId, now })
  return { found: due ? 'due' : 'nothing', clock, frozen }
}

/** Leases the first `limit` due executions, and counts the rest. Null while a user is being disabled. */
function* lease(tx: WriteTx, tenant: Tenant, { limit, deliver }: DeliveryOf): Steps<Page | null> {
  const { tenantId } = tenant
  const [times] = yield* tx.together(tx.times, tx.turn('poll', tenantId))
  const now = times.of(tenantId)
  // Checked once the rows are locked: a later disable finds them delivered, and cancels them.
  const [due, isStopping] = yield* tx.together(
    tx.all(DUE, { tenant: tenantId, now, limit }),
    isAnyStopping(tx, tenant),
  )
  if (isStopping) return null
  const executions = due.sort(byTurn).map((row) => deliver(executionOf(row), now))
  yield* runRows(tx, LEASE, executions.map(leasedParams), { tenant: tenantId })
  const left = (yield* tx.get(COUNT, { tenant: tenantId, now })) ?? 0
  return { executions, remaining: Math.min(left, REMAINING_MAX) }
}

/** Expired leases first, by their end, then executions never delivered, by their creation. */
function byTurn(a: ExecutionRow, b: ExecutionRow): number {
  const [first, second] = [a.lease_expires_at ?? a.created_at, b.lease_expires_at ?? b.created_at]
  const isNew = Number(a.lease_expires_at === null) - Number(b.lease_expires_at === null)
  return isNew || Number(first - second) || (a.execution_id < b.execution_id ? -1 : 1)
}

const leasedParams = (one: Execution) => ({
  execution_id: one.executionId,
  status: one.status,
  delivered_count: one.deliveredCount,
  lease_expires_at: one.leaseExpiresAt,
})

// When tenants last polled (../writes.ts).

const NOTE = query(
  (dialect) =>
    `${insertRows(dialect, 'polls')} order by tenant_id
     on conflict (tenant_id) do update set polled_at = excluded.polled_at`,
)

export const pollNotesOf = ({ write }: Base): PollNotes =>
  createPollNotes((polls) => {
    const rows = polls.map(([tenant_id, polled_at]) => ({ tenant_id, polled_at }))
    return write((tx) => tx.run(NOTE, { rows }))
  })
