// Plans as partners change and read them, and windows that a wrong clock rolled ahead, which an operator brings back.

import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import { type PlanState, startsBuying } from '../../core/plan.ts'
import type { Instant } from '../../core/time.ts'
import { cellDue, leastInstruction } from '../../core/window.ts'
import { refuseFrozen } from '../frozen.ts'
import { type TenantRow, tenantOf, type UserRow, userOf } from '../rows/accounts.ts'
import {
  type PlanRow,
  planOf,
  planParams,
  planStateOf,
  scheduleOf,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { IN_REAL_TIME, OF_TENANT, PLAN_BY_NAME, SELECT_USER } from '../sql/fragments.ts'
import { atOf, atOrNull, query } from '../statement.ts'
import type { ListedPlan, PlanAhead, PlanStore, WindowStore } from '../store.ts'
import { assigned, columnsToAdd, insertInto } from '../tables.ts'
import {
  type Base,
  callOf,
  NOTHING,
  ofTenant,
  type ReadTx,
  type Step,
  type Steps,
  type Tx,
  type WriteTx,
} from '../transaction.ts'
import { addAudit } from './audit.ts'
import {
  cancelOpen,
  closeCurrent,
  currentWindow,
  freeCells,
  lockPlanByName,
  lockPlans,
  openWindow,
  replaceCurrent,
  wake,
} from './ledger.ts'
import { timeOf } from './sandboxes.ts'

const USER = query<UserRow>(SELECT_USER)
const BY_NAME = query<PlanRow>(PLAN_BY_NAME)
const STARTS = query(
  `select distinct window_start as at from executions where plan_id = :plan_id and window_start >= :now
   order by window_start`,
  atOf,
)
/** The latest start that windows under a plan's id may have had in executions that a reset of its sandbox removed. */
const BEFORE_RESET = query(
  `select max(x.used) as at from (
     select window_start as used from used_before_reset
     where tenant_id = :tenant and partner_plan_id = :partner_plan_id
     union all select used_until from sandboxes where tenant_id = :tenant) x`,
  atOrNull,
)
const MINIMUM = query(
  'select min_tranche from partners join tenants using (partner_slug) where tenant_id = :tenant',
  (row: { min_tranche: bigint }) => row.min_tranche as Usd,
)
const INSERT = query(`${insertInto('plans')} returning plan_id`, (row: { plan_id: bigint }) =>
  Number(row.plan_id),
)
const UPDATE = query(
  `update plans set ${assigned(columnsToAdd('plans', 'tenant_id', 'user_id', 'partner_plan_id', 'created_at'))}
   where tenant_id = :tenant_id and plan_id = :plan_id`,
)

type ChangePlan = PlanStore['changePlan']

function* change(
  tx: WriteTx,
  { tenantId, environment }: Tenant,
  { partnerUserId, partnerPlanId }: Parameters<ChangePlan>[1],
  decide: Parameters<ChangePlan>[2],
): Steps<Awaited<ReturnType<ChangePlan>>> {
  const named = { tenant: tenantId, partner_user_id: partnerUserId, partner_plan_id: partnerPlanId }
  const [times, frozen, , userRow, planRow, minTranche, usedBeforeReset = null] = yield* tx.together(
    tx.times,
    tx.frozen,
    lockPlanByName(tx, named),
    tx.get(USER, named),
    tx.get(BY_NAME, named),
    tx.get(MINIMUM, named),
    tx.when(environment === 'test', () => tx.get(BEFORE_RESET, named)),
  )
  const now = times.of(tenantId)
  const user = userRow ? userOf(userRow) : null
  const plan = planRow ? planOf(planRow) : null
  const [window, usedStarts] = plan
    ? yield* tx.together(currentWindow(tx, plan.planId), tx.all(STARTS, { plan_id: plan.planId, now }))
    : [null, []]
  const made = decide({ user, plan, window, usedStarts, usedBeforeReset }, now)
  if (made.plan === plan) return plan
  refuseFrozen(frozen, startsBuying(made, plan))

  const userId = (planRow ?? userRow)?.user_id as bigint
  const params = planParams(made.plan, { tenantId, userId })
  const [written, windowId] = yield* tx.together(
    plan ? tx.run(UPDATE, { ...params, plan_id: plan.planId }) : (tx.get(INSERT, params) as Step<number>),
    made.open ? tx.nextId('windows') : NOTHING,
  )
  const planId = plan?.planId ?? written
  const next = made.open && {
    planId,
    windowId: windowId as number,
    opening: made.open,
    minTranche: minTranche as Usd,
  }
  if (made.cancelsExecutions) yield* cancelOpen(tx, [planId], now)
  if (made.close && next) yield* replaceCurrent(tx, { reason: made.close, now }, next)
  else if (made.close) yield* closeCurrent(tx, planId, { reason: made.close, now })
  else if (next) yield* openWindow(tx, next)
  yield* wake(tx, planId)
  return made.plan
}

type ListedRow = PlanRow & TenantRow

const SELECT_LISTED = `
  select p.*, u.partner_user_id, t.partner_slug, t.environment
  from plans p join users u on u.user_id = p.user_id join tenants t on t.tenant_id = p.tenant_id`
const LIST = query<ListedRow>(
  `${SELECT_LISTED} where p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
)
/** Tenant by tenant: no index begins with the name. */
const NAMED = query<ListedRow>(
  `select p.*, u.partner_user_id, t.partner_slug, t.environment
   from tenants t cross join plans p cross join users u
   where p.tenant_id = t.tenant_id and p.partner_plan_id = :partner_plan_id and u.user_id = p.user_id
   order by p.plan_id`,
)
/** What planStateOf (../rows/ledger.ts) reads. */
const SELECT_STATE = `
  select w.*, s.next_run_at as s_next_run_at, s.fireable as s_fireable, s.floor as s_floor,
    p.*, u.partner_user_id, u.status as user_status
  from plans p join users u on u.user_id = p.user_id
    left join windows w on w.plan_id = p.plan_id and w.closed_at is null left join schedules s on s.plan_id = p.plan_id
  where p.tenant_id = :tenant`
const STATES = query(
  `${SELECT_STATE} and p.partner_plan_id > :after order by p.partner_plan_id limit :limit`,
  planStateOf,
)
const STATE = query(`${SELECT_STATE} and p.partner_plan_id = :partner_plan_id`, planStateOf)
const HELD = query(
  'select held from partners join tenants using (partner_slug) where tenant_id = :tenant',
  (row: { held: bigint }) => row.held === 1n,
)
const CURRENT_WINDOWS = query(
  ({ among }) => `select * from windows where ${among('plan_id', 'plan_ids')} and closed_at is null`,
  windowOf,
)
const WINDOWS = query(
  'select * from windows where plan_id = :plan_id order by window_start, window_id',
  windowOf,
)
export const SCHEDULE = query('select * from schedules where plan_id = :plan_id', scheduleOf)

export const createPlanStore = ({ read, write }: Base): PlanStore => ({
  changePlan: (tenant, ids, decide) =>
    write((tx) => change(tx, tenant, ids, decide), { ...callOf(tenant), onceMore: true }),

  readPlans: (tenant, { after, limit }) =>
    read(function* (tx) {
      const [plans, common] = yield* tx.together(
        tx.all(STATES, { tenant: tenant.tenantId, after: after ?? '', limit }),
        stateIn(tx, tenant),
      )
      return plans.map((plan) => ({ ...plan, ...common }))
    }, callOf(tenant)),

  readPlan: (tenant, partnerPlanId) =>
    read(function* (tx) {
      const plan = yield* tx.get(STATE, { tenant: tenant.tenantId, partner_plan_id: partnerPlanId })
      return plan ? { ...plan, ...(yield* stateIn(tx, tenant)) } : null
    }, callOf(tenant)),

  listPlans: (filter, { after, limit }) =>
    read(function* (tx) {
      return yield* listed(tx, yield* tx.all(LIST, { ...filter, after: after ?? 0, limit }))
    }),

  findPlans: (partnerPlanId) =>
    read(function* (tx) {
      const plans = yield* listed(tx, yield* tx.all(NAMED, { partner_plan_id: partnerPlanId }))
      const parts = yield* tx.together(
        ...plans.map(({ planId }) =>
          tx.together(tx.all(WINDOWS, { plan_id: planId }), tx.get(SCHEDULE, { plan_id: planId })),
        ),
      )
      return plans.map((plan, i) => {
        const [windows = [], schedule = null] = parts[i] ?? []
        return { ...plan, windows, schedule }
      })
    }),
})

/** State shared by every plan of a tenant. */
function* stateIn(tx: ReadTx, { tenantId }: Tenant): Steps<Pick<PlanState, 'held' | 'now'>> {
  const [held = false, now] = yield* tx.together(tx.get(HELD, { tenant: tenantId }), timeOf(tx, tenantId))
  return { held, now }
}

/** Plans as they are listed, each with its current window. */
function* listed(tx: Tx, rows: readonly ListedRow[]): Steps<ListedPlan[]> {
  const current = yield* tx.all(CURRENT_WINDOWS, { plan_ids: rows.map(({ plan_id }) => Number(plan_id)) })
  const windows = new Map(current.map((window) => [window.planId, window]))
  return rows.map((row) => ({
    ...planOf(row),
    tenant: tenantOf(row),
    window: windows.get(Number(row.plan_id)) ?? null,
  }))
}

type AheadRow = PlanRow & TenantRow & WindowRow & { min_tranche: bigint }

/** Every current window that starts in the future and after its plan's start_date, rightly or not, with its plan. */
const SELECT_AHEAD = `
  select w.*, p.*, u.partner_user_id, t.partner_slug, t.environment, r.min_tranche
  from windows w join plans p on p.plan_id = w.plan_id join users u on u.user_id = p.user_id
    join tenants t on t.tenant_id = p.tenant_id join partners r on r.partner_slug = t.partner_slug
  where w.closed_at is null and w.window_start > :now and w.window_start > p.start_date and t.${IN_REAL_TIME}`
const AHEAD = query<AheadRow>(
  `${SELECT_AHEAD} and p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
)
const ONE_AHEAD = query<AheadRow>(`${SELECT_AHEAD} and p.plan_id = :plan_id`)
const TENANT_OF = query<{ tenant_id: bigint }>('select tenant_id from plans where plan_id = :plan_id')

export const createWindowStore = ({ look, read, write }: Base): WindowStore => ({
  listAhead: (filter, { after, limit }) =>
    read(function* (tx) {
      const now = yield* tx.clock
      const rows = yield* tx.all(AHEAD, { ...filter, after: after ?? 0, limit, now })
      const plans = yield* aheadOf(tx, rows, now)
      const last = rows.at(-1)
      return {
        plans,
        cursor: last && rows.length === limit ? Number(last.plan_id) : null,
      }
    }),

  async bringBack(planId, entryOf) {
    const owner = await look((tx) => tx.get(TENANT_OF, { plan_id: planId }))
    if (!owner) return null
    return write(
      function* (tx) {
        const [{ real }] = yield* tx.together(tx.times, lockPlans(tx, [planId]))
        const [row] = yield* tx.together(
          tx.get(ONE_AHEAD, { plan_id: planId, now: real }),
          currentWindow(tx, planId),
        )
        const [plan] = row ? yield* aheadOf(tx, [row], real) : []
        if (!row || !plan) return null
        const next = {
          planId,
          windowId: yield* tx.nextId('windows'),
          opening: plan.place,
          minTranche: row.min_tranche as Usd,
        }
        // Not `ended`: it never ran its course, and nobody missed the money that it leaves.
        yield* replaceCurrent(tx, { reason: 'reset', now: real }, next)
        yield* wake(tx, planId)
        yield* addAudit(tx, entryOf(plan, real), real)
        return plan
      },
      ofTenant({ tenantId: Number(owner.tenant_id) }),
    )
  },
})

/** Leaves out plans whose window is in its place, because the cells before it have no money left. */
function* aheadOf(tx: Tx, rows: readonly AheadRow[], now: Instant): Steps<PlanAhead[]> {
  const seen = rows.map((row) => ({ row, plan: planOf(row), window: windowOf(row) }))
  const wanted = seen.map(({ row, plan, window }) => ({
    planId: plan.planId,
    cell: cellDue({ ...window, ...plan }, plan.startDate, now),
    floor: leastInstruction(row.min_tranche as Usd, plan.amount),
  }))
  const places = yield* freeCells(tx, wanted)
  return seen.flatMap(({ row, plan, window }) => {
    const place = places.get(plan.planId)
    const isAhead = place && place.start < window.start && place.end < window.end
    return isAhead ? [{ ...plan, tenant: tenantOf(row), window, place }] : []
  })
}
