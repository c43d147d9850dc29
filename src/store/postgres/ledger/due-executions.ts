// What a poll is handed. Executions that are open lie in one index by the end of their lease, those that were never
// delivered under 0: what is out under a lease is never stepped over.

import type { Instant } from '../../../core/instant.ts'
import { LEASE_AHEAD_MAX_MS } from '../../../core/lease.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { ExecutionRow } from '../../rows/execution.ts'
import { SELECT_EXECUTION } from '../../sql/executions.ts'
import { IS_OPEN, unleasedAt } from '../../sql/open-due-and-stuck.ts'
import { TENANT_NOW_SQL } from '../sandbox/tenant-time.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

/**
 * How many of those that a poll leaves are counted: the next poll gets far fewer, and counting a million takes time.
 */
export const REMAINING_MAX = 10_000

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

/** The last two are null in a database that takes writes; `lost` is whether answered writes are, and undecided. */
export type Look = {
  clock: bigint
  due: boolean
  lost: boolean
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
    exists (select from lost_writes where decided_at is null) as lost
  from t left join sealed s on true`)

export const dueList = {
  /** Whether anything is due, and what the clock says; `clock` is the time of a test's clock. */
  look: (tx: Tx, { tenantId }: Tenant, clock: Instant | null): Promise<Look | undefined> =>
    tx.get(LOOK, { tenant: tenantId, clock }),

  /**
   * The oldest of what is due, in the order of creation, locked. It waits for rows that somebody else holds: only then
   * is it known whether they are still due (docs/decisions/commits.md#a-poll-waits-for-what-it-would-hand-out).
   */
  first: async (tx: Tx, { tenantId }: Tenant, now: Instant, limit: number) =>
    (await tx.all(FIRST, { tenant: tenantId, now, limit })).sort(byCreation),

  /** How many are due, up to REMAINING_MAX. */
  count: async (tx: Tx, { tenantId }: Tenant, now: Instant): Promise<number> =>
    Number((await tx.get(COUNT, { tenant: tenantId, now }))?.n),
}
