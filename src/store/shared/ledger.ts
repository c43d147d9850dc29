// Parts of the transactions that write the ledger: the locks that they take, windows and the schedules that depend on
// them, cancelling the open executions of many plans, and the count of reports for which there was no room.

import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import {
  type CloseReason,
  cellAfter,
  close,
  freshSchedule,
  type Opening,
  openCell,
  opened,
  type Schedule,
  unreserved,
  type Window,
} from '../../core/window.ts'
import { ledgerParams, openingParams, scheduleParams, windowOf } from '../rows/ledger.ts'
import { AWAKE, IS_OPEN } from '../sql/fragments.ts'
import { instantOrNull, query } from '../statement.ts'
import { insertInto, putInto, updateOf } from '../tables.ts'
import { runRows, type Step, type Steps, type Tx } from '../transaction.ts'

const CURRENT = query('select * from windows where plan_id = :plan_id and closed_at is null', windowOf)
const OPEN = query(insertInto('windows'))
const CELLS = { plan_id: 'integer', cell_start: 'integer', cell_end: 'integer' } as const
const IN_CELL = 'plan_id = n.plan_id and window_start >= n.cell_start and window_start < n.cell_end'
/** The amounts used by a plan's windows that start in a cell of its grid, and their latest start with executions. */
const CELL_USES = query<{ plan_id: bigint; claimed: bigint; used: bigint | null }>(
  ({ rows }) =>
    `select n.plan_id,
       (select cast(coalesce(sum(spent + reserved), 0) as bigint) from windows where ${IN_CELL}) as claimed,
       (select max(window_start) from executions where ${IN_CELL}) as used
     from ${rows('rows', CELLS, 'n')}`,
)
const AMOUNTS = ['reserved', 'spent', 'excess', 'released'] as const
/** An open window stays open here, and its place among the open ones does not change. */
const WRITE_OPEN = updateOf('windows', ['window_id'], AMOUNTS, 'and closed_at is null')
const WRITE_CLOSED = updateOf('windows', ['window_id'], [...AMOUNTS, 'closed_at', 'close_reason'])
const REFUND = updateOf('schedules', ['plan_id', 'window_id'], ['fireable'])
/** A plan's schedule for its new window, asleep, replacing the one before. */
export const PUT_SCHEDULE = query(putInto('schedules', { awake: '0' }))
const DROP_SCHEDULE = query('delete from schedules where plan_id = :plan_id')
const WAKE = query(`update schedules set awake = ${AWAKE} where plan_id = :plan_id`)

/** A plan's current window, as it is stored. */
export function* currentWindow(tx: Tx, planId: number): Steps<Window | null> {
  return (yield* tx.get(CURRENT, { plan_id: planId })) ?? null
}

/** Stores the ledgers of windows and, for those that are current, what their schedules may still fire. */
export function writeWindows(tx: Tx, windows: readonly Window[]): Step<unknown> {
  const open = windows.filter(({ closed }) => !closed)
  return tx.together(
    runRows(tx, WRITE_OPEN, open.map(ledgerParams)),
    runRows(
      tx,
      REFUND,
      open.map((one) => ({ plan_id: one.planId, window_id: one.windowId, fireable: unreserved(one) })),
    ),
    runRows(tx, WRITE_CLOSED, windows.filter(({ closed }) => closed).map(ledgerParams)),
  )
}
export const writeWindow = (tx: Tx, window: Window): Step<unknown> => writeWindows(tx, [window])

/** A plan that needs a window, and the cell from which on it may have one. */
type Wanted = { planId: number; cell: Opening; floor: Usd }

/** The first cell of each plan that has money left, as a window to open: nearly always the one given. */
export function* freeCells(tx: Tx, plans: readonly Wanted[]): Steps<Map<number, Opening>> {
  const found = new Map<number, Opening>()
  for (let wanted = plans; wanted.length > 0; ) {
    const rows = wanted.map(({ planId, cell }) => ({
      plan_id: planId,
      cell_start: cell.start,
      cell_end: cell.end,
    }))
    const uses = new Map((yield* tx.all(CELL_USES, { rows })).map((use) => [Number(use.plan_id), use]))
    const full: Wanted[] = []
    for (const { planId, cell, floor } of wanted) {
      const use = uses.get(planId)
      if (!use) throw new Error(`nobody knows what plan ${planId} has used`)
      const free = openCell(cell, { claimed: use.claimed as Usd, usedStart: instantOrNull(use.used) }, floor)
      if (free) found.set(planId, free)
      else full.push({ planId, cell: cellAfter(cell), floor })
    }
    wanted = full
  }
  return found
}

/** `windowId` is a free number. */
type NewWindow = { planId: number; windowId: number; opening: Opening; minTranche: Usd }

export function* openWindow(tx: Tx, { planId, windowId, opening, minTranche }: NewWindow): Steps<Schedule> {
  const schedule = freshSchedule(opened(opening, { planId, windowId }), minTranche)
  yield* tx.together(
    tx.run(OPEN, { window_id: windowId, ...openingParams(planId, opening) }),
    tx.run(PUT_SCHEDULE, scheduleParams(schedule)),
  )
  return schedule
}

export type Closing = { reason: CloseReason; now: Instant }

export const closeCurrent = (tx: Tx, planId: number, closing: Closing): Step<unknown> =>
  tx.together(closeWindow(tx, planId, closing), tx.run(DROP_SCHEDULE, { plan_id: planId }))

/** The schedule's row is updated in place: a transaction that waits for the row then gets its new version. */
export function* replaceCurrent(tx: Tx, closing: Closing, next: NewWindow): Steps<Schedule> {
  yield* closeWindow(tx, next.planId, closing)
  return yield* openWindow(tx, next)
}

function* closeWindow(tx: Tx, planId: number, { reason, now }: Closing): Steps<void> {
  const window = yield* currentWindow(tx, planId)
  if (window) yield* writeWindow(tx, close(window, now, reason))
}

/** Puts a plan's schedule into the due set or takes it out, by the present state of its plan and partner. */
export const wake = (tx: Tx, planId: number): Step<unknown> => tx.run(WAKE, { plan_id: planId })

/** Found through the windows, which are few compared with all executions that a plan ever had. */
const OPEN_EXECUTIONS = `from windows w cross join executions e
  where w.reserved > 0 and e.plan_id = w.plan_id and e.window_start = w.window_start and e.window_id = w.window_id
    and ${IS_OPEN}`
const LOCK_WINDOWS = query(
  `select from windows where plan_id = any(:plan_ids::bigint[]) and reserved > 0 order by window_id
   for no key update`,
)
const LOCK_EXECUTIONS = query(
  `select ${OPEN_EXECUTIONS} and w.plan_id = any(:plan_ids::bigint[]) order by e.execution_id
   for no key update of e`,
)
const FIND_OPEN = query<{ execution_id: string }>(
  ({ among }) => `select e.execution_id ${OPEN_EXECUTIONS} and ${among('w.plan_id', 'plan_ids')}`,
)
/** Returned money covers an excess first, as in core's settle. */
const COVERED = 'case when o.usd < excess then o.usd else excess end'
const GIVE_BACK = query(
  ({ among }) =>
    `update windows set reserved = reserved - o.usd, spent = spent + ${COVERED}, excess = excess - ${COVERED},
       released = released + case when closed_at is null then 0 else o.usd - ${COVERED} end
     from (select window_id, cast(sum(amount_usd) as bigint) as usd from executions
           where ${among('execution_id', 'execution_ids', 'text')} group by window_id) o
     where windows.window_id = o.window_id`,
)
const CANCEL = query(
  ({ among }) =>
    `update executions set status = 'cancelled', cancelled_at = :now
     where ${among('execution_id', 'execution_ids', 'text')}`,
)
const REFUND_ALL = query(
  ({ among }) =>
    `update schedules set fireable = w.budget - w.reserved - w.spent from windows w
     where w.window_id = schedules.window_id and ${among('schedules.plan_id', 'plan_ids')}
       and fireable <> w.budget - w.reserved - w.spent`,
)

/**
 * Ends every open execution of the plans; each reservation returns to its own window. Returns how many. It writes the
 * result of core's `cancel` for each execution, which a test proves. The caller has locked the plans and their
 * schedules, so nothing more is reserved meanwhile.
 */
export function* cancelOpen(tx: Tx, planIds: readonly number[], now: Instant): Steps<number> {
  const plans = { plan_ids: planIds }
  const [, , open] = yield* tx.together(
    tx.lock(LOCK_WINDOWS, plans),
    tx.lock(LOCK_EXECUTIONS, plans),
    tx.all(FIND_OPEN, plans),
  )
  if (open.length === 0) return 0
  const executions = { execution_ids: open.map(({ execution_id }) => execution_id) }
  const [, cancelled] = yield* tx.together(
    tx.run(GIVE_BACK, executions),
    tx.run(CANCEL, { ...executions, now }),
    tx.run(REFUND_ALL, plans),
  )
  return cancelled
}

// The rows that a write of the ledger depends on, locked on a server in the order of postgres/server/locks.ts. Each
// table has a statement of its own, by ascending ids. Later statements read, and see what was committed meanwhile. A
// file needs none of it.

const OF_PLANS = 'plan_id = any(:plan_ids::bigint[])'
const LOCK_PLANS = query(`select from plans where ${OF_PLANS} order by plan_id for no key update`)
const LOCK_SCHEDULES = query(`select from schedules where ${OF_PLANS} order by plan_id for no key update`)
const LOCK_CURRENT_WINDOWS = query(
  `select from windows where ${OF_PLANS} and closed_at is null order by window_id for no key update`,
)

// An execution keeps its plan and its window forever. The plus keeps the planner to the given ids.
const asked = (column: string): string =>
  `(select ${column} from executions where execution_id = any(:execution_ids::text[]) and +tenant_id = :tenant)`
const LOCK_THEIR_SCHEDULES = query(
  `select from schedules where plan_id in ${asked('plan_id')} order by plan_id for no key update`,
)
const LOCK_THEIR_WINDOWS = query(
  `select from windows where window_id in ${asked('window_id')} order by window_id for no key update`,
)
const LOCK_THEM = query(
  `select from executions where execution_id = any(:execution_ids::text[]) and +tenant_id = :tenant
   order by execution_id for no key update`,
)

/** Locks executions of a tenant with the windows and schedules that they change. */
export function lockExecutions(tx: Tx, tenantId: number, executionIds: readonly string[]): Step<unknown> {
  const asked = { tenant: tenantId, execution_ids: executionIds }
  return tx.together(
    tx.lock(LOCK_THEIR_SCHEDULES, asked),
    tx.lock(LOCK_THEIR_WINDOWS, asked),
    tx.lock(LOCK_THEM, asked),
  )
}

/** Locks the schedules of plans that are locked, or need not be. */
export const lockSchedules = (tx: Tx, planIds: readonly number[]): Step<void> =>
  tx.lock(LOCK_SCHEDULES, { plan_ids: planIds })

/** Locks plans with their schedules and current windows. */
export function lockPlans(tx: Tx, planIds: readonly number[]): Step<unknown> {
  const plans = { plan_ids: planIds }
  return tx.together(
    tx.lock(LOCK_PLANS, plans),
    tx.lock(LOCK_SCHEDULES, plans),
    tx.lock(LOCK_CURRENT_WINDOWS, plans),
  )
}

const NAMED_PLAN =
  '(select plan_id from plans where tenant_id = :tenant and partner_plan_id = :partner_plan_id)'
export const LOCK_USER = query(
  'select from users where tenant_id = :tenant and partner_user_id = :partner_user_id for no key update',
)
const LOCK_PLAN = query(
  'select from plans where tenant_id = :tenant and partner_plan_id = :partner_plan_id for no key update',
)
const LOCK_ITS_SCHEDULE = query(`select from schedules where plan_id = ${NAMED_PLAN} for no key update`)
// Locks every window to which a cancel may return money, at once: locked later, they would not be in the order of ids.
const LOCK_ITS_WINDOWS = query(
  `select from windows where plan_id = ${NAMED_PLAN} and (closed_at is null or reserved > 0)
   order by window_id for no key update`,
)

type NamedPlan = { tenant: number; partner_user_id: string; partner_plan_id: string }

/** Locks a plan that may not exist yet, and the user who would have it. */
export const lockPlanByName = (tx: Tx, named: NamedPlan): Step<unknown> =>
  tx.together(
    ...[LOCK_USER, LOCK_PLAN, LOCK_ITS_SCHEDULE, LOCK_ITS_WINDOWS].map((which) => tx.lock(which, named)),
  )

const COUNT_NO_UNKNOWN = query(
  'update tenants set unkept_reports = 0 where tenant_id = :tenant and unkept_reports > 0',
)

/** Resets the count of reports of unknown executions that there was no room to keep. */
export const countNoUnknown = (tx: Tx, { tenantId }: Tenant): Step<unknown> =>
  tx.run(COUNT_NO_UNKNOWN, { tenant: tenantId })
