// One page of a pass, in the caller's transaction, of a pass, a preview or a sandbox: its plans are locked, rolled,
// decided and stored in a handful of statements.

import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import {
  close,
  type Frequency,
  freshSchedule,
  leastInstruction,
  type OnGrid,
  opened,
  reserve,
  type Schedule,
  type Window,
} from '../../core/window.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import {
  type FiredRow,
  firedParams,
  ledgerParams,
  openingParams,
  type ScheduleRow,
  scheduleOf,
  scheduleParams,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { LATEST_EXECUTION } from '../sql/fragments.ts'
import { query } from '../statement.ts'
import type { Fired, PassCounts, PlanDecisions } from '../store.ts'
import { columnsToAdd, insertRows, updateOf } from '../tables.ts'
import { runRows, type Step, type Steps, type Times, type Tx } from '../transaction.ts'
import { freeCells } from './ledger.ts'
import { USERS_STOPPING } from './users.ts'

/** `tenants` are those of the plans, which the transaction has in its scope. */
export type Page = { planIds: readonly number[]; tenants: readonly number[]; decisions: PlanDecisions }

// Every change of a plan that has a schedule, or of its windows or executions, locks the schedule first. Later
// statements read, and see what was committed meanwhile.
const LOCK_SCHEDULES = query(
  ({ among, forUpdate }) =>
    `select plan_id from schedules where ${among('plan_id', 'plan_ids')} and awake = 1
     order by plan_id ${forUpdate('schedules')}`,
  (row: { plan_id: bigint }) => row.plan_id,
)
const LOCK_WINDOWS = query(
  `select from windows where window_id in (
     select window_id from schedules where plan_id = any(:plan_ids::bigint[]) and awake = 1)
   order by window_id for no key update`,
)

type PlanRow = ScheduleRow &
  WindowRow & { tenant_id: bigint; user_id: bigint; frequency: string; amount_usd: bigint }
const PLANS = query<PlanRow>(
  ({ among }) =>
    `select s.*, w.reserved, w.spent, w.excess, w.released, w.closed_at, w.close_reason,
       p.tenant_id, p.user_id, p.frequency, p.amount_usd
     from schedules s cross join windows w cross join plans p
     where ${among('s.plan_id', 'plan_ids')} and s.awake = 1 and w.window_id = s.window_id and p.plan_id = s.plan_id
     order by s.plan_id`,
)
/** The partner is read directly, because on a server its schedules are updated later. */
const TENANTS = query(
  ({ among }) =>
    `select t.*, r.min_tranche from tenants t join partners r on r.partner_slug = t.partner_slug
     where ${among('t.tenant_id', 'tenants')} and r.status = 'active' and r.held = 0`,
  (row: TenantRow & { min_tranche: bigint }) => ({
    tenant: tenantOf(row),
    minTranche: row.min_tranche as Usd,
  }),
)

/** Columns that stay while a plan waits in one slot. The index of a column that is not named is not written. */
const OF_A_SLOT = ['window_id', 'next_run_at', 'window_start', 'window_end', 'budget'] as const
const PUT_SCHEDULES = updateOf('schedules', ['plan_id'], columnsToAdd('schedules', 'plan_id', 'awake'))
const PUT_IN_SLOT = updateOf(
  'schedules',
  ['plan_id'],
  columnsToAdd('schedules', 'plan_id', 'awake', ...OF_A_SLOT),
)
const RESERVE = updateOf('windows', ['window_id'], ['reserved'])
const CLOSE = updateOf('windows', ['window_id'], ['released', 'closed_at', 'close_reason'])
const ADD_EXECUTIONS = query((dialect) => insertRows(dialect, 'executions'))
const OPEN = query<{ window_id: bigint; plan_id: bigint }>(
  (dialect) =>
    `${insertRows(dialect, 'windows', { names: columnsToAdd('windows', 'window_id') })} returning window_id, plan_id`,
)

/** Runs a page at the given times, or at those read for its tenants. */
export function* runPage(
  tx: Tx,
  { planIds, tenants, decisions }: Page,
  times: Step<Times>,
): Steps<PassCounts & { fired: Fired[] }> {
  const plans = { plan_ids: planIds }
  const [{ real, of: timeOf }, locked, , rows, active, stopping, latest = null] = yield* tx.together(
    times,
    tx.all(LOCK_SCHEDULES, plans),
    tx.lock(LOCK_WINDOWS, plans),
    tx.all(PLANS, plans),
    tx.all(TENANTS, { tenants }),
    tx.all(USERS_STOPPING),
    tx.get(LATEST_EXECUTION),
  )
  const owners = new Map(
    active.map((one) => [one.tenant.tenantId, { ...one, now: timeOf(one.tenant.tenantId) }]),
  )
  // Plans that woke while this waited for the locks are not locked, and are due again.
  const ours = new Set(locked)
  const stopped = new Set(stopping)
  const due = rows.flatMap((row) => {
    const owner = owners.get(Number(row.tenant_id))
    return owner && ours.has(row.plan_id) && !stopped.has(row.user_id) ? [duePlanOf(row, owner)] : []
  })
  const rolled = yield* rollWindows(tx, due, decisions.roll)

  let executionId = latest
  const [moved, inSlot]: [Schedule[], Schedule[]] = [[], []]
  const fired: FiredRow[] = []
  const reserved: Window[] = []
  for (const { schedule: stored, window, tenant, now } of due) {
    const next = rolled.get(stored.planId)
    const { schedule, tranche } = decisions.decide(next?.schedule ?? stored, now, real)
    const isInSlot = !next && schedule.nextRunAt === stored.nextRunAt
    ;(isInSlot ? inSlot : moved).push(schedule)
    if (!tranche) continue
    executionId = decisions.newExecutionId(executionId, real)
    fired.push({ tenant, executionId, tranche, schedule, at: now })
    reserved.push(reserve(next?.window ?? window, tranche.amount))
  }
  yield* tx.together(
    runRows(tx, PUT_SCHEDULES, moved.map(scheduleParams)),
    runRows(tx, PUT_IN_SLOT, inSlot.map(scheduleParams)),
    runRows(tx, ADD_EXECUTIONS, fired.map(firedParams)),
    runRows(tx, RESERVE, reserved.map(ledgerParams)),
  )
  return { plansEvaluated: due.length, executionsCreated: fired.length, windowsRolled: rolled.size, fired }
}

type Owner = { tenant: Tenant; minTranche: Usd; now: Instant }

type DuePlan = Owner & { schedule: Schedule; window: Window; terms: Pick<OnGrid, 'frequency' | 'amount'> }
function duePlanOf(row: PlanRow, owner: Owner): DuePlan {
  const schedule = scheduleOf(row)
  return {
    ...owner,
    schedule: { ...schedule, floor: leastInstruction(owner.minTranche, schedule.budget) },
    window: windowOf(row),
    terms: { frequency: row.frequency as Frequency, amount: row.amount_usd as Usd },
  }
}

// Windows that are over are closed and others opened, many in a few statements: thousands end at the same midnight.

/** The window that follows one that is over, and its schedule, which is not written yet. */
type Rolled = { window: Window; schedule: Schedule }

/** The windows that follow those that are over, by their plans. */
function* rollWindows(
  tx: Tx,
  plans: readonly DuePlan[],
  roll: PlanDecisions['roll'],
): Steps<Map<number, Rolled>> {
  const over = plans.flatMap((plan) => {
    const { window, terms, now } = plan
    const cell = now < window.end ? null : roll({ start: window.start, end: window.end, ...terms }, now)
    return cell ? [{ ...plan, cell }] : []
  })
  if (over.length === 0) return new Map()
  const wanted = over.map(({ window, terms, minTranche, cell }) => ({
    planId: window.planId,
    cell,
    floor: leastInstruction(minTranche, terms.amount),
  }))
  const openings = yield* freeCells(tx, wanted)
  const closed = over.map(({ window, now }) => close(window, now, 'ended'))
  const [, ids] = yield* tx.together(
    tx.run(CLOSE, { rows: closed.map(ledgerParams) }),
    tx.all(OPEN, { rows: [...openings].map(([planId, opening]) => openingParams(planId, opening)) }),
  )
  const windowIds = new Map(ids.map((row) => [Number(row.plan_id), Number(row.window_id)]))
  return new Map(
    over.map(({ window: { planId }, minTranche }) => {
      const [opening, windowId] = [openings.get(planId), windowIds.get(planId)]
      if (!opening || !windowId) throw new Error(`no window follows that of plan ${planId}`)
      const window = opened(opening, { planId, windowId })
      return [planId, { window, schedule: freshSchedule(window, minTranche) }]
    }),
  )
}
