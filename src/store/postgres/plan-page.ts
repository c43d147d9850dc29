// One page of a scheduler pass, for a transaction of the scheduler's: its plans are locked, rolled, decided and stored,
// all of them in a handful of statements.

import type { ExecutionId } from '../../core/execution.ts'
import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Frequency, Instant } from '../../core/time.ts'
import {
  cellAfter,
  close,
  freshSchedule,
  leastInstruction,
  type OnGrid,
  type Opening,
  openCell,
  opened,
  reserve,
  type Schedule,
  type Window,
} from '../../core/window.ts'
import { DIGESTED, intact } from '../digests.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import {
  amountParams,
  closingParams,
  type FiredRow,
  firedParams,
  openingParams,
  type ScheduleRow,
  scheduleOf,
  scheduleParams,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { cellUse, leastInstructionOf, UNDER_WAY } from '../sql/fragments.ts'
import { instantOrNull, query } from '../statement.ts'
import type { Fired, PassCounts, PlanDecisions } from '../store.ts'
import { columnsToAdd, selected } from '../tables.ts'
import type { Times } from './server/month-gate.ts'
import type { Tx } from './server/pipeline.ts'
import { arraysFor, arraysOf, namesOf, rowsIn } from './server/pipeline.ts'

/**
 * How many plans one transaction takes: enough to spread the cost of a commit, few enough that nobody waits long for a
 * row.
 */
export const PAGE_PLANS = 250

// Every change of a plan that has a schedule, or of its windows or executions, locks the schedule first. The reading is
// done by a later statement, which sees what was committed meanwhile.
const LOCK_SCHEDULES = query<{ plan_id: bigint }>(
  `select plan_id from schedules where plan_id = any(:plan_ids::bigint[]) and awake = 1
   order by plan_id for no key update`,
)
const LOCK_WINDOWS = query(
  `select from windows where window_id in (
     select window_id from schedules where plan_id = any(:plan_ids::bigint[]) and awake = 1)
   order by window_id for no key update`,
)

type PageRow = ScheduleRow &
  WindowRow &
  TenantRow & { frequency: string; amount_usd: bigint; min_tranche: bigint; plan_digest: bigint }

/**
 * The plans of a page that may fire. A user whose disable is under way has none. A partner's status is read from the
 * partner itself, because schedules follow it later.
 */
const AWAKE = query<PageRow>(
  `select s.*, w.reserved, w.spent, w.excess, w.released, w.closed_at, w.close_reason,
     t.partner_slug, t.environment, ${selected(DIGESTED.plans.columns, 'p')}, p.digest as plan_digest, r.min_tranche,
     ${leastInstructionOf('r.min_tranche', 's.budget')} as floor
   from schedules s
   join windows w on w.window_id = s.window_id
   join plans p on p.plan_id = s.plan_id
   join tenants t on t.tenant_id = p.tenant_id
   join partners r on r.partner_slug = t.partner_slug
   where s.plan_id = any(:plan_ids::bigint[]) and s.awake = 1 and r.status = 'active' and r.held = 0
     and not exists (select 1 from stops where stops.user_id = p.user_id and ${UNDER_WAY})
   order by s.plan_id`,
)
// With max(execution_id), it would keep the query plan that was best when there were no executions: to read them all.
const LATEST_ID = query<{ id: string }>(
  'select execution_id as id from executions order by execution_id desc limit 1',
)

const SCHEDULES = arraysFor('schedules', columnsToAdd('schedules', 'awake'))
const PUT_SCHEDULES = query(
  `update schedules s set (${namesOf(SCHEDULES)}) = row (n.*) from ${rowsIn(SCHEDULES, 'n')} where s.plan_id = n.plan_id`,
)
const EXECUTIONS = arraysFor('executions', columnsToAdd('executions'))
const ADD_EXECUTIONS = query(
  `insert into executions (${namesOf(EXECUTIONS)}) select ${namesOf(EXECUTIONS)} from ${rowsIn(EXECUTIONS, 'n')}`,
)
const RESERVED = arraysFor('windows', ['window_id', 'reserved'])
const RESERVE = query(
  `update windows w set reserved = n.reserved from ${rowsIn(RESERVED, 'n')} where w.window_id = n.window_id`,
)

type Page = PassCounts & {
  fired: Fired[]
  /** What is being stored, on its way to the server. Only a caller that does not commit has to wait for this. */
  written: Promise<unknown>
}

type LockedPlan = Rollable & { schedule: Schedule; tenant: Tenant }

/** The tenants of the plans are those of the transaction's scope. `times` may still be under way. */
export async function runPage(
  tx: Tx,
  planIds: readonly number[],
  { roll, decide, newExecutionId }: PlanDecisions,
  times: Times | Promise<Times>,
): Promise<Page> {
  const plans = { plan_ids: planIds }
  const [{ real, of: timeOf }, locked, , rows, latest] = await Promise.all([
    times,
    tx.all(LOCK_SCHEDULES, plans),
    tx.run(LOCK_WINDOWS, plans),
    tx.all(AWAKE, plans),
    tx.get(LATEST_ID),
  ])
  // Plans that woke while the locks were waited for are due again; no hand has them.
  const ours = new Set(locked.map(({ plan_id }) => plan_id))
  const due = rows.filter(({ plan_id }) => ours.has(plan_id)).map((row) => lockedPlanOf(row, timeOf))
  const rolled = await rollWindows(tx, due, roll)
  let executionId = (latest?.id ?? null) as ExecutionId | null
  const decided = due.map(({ schedule: current, window, tenant, now }): Decided => {
    const next = rolled.get(current.planId)
    const { schedule, tranche } = decide(next?.schedule ?? current, now, real)
    const place = { schedule, over: next?.over ?? null, window: next?.window ?? window }
    if (!tranche) return { ...place, fired: null }
    executionId = newExecutionId(executionId, real)
    const fired = { tenant, executionId, planId: schedule.planId, tranche, schedule, at: now }
    return { ...place, window: reserve(place.window, tranche.amount), fired }
  })
  const fired = decided.flatMap((one) => one.fired ?? [])
  const written = writePage(tx, decided)
  tx.unwaited(written)
  return {
    plansEvaluated: due.length,
    executionsCreated: fired.length,
    windowsRolled: rolled.size,
    fired,
    written,
  }
}

/** A plan after the pass: its schedule, its window, the one that is over if it was rolled, and what it fires. */
type Decided = { schedule: Schedule; window: Window; over: Window | null; fired: FiredRow | null }

function lockedPlanOf(row: PageRow, timeOf: Times['of']): LockedPlan {
  const tenant = tenantOf(row)
  intact('plans', row, row.plan_digest)
  return {
    schedule: scheduleOf(intact('schedules', row)),
    window: windowOf(row),
    tenant,
    terms: { frequency: row.frequency as Frequency, amount: row.amount_usd as Usd },
    minTranche: row.min_tranche as Usd,
    now: timeOf(tenant.tenantId) as Instant,
  }
}

async function writePage(tx: Tx, decided: readonly Decided[]): Promise<void> {
  if (decided.length === 0) return
  const rolled = decided.filter(({ over }) => over !== null)
  const over = rolled.flatMap((one) => one.over ?? [])
  const fired = decided.flatMap((one) => one.fired ?? [])
  const reserved = decided.flatMap((one) => (one.fired && !one.over ? amountParams(one.window) : []))
  await Promise.all([
    // In this order: a schedule points at its window.
    over.length > 0 &&
      writeRolled(
        tx,
        over,
        rolled.map(({ window }) => window),
      ),
    tx.run(
      PUT_SCHEDULES,
      arraysOf(
        SCHEDULES,
        decided.map(({ schedule }) => scheduleParams(schedule)),
      ),
    ),
    fired.length > 0 && tx.run(ADD_EXECUTIONS, arraysOf(EXECUTIONS, fired.map(firedParams))),
    reserved.length > 0 && tx.run(RESERVE, arraysOf(RESERVED, reserved)),
  ])
}

// Closes windows that are over and opens their successors, many in a few statements: thousands end at the same
// midnight.

/** A plan's current window, its terms, and the time of its tenant. */
type Rollable = {
  window: Window
  terms: Pick<OnGrid, 'frequency' | 'amount'>
  minTranche: Usd
  now: Instant
}

/** A window that is over, and its successor with the schedule for it. Nothing is written yet. */
type Rolled = { over: Window; window: Window; schedule: Schedule }

const CELLS = { plan_id: 'bigint', cell_start: 'bigint', cell_end: 'bigint' } as const
const CELL_USES = query<{ plan_id: bigint; claimed: bigint; used: bigint | null }>(
  `select n.plan_id, u.* from ${rowsIn(CELLS, 'n')}
   cross join lateral (${cellUse({ planId: 'n.plan_id', start: 'n.cell_start', end: 'n.cell_end' })}) u`,
)
const WINDOW_IDS = query<{ window_id: bigint }>(
  `select nextval(pg_get_serial_sequence('windows', 'window_id')) as window_id from generate_series(1, :count::int)`,
)
const CLOSED = arraysFor('windows', ['window_id', 'released', 'closed_at', 'close_reason'])
const CLOSE = query(
  `update windows w set released = n.released, closed_at = n.closed_at, close_reason = n.close_reason
   from ${rowsIn(CLOSED, 'n')} where w.window_id = n.window_id`,
)
const OPENED = arraysFor('windows', [...columnsToAdd('windows'), 'reserved'])
const OPEN = query(
  `insert into windows (${namesOf(OPENED)}) select ${namesOf(OPENED)} from ${rowsIn(OPENED, 'n')}`,
)

/** What follows the windows that are over, by their plans. */
async function rollWindows(
  tx: Tx,
  plans: readonly Rollable[],
  roll: PlanDecisions['roll'],
): Promise<Map<number, Rolled>> {
  const over = plans.flatMap((one) => {
    const { window, terms, now } = one
    const cell = now < window.end ? null : roll({ start: window.start, end: window.end, ...terms }, now)
    return cell ? [{ ...one, cell }] : []
  })
  if (over.length === 0) return new Map()
  const [ids, openings] = await Promise.all([tx.all(WINDOW_IDS, { count: over.length }), freeCells(tx, over)])
  return new Map(
    over.map(({ window, minTranche, now }, i) => {
      const { planId } = window
      const opening = openings.get(planId)
      const id = ids[i]
      if (!opening || !id) throw new Error(`no window follows that of plan ${planId}`)
      const next = opened(opening, { planId, windowId: Number(id.window_id) })
      const closed = close(window, now, 'ended')
      return [planId, { over: closed, window: next, schedule: freshSchedule(next, minTranche) }]
    }),
  )
}

/** The first cell of each plan that has money left: nearly always the one asked for. */
async function freeCells(
  tx: Tx,
  over: readonly (Rollable & { cell: Opening })[],
): Promise<Map<number, Opening>> {
  const found = new Map<number, Opening>()
  let wanted = over.map(({ window, terms, minTranche, cell }) => ({
    planId: window.planId,
    cell,
    floor: leastInstruction(minTranche, terms.amount),
  }))
  while (wanted.length > 0) {
    const asked = wanted.map(({ planId, cell }) => ({
      plan_id: planId,
      cell_start: cell.start,
      cell_end: cell.end,
    }))
    const uses = new Map(
      (await tx.all(CELL_USES, arraysOf(CELLS, asked))).map((use) => [Number(use.plan_id), use]),
    )
    const full: typeof wanted = []
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

/** Stores windows that are over and those that follow them, as they are by now. */
const writeRolled = (tx: Tx, over: readonly Window[], next: readonly Window[]): Promise<unknown> =>
  Promise.all([
    tx.run(
      CLOSE,
      arraysOf(
        CLOSED,
        over.map((window) => {
          if (!window.closed) throw new Error(`window ${window.windowId} is not closed`)
          return { ...amountParams(window), ...closingParams(window.closed) }
        }),
      ),
    ),
    tx.run(
      OPEN,
      arraysOf(
        OPENED,
        next.map((window) => ({
          ...amountParams(window),
          ...openingParams(window.planId, window),
        })),
      ),
    ),
  ])
