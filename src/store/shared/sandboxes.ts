// Test environments: their time, their advances, tranches fired on request, and resets.

import type { Caller, Tenant } from '../../core/partner.ts'
import { notFound } from '../../core/problem.ts'
import {
  advanceUnderWay,
  EXECUTIONS_MAX,
  liveIsNeverWiped,
  planFiresNothing,
  refuseLive,
  refuseTooFar,
  sandboxFull,
  tooMuchToWipe,
  WIPE_ROWS_MAX,
} from '../../core/sandbox.ts'
import { type Instant, later, plus } from '../../core/time.ts'
import { LONGEST_WINDOW_MS } from '../../core/window.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import { IS_OPEN } from '../sql/fragments.ts'
import { atOrNull, countOf, type Query, query } from '../statement.ts'
import type { AuditEntry, Sandbox, SandboxStore, Wiped } from '../store.ts'
import { type Base, given, ofTenant, type ReadTx, type Scope, type Steps, type Tx } from '../transaction.ts'
import { addAudit } from './audit.ts'
import { countNoUnknown } from './ledger.ts'
import { runPage } from './pages.ts'
import { writeWakeUps } from './passes.ts'

type Shift = { offset_ms: bigint; reported_until: bigint }
const SHIFT = query<Shift>('select * from sandboxes where tenant_id = :tenant')

/** The time of a tenant when the real one is `real`. */
export const shifted = (shift: Shift | Record<keyof Shift, number> | undefined, real: Instant): Instant =>
  shift ? later(plus(real, Number(shift.offset_ms)), Number(shift.reported_until) as Instant) : real

/** The tenant's time, for reads: a write uses its `times`. */
export function* timeOf(tx: ReadTx, tenantId: number): Steps<Instant> {
  const [real, shift] = yield* tx.together(tx.present, tx.get(SHIFT, { tenant: tenantId }))
  return shifted(shift, real)
}

/** The tenant's time when the real one is `real`. */
export function* timeAt(tx: Tx, tenantId: number, real: Instant): Steps<Instant> {
  return shifted(yield* tx.get(SHIFT, { tenant: tenantId }), real)
}

/** Whether a tenant has a time of its own. */
export function* isSandbox(tx: Tx, tenantId: number): Steps<boolean> {
  return (yield* tx.get(SHIFT, { tenant: tenantId })) !== undefined
}

/** The tenant's own environment goes into the row, where a check constraint accepts only test. */
const OPEN = query(
  `insert into sandboxes (tenant_id, environment)
  select tenant_id, environment from tenants where tenant_id = :tenant on conflict do nothing`,
)
const MOVED = query<TenantRow & Shift>(
  `select s.*, t.partner_slug from sandboxes s join tenants t on t.tenant_id = s.tenant_id
   where s.offset_ms > 0 order by s.tenant_id`,
)
const MOVE = query('update sandboxes set offset_ms = offset_ms + :by where tenant_id = :tenant')
const planIdOf = (row: { plan_id: bigint }): number => Number(row.plan_id)
const PLAN = query('select plan_id from plans where tenant_id = :tenant and partner_plan_id = :id', planIdOf)
const PLANS = query('select count(*) as n from plans where tenant_id = :tenant', countOf)
/** Counted only up to the largest number allowed. */
const EXECUTIONS = query(
  'select count(*) as n from (select 1 from executions where tenant_id = :tenant limit :most) x',
  countOf,
)
/**
 * The number of a wake-up whose work is the last entry of the audit log, so that no other ever has it, even if it is
 * written long after that entry. Below zero, because passes of the scheduler count up from one; and below the numbers
 * that earlier versions used.
 */
const WAKE_UP_ID = query(`select ${-(2 ** 40)} - max(audit_id) as n from audit`, countOf)
/** Along the index of open executions, which SQLite uses only where its condition is written out. */
const EXPIRED = query(
  `select count(*) as n from executions e where e.tenant_id = :tenant and ${IS_OPEN} and e.status = 'sent'
     and e.lease_expires_at > :from and e.lease_expires_at <= :to`,
  countOf,
)

/** The parts that each store implements itself. */
export type OwnSandboxes = {
  /** Null while the tenant's sandbox is being advanced; else the function that lets its next advance begin. */
  takeAdvance: (tenantId: number) => Promise<(() => void | Promise<void>) | null>
  /** Writes that delete rows to which others refer. */
  wipe: Base['write']
  /** Further rows that a reset deletes. */
  alsoWiped: readonly WipedRows[]
}

/** While the service is frozen, a sandbox fires nothing either: it does what the service does. */
const firing = (tenant: Tenant): Scope => ({ ...ofTenant(tenant), acts: true })
/** For a call, refused once its key has ended, or for an operator. */
const firingFor = (caller: Caller): Scope => ({ ...firing(caller), key: caller.keyId })
const wiping = (caller: Caller): Scope => ({ ...ofTenant(caller), key: caller.keyId, alone: 'tenants' })

export function createSandboxStore({ look, read, write }: Base, specific: OwnSandboxes): SandboxStore {
  return {
    listSandboxes: () =>
      read(function* (tx) {
        const [real, rows] = yield* tx.together(tx.clock, tx.all(MOVED))
        return rows.map((row) => sandboxOf(row, tenantOf(row), real))
      }),

    readSandbox: (tenant) =>
      read(function* (tx) {
        const [real, shift] = yield* tx.together(tx.present, tx.get(SHIFT, { tenant: tenant.tenantId }))
        return sandboxOf(shift, tenant, real)
      }),

    async beginAdvance(tenant, byMs, entry) {
      const end = await specific.takeAdvance(tenant.tenantId)
      if (!end) throw advanceUnderWay()
      try {
        return await write(function* (tx) {
          const { real } = yield* tx.times
          const sandbox = yield* open(tx, tenant, real)
          refuseTooFar(sandbox, byMs)
          const room = yield* roomIn(tx, tenant)
          const plans = (yield* tx.get(PLANS, { tenant: tenant.tenantId })) ?? 0
          const wakeUpId = yield* noteWork(tx, entry, real)
          return { sandbox, plans, room, wakeUpId, end: async () => end() }
        }, firingFor(tenant))
      } catch (error) {
        await end()
        throw error
      }
    },

    async findNextStop({ tenantId }, { after, leadMs, togetherMs }) {
      const asked = { tenant: tenantId, after, lead: leadMs, together: togetherMs }
      return (await look((tx) => tx.get(NEXT_STOP, asked))) ?? null
    },

    listSandboxDue: ({ tenantId }, { now, livePrice, leadMs }) =>
      look((tx) => tx.all(DUE, { tenant: tenantId, now, lead: leadMs, price: livePrice })),

    async moveSandbox(tenant, byMs, { wakeUpId, planIds, decisions }) {
      refuseLive(tenant)
      return write(
        function* (tx) {
          const { real } = yield* tx.times
          // The times read earlier in this transaction are from before the move.
          const [, now] = yield* tx.together(
            tx.run(MOVE, { tenant: tenant.tenantId, by: byMs }),
            timeAt(tx, tenant.tenantId, real),
          )
          const page = { planIds, tenants: [tenant.tenantId], decisions }
          const { fired, ...counts } = yield* runPage(tx, page, given({ real, of: () => now }))
          yield* writeWakeUps(tx, wakeUpId, fired)
          return counts
        },
        { ...firing(tenant), alone: 'tenants', onceMore: true },
      )
    },

    countExpiredLeases: async (tenant, from, to) =>
      (await look((tx) => tx.get(EXPIRED, { tenant: tenant.tenantId, from, to }))) ?? 0,

    fireInSandbox: (tenant, partnerPlanId, decisions, entry) =>
      write(
        function* (tx) {
          const { real } = yield* tx.times
          const { now } = yield* open(tx, tenant, real)
          const planId = yield* tx.get(PLAN, { tenant: tenant.tenantId, id: partnerPlanId })
          if (!planId) throw notFound('plan', partnerPlanId)
          yield* roomIn(tx, tenant)
          const page = { planIds: [planId], tenants: [tenant.tenantId], decisions }
          const { fired } = yield* runPage(tx, page, given({ real, of: () => now }))
          const [first] = fired
          if (!first) throw planFiresNothing(partnerPlanId)
          const wakeUpId = yield* noteWork(tx, entry, real)
          yield* writeWakeUps(tx, wakeUpId, fired)
          return { fired: first, wakeUpId }
        },
        { ...firingFor(tenant), onceMore: true },
      ),

    async resetSandbox(tenant, entry) {
      refuseLive(tenant)
      return specific.wipe(function* (tx) {
        const { real } = yield* tx.times
        yield* open(tx, tenant, real)
        if (tenant.keyId !== undefined) yield* refuseTooMuch(tx, tenant)
        const wiped = yield* wipe(tx, tenant, { real, also: specific.alsoWiped })
        yield* addAudit(tx, entry, real)
        return wiped
      }, wiping(tenant))
    },
  }
}

/** Gives the tenant a clock of its own. The table refuses that for a live tenant too, without words for it. */
function* open(tx: Tx, tenant: Tenant, real: Instant): Steps<Sandbox> {
  refuseLive(tenant)
  const of = { tenant: tenant.tenantId }
  const [, shift] = yield* tx.together(tx.run(OPEN, of), tx.get(SHIFT, of))
  if (!shift) throw new Error(`tenant ${tenant.tenantId} has no sandbox`)
  return sandboxOf(shift, tenant, real)
}

/** How many more executions the environment may hold. Throws sandbox_full. */
function* roomIn(tx: Tx, { tenantId }: Tenant): Steps<number> {
  const held = (yield* tx.get(EXECUTIONS, { tenant: tenantId, most: EXECUTIONS_MAX })) ?? 0
  const room = EXECUTIONS_MAX - held
  if (room <= 0) throw sandboxFull()
  return room
}

const sandboxOf = (shift: Shift | undefined, tenant: Tenant, real: Instant): Sandbox => ({
  tenant,
  offsetMs: Number(shift?.offset_ms ?? 0n),
  now: shifted(shift, real),
})

/** Adds the entry of an advance or a fire to the audit log, and returns the number of its wake-up. */
function* noteWork(tx: Tx, entry: AuditEntry, real: Instant): Steps<number> {
  const [, wakeUpId] = yield* tx.together(addAudit(tx, entry, real), tx.get(WAKE_UP_ID))
  return wakeUpId as number
}

// The plans of a sandbox that a pass must look at. Their instants are in their tenant's time, so no range along an
// index finds them all: they are checked one by one, which takes a third of a microsecond each.

/** Whether a pass must look at a schedule `s` at `now` (SQL), at `:price` or none, `:lead` before a window's end. */
const isDueAt = (now: string): string =>
  `s.awake = 1 and (s.next_run_at <= ${now}
     or (s.fireable >= s.floor and s.window_start <= ${now} and s.window_end <= ${now} + :lead)
     or (cast(:price as bigint) is null and s.clock_at <= ${now}) or s.limit_price >= :price)`

/** Later than every instant. */
const NEVER = 2n ** 62n
const STOPS = ['s.next_run_at', 's.window_end', 's.window_end - :lead', 's.clock_at']
const after = (at: string): string => `case when ${at} > :after then ${at} else ${NEVER} end`

/**
 * The first instant after `:after` at which a plan of a tenant must be looked at; of further such instants within
 * `:together`, the last, counting only the next one of each plan. Reads every plan of the tenant once.
 */
const NEXT_STOP = query(
  ({ least }) => `
  with stops as materialized (
    select ${least(...STOPS.map(after))} as at
    from plans p join schedules s on s.plan_id = p.plan_id where p.tenant_id = :tenant and s.awake = 1)
  select max(at) as at from stops where at < ${NEVER} and at <= (select min(at) from stops) + :together`,
  atOrNull,
)

const DUE = query(
  `select p.plan_id from plans p join schedules s on s.plan_id = p.plan_id
   where p.tenant_id = :tenant and ${isDueAt('cast(:now as bigint)')} order by p.plan_id`,
  planIdOf,
)

/** The due plans of every sandbox, each by its own time when the real one is `:now`. */
export const ALL_SANDBOX_DUE = `
  select p.plan_id
  from (select tenant_id, cast(:now as bigint) + offset_ms as shifted, reported_until from sandboxes) b
    cross join plans p cross join schedules s
  where p.tenant_id = b.tenant_id and s.plan_id = p.plan_id
    and ${isDueAt('case when b.shifted > b.reported_until then b.shifted else b.reported_until end')}`

/** Tables, with a condition for their rows. */
export type Rows = readonly (readonly [table: string, rows: string])[]

/** The rows to delete, referring ones first. The tenant's keys, webhook and clock stay. */
export const WIPED: Rows = [
  ['webhook_events', 'tenant_id = :tenant'],
  ['webhook_deliveries', 'tenant_id = :tenant'],
  ['adjustments', 'tenant_id = :tenant'],
  ['late_reports', 'tenant_id = :tenant'],
  ['trades', 'tenant_id = :tenant'],
  ['executions', 'tenant_id = :tenant'],
  ['schedules', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['windows', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['stops', 'tenant_id = :tenant'],
  ['plans', 'tenant_id = :tenant'],
  ['consents', 'user_id in (select user_id from users where tenant_id = :tenant)'],
  ['users', 'tenant_id = :tenant'],
]

type WipedRows = { table: string; all: Query<never> }

/** Must be called once, when a module is loaded. */
export const wipedRows = (rows: Rows): WipedRows[] =>
  rows.map(([table, which]) => ({ table, all: query(`delete from ${table} where ${which}`) }))

/** The tables that grow without end, which have the most rows. */
const MANY = new Set(['users', 'consents', 'plans', 'windows', 'executions', 'trades'])
/** The approximate number of rows that a reset would delete; each table is counted up to one row too many. */
const HELD = query(
  `select ${WIPED.filter(([table]) => MANY.has(table))
    .map(([table, rows]) => `(select count(*) from (select 1 from ${table} where ${rows} limit :most) x)`)
    .join(' + ')} as n`,
  countOf,
)

/** An operator may wipe any number of rows: a command has a process of its own. */
function* refuseTooMuch(tx: Tx, { tenantId, partnerSlug }: Tenant): Steps<void> {
  const held = yield* tx.get(HELD, { tenant: tenantId, most: WIPE_ROWS_MAX + 1 })
  if (held === undefined || held > WIPE_ROWS_MAX) throw tooMuchToWipe(partnerSlug)
}

const MARK = query('update sandboxes set resetting = :resetting where tenant_id = :tenant')
const WIPE = wipedRows(WIPED)
/**
 * The records that a reset keeps of deleted executions, in this order: for each plan's name the latest start of a
 * window that had any. Starts older than every window of today, after which the name's next window starts anyway, are
 * kept as one instant for the whole environment, so that resets do not add up.
 */
const KEEP_USED_STARTS = [
  `insert into used_before_reset (tenant_id, partner_plan_id, window_start)
   select p.tenant_id, p.partner_plan_id, max(e.window_start)
   from plans p join executions e on e.plan_id = p.plan_id where p.tenant_id = :tenant
   group by p.tenant_id, p.partner_plan_id
   on conflict (tenant_id, partner_plan_id) do update set window_start = excluded.window_start
     where excluded.window_start > used_before_reset.window_start`,
  `update sandboxes set used_until = (
     select max(x.used) from (
       select sandboxes.used_until as used
       union all select window_start from used_before_reset
         where tenant_id = :tenant and window_start < :real + sandboxes.offset_ms - ${LONGEST_WINDOW_MS}) x)
   where tenant_id = :tenant`,
  `delete from used_before_reset where tenant_id = :tenant
     and window_start <= (select used_until from sandboxes where tenant_id = :tenant)`,
].map((statement) => query(statement))

/** Alone in the tenant. While it is marked, records kept forever can be deleted. No purchase is later than `real`. */
function* wipe(
  tx: Tx,
  whose: Tenant,
  { real, also }: { real: Instant; also: readonly WipedRows[] },
): Steps<Wiped> {
  const tenant = whose.tenantId
  if ((yield* tx.run(MARK, { tenant, resetting: 1 })) !== 1) throw liveIsNeverWiped()
  // No report of an unknown execution is left to decide on.
  yield* countNoUnknown(tx, whose)
  for (const statement of KEEP_USED_STARTS) yield* tx.run(statement, { tenant, real })
  const counts = yield* tx.together(...[...WIPE, ...also].map(({ all }) => tx.run(all, { tenant })))
  yield* tx.run(MARK, { tenant, resetting: 0 })
  const gone = Object.fromEntries(WIPE.map(({ table }, i) => [table, counts[i]])) as Wiped
  const { users, plans, windows, executions, trades } = gone
  return { users, plans, windows, executions, trades }
}
