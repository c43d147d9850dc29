// Passes on a server: which plans are due, and their pages, which several processes share out among them. A twin of
// ../sqlite/pass.ts, because everything that is bought goes this way; how a pass is noted is shared
// (../shared/passes.ts).

import type { ExecutionId } from '../../core/execution.ts'
import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import {
  cellAfter,
  close,
  type Frequency,
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
import { type TenantRow, tenantOf, type WebhookRow, webhookOf } from '../rows/accounts.ts'
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
import { createPassNotes, passOf, type RunPage, type TickRow, tenantsOf } from '../shared/passes.ts'
import type { Staging } from '../shared/prices.ts'
import { allSandboxDue, type OwnSandboxes } from '../shared/sandboxes.ts'
import { cellUse, LATEST_EXECUTION, leastInstructionOf, UNDER_WAY } from '../sql/fragments.ts'
import { instantOrNull, query } from '../statement.ts'
import {
  type DueRanges,
  type Fired,
  type PassCounts,
  type PassHand,
  type PassStore,
  type PlanDecisions,
  type WakeUpStore,
  wakeUpsOf,
} from '../store.ts'
import { columnsToAdd } from '../tables.ts'
import type { Base } from '../transaction.ts'
import { createFollowing } from './accounts.ts'
import { byHand, within } from './driver.ts'
import { commit } from './server/commit.ts'
import { type Connection, createSessionLocks, type Session } from './server/connection.ts'
import { explained, onceMore } from './server/errors.ts'
import { isOutage } from './server/failures.ts'
import { LOCK } from './server/locks.ts'
import type { Times } from './server/month-gate.ts'
import {
  arraysFor,
  arraysOf,
  firstError,
  namesOf,
  type Pipeline,
  PRESENT_SQL,
  pipelineOn,
  rowsIn,
  type Tx,
} from './server/pipeline.ts'
import { PATIENCE } from './server/session.ts'

export function createPassStore(connection: Connection, base: Base): PassStore {
  const { write } = connection
  const notes = createPassNotes(base, runStored)
  const following = createFollowing(base)

  return {
    ...notes,

    joinPass: () => joinPass(connection),

    async beginPass(...asked) {
      await following.finishLeft()
      return notes.beginPass(...asked)
    },

    listDuePlans: (due) => listDuePlans(connection, due),

    async changeDuePlans(passId, planIds, decisions) {
      const tenants = await tenantsOf(base, planIds)
      // If another hand has created the same id at the same moment, new ones are drawn.
      return onceMore(() =>
        write(
          async (tx) => {
            const { fired, written, ...counts } = await runPage(tx, planIds, decisions, tx.times)
            tx.unwaited(writeWakeUps(tx, passId, fired, (await tx.times).real))
            return counts
          },
          { tenants, refusedWhileFrozen: true },
        ),
      )
    },

    isOutage,
  }
}

const runStored: RunPage = (tx, { planIds, decisions }, times) =>
  byHand(tx, async (pipe) => {
    const { written, ...page } = await runPage(pipe, planIds, decisions, times)
    await written
    return page
  })

export const ownSandboxes = (connection: Connection, { write }: Base): OwnSandboxes => ({
  takeAdvance: createSessionLocks(connection, LOCK.advance),
  runPage: runStored,
  writeWakeUps: (tx, wakeUpId, fired, real) =>
    byHand(tx, (pipe) => writeWakeUps(pipe, wakeUpId, fired, real)),
  wipe: write,
  alsoWiped: [],
})

// The hands of a pass. Each holds a shared lock in a session of its own. Only one hand at a time may join or leave, so
// that it is certain which was first and which is last. A hand that dies leaves with its session.

const ROSTER = query(`select pg_advisory_xact_lock(${LOCK.passDoor}, 0)`)
/** True when nobody else holds the lock of a pass; nobody can then take it before the end of the transaction. */
const IS_ALONE = `pg_try_advisory_xact_lock(${LOCK.pass}, 0)`
const ALONE = query<{ alone: boolean }>(`select ${IS_ALONE} as alone`)
const ENTER = query(`select pg_advisory_lock_shared(${LOCK.pass}, 0)`)
const LEAVE = query<{ held: boolean }>(`select pg_advisory_unlock_shared(${LOCK.pass}, 0) as held`)
const FORGET_PAGES = query('delete from pass_pages')
// The list always belongs to the present hands' pass: the first of them has removed any other. A pass that has nothing
// left to do, or whose list is not ready yet, has no use for another hand.
const LISTED = query<TickRow>(
  `select tick_id, at from ticks
   where tick_id = (select max(tick_id) from pass_pages) and finished_at is null`,
)
type CountsRow = { plans_evaluated: bigint; executions_created: bigint; windows_rolled: bigint }
const FINISH = query<CountsRow & { finished_at: bigint | null }>(
  `update ticks set plans_evaluated = plans_evaluated + :plans_evaluated,
     executions_created = executions_created + :executions_created,
     windows_rolled = windows_rolled + :windows_rolled,
     finished_at = case when ${IS_ALONE} then ${PRESENT_SQL} end
   where tick_id = :tick_id returning *`,
)

/** Joins the running pass, or begins one; null when the running pass has no use for another hand. */
async function joinPass(connection: Connection): Promise<PassHand | null> {
  const session = await connection.session()
  const joined = await withRosterLocked(session, connection, async (tx) => {
    const first = (await tx.get(ALONE))?.alone
    if (first) {
      await Promise.all([tx.run(ENTER), tx.run(FORGET_PAGES)])
      return { running: null }
    }
    const tick = await tx.get(LISTED)
    if (!tick) return null
    const [, running] = await Promise.all([tx.run(ENTER), within(tx, (steps) => passOf(steps, tick))])
    return { running }
  })
  if (!joined) {
    session.giveBack()
    return null
  }
  const { running } = joined
  return {
    pass: async (begin) => running ?? begin(),
    async *duePages(passId, due, pageMax) {
      // Of a running pass, its first hand has listed them.
      if (!running) await fillPages(connection, passId, due, Math.min(pageMax, PAGE_PLANS))
      for (;;) {
        const page = await claimPage(connection, passId)
        if (!page) return
        yield page
      }
    },
    ...partOf(session, connection),
  }
}

/** How a hand leaves. Its session is given back, or ended when it is unknown whether it still holds the lock. */
function partOf(session: Session, connection: Connection): Pick<PassHand, 'finish' | 'leave'> {
  let isIn = true
  return {
    async finish(passId, counts) {
      isIn = false
      const row = await withRosterLocked(session, connection, async (tx) => {
        const [left, row] = await Promise.all([
          tx.get(LEAVE),
          tx.get(FINISH, { tick_id: passId, ...countsParams(counts), clock: connection.clock.parameter() }),
        ])
        if (!left?.held || !row) throw new Error(`this process has lost its part in pass ${passId}`)
        return row
      })
      session.giveBack()
      return row.finished_at === null ? null : countsOf(row)
    },

    async leave() {
      if (!isIn) return
      isIn = false
      const left = await pipelineOn(session.client, PATIENCE.work)
        .get(LEAVE)
        .catch(() => undefined)
      session.giveBack(left === undefined)
    },
  }
}

/** Runs one transaction while no other hand can join or leave. If it fails, ends the session and with it the lock. */
async function withRosterLocked<T>(
  { client, giveBack }: Session,
  { server, schema }: Connection,
  work: (tx: Pipeline) => Promise<T>,
): Promise<T> {
  const tx = pipelineOn(client, PATIENCE.work)
  try {
    tx.send('begin').catch(() => {})
    tx.run(ROSTER).catch(() => {})
    await schema.look(tx)
    const value = await work(tx)
    await commit(tx)
    return value
  } catch (error) {
    const first = await firstError(tx, error)
    giveBack(true)
    throw explained(first, server)
  }
}

const countsParams = (counts: PassCounts) => ({
  plans_evaluated: counts.plansEvaluated,
  executions_created: counts.executionsCreated,
  windows_rolled: counts.windowsRolled,
})
const countsOf = (row: CountsRow): PassCounts => ({
  plansEvaluated: Number(row.plans_evaluated),
  executionsCreated: Number(row.executions_created),
  windowsRolled: Number(row.windows_rolled),
})

// Which plans a pass must look at, and how its hands share them: the first hand lists them once, on the server, and a
// hand claims a page by deleting it from that list.

// Four walks along four indexes, which cost only what they find; as a single condition, they would read all plans.
const AWAKE = 'select plan_id from schedules where awake = 1 and'
const DUE = `
  ${AWAKE} next_run_at <= :now
  union ${AWAKE} fireable >= floor and window_start <= :now and window_end <= :now::bigint + :lead::bigint
  union ${AWAKE} clock_at <= :now and :price::bigint is null
  union ${AWAKE} limit_price >= :price
  union ${allSandboxDue('greatest')}`

// Planned for the actual parameters: a generic plan would read the whole table. Sorted in memory.
const PLAN_ANEW = query(
  `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true)`,
)
const LIST = query<{ plan_id: bigint }>(`select plan_id from (${DUE}) due order by plan_id`)
// By tenant, so that a page concerns few of them: hands that work at the same time do not wait for each other's locks.
const FILL = query(
  `insert into pass_pages (tick_id, page, plan_ids)
   select :tick_id, page, array_agg(plan_id order by plan_id)
   from (select plan_id, (row_number() over (order by tenant_id, plan_id) - 1) / :plans::bigint as page
     from (${DUE}) due join plans using (plan_id)) numbered
   group by page`,
)
// If a crash of the server forgets a claim, its page is looked at twice, and nothing on it is due the second time. So a
// claim need not wait for the disk.
const CLAIM = query<{ plan_ids: bigint[] }>(
  `delete from pass_pages where tick_id = :tick_id and page = (
     select page from pass_pages where tick_id = :tick_id order by page limit 1 for update skip locked)
   returning plan_ids, set_config('synchronous_commit', 'off', true)`,
)

const rangesOf = ({ now, livePrice, leadMs }: DueRanges) => ({ now, price: livePrice, lead: leadMs })

/** In the order of their numbers. */
const listDuePlans = (connection: Connection, due: DueRanges): Promise<number[]> =>
  connection.read(
    async (tx) => {
      const [, rows] = await Promise.all([tx.run(PLAN_ANEW), tx.all(LIST, rangesOf(due))])
      return rows.map(({ plan_id }) => Number(plan_id))
    },
    { reads: 'large' },
  )

/** Lists the due plans of a pass for all its hands. */
const fillPages = (connection: Connection, passId: number, due: DueRanges, plans: number): Promise<unknown> =>
  connection.write(
    (tx) => Promise.all([tx.run(PLAN_ANEW), tx.run(FILL, { ...rangesOf(due), tick_id: passId, plans })]),
    { reads: 'large' },
  )

/**
 * Claims a page of a pass for this hand; undefined when there is none left. It is a write, whose outcome is known even
 * if its answer is lost: a single statement would be run again, and the first page that it claimed would be nobody's.
 */
const claimPage = (connection: Connection, passId: number): Promise<number[] | undefined> =>
  connection.write(async (tx) => (await tx.get(CLAIM, { tick_id: passId }))?.plan_ids.map(Number), {})

// Wake-ups: written in the transaction of the executions they announce, and handed out once to be sent.

const WAKE_UPS = { tenant_id: 'bigint', count: 'bigint', earliest: 'text' } as const
// One wake-up for each tenant and pass, however many pages and hands it took; none without an active webhook. Several
// hands may fire for one tenant, and ids do not ascend from one page to the next. The tenants are in the order of
// locks.
const WRITE = query(
  `insert into webhook_events (tick_id, tenant_id, count, earliest_execution_id, created_at)
   select :tick_id::bigint, n.tenant_id, n.count, n.earliest, :now::bigint
   from ${rowsIn(WAKE_UPS, 'n')} join webhooks w on w.tenant_id = n.tenant_id
   where w.status = 'active' order by n.tenant_id
   on conflict (tick_id, tenant_id) do update set count = webhook_events.count + excluded.count,
     earliest_execution_id = least(webhook_events.earliest_execution_id, excluded.earliest_execution_id)`,
)

/**
 * Of a pass and all earlier ones, whose hands may have died. Each advance of a sandbox has a number of its own, below
 * zero.
 */
const UNCLAIMED = `claimed_at is null and tick_id <= :tick_id::bigint and (tick_id > 0 or tick_id = :tick_id)`
const LEFT = query<{ is_left: boolean }>(
  `select exists (select 1 from webhook_events where ${UNCLAIMED}) as is_left`,
)
/** When two processes claim the same one at once, the second waits for the first and then finds it claimed. */
const CLAIM_WAKE_UPS = query<TenantRow & WebhookRow & { count: bigint; earliest_execution_id: string }>(
  `with unclaimed as (
     select tick_id, tenant_id from webhook_events where ${UNCLAIMED}
     order by tick_id, tenant_id for no key update),
   claimed as (
     update webhook_events v set claimed_at = :now from unclaimed
     where v.tick_id = unclaimed.tick_id and v.tenant_id = unclaimed.tenant_id
     returning v.tick_id, v.tenant_id, v.count, v.earliest_execution_id)
   select w.*, t.*, c.count, c.earliest_execution_id
   from claimed c join tenants t using (tenant_id) join webhooks w using (tenant_id)
   where w.status = 'active' order by c.tick_id, t.tenant_id`,
)

/** The last statement of its transaction, because the tenants' other pages wait from here until its commit. */
async function writeWakeUps(tx: Tx, passId: number, fired: readonly Fired[], now: Instant): Promise<void> {
  const wakeUps = wakeUpsOf(fired).map(({ tenant, ...rest }) => ({ tenant_id: tenant.tenantId, ...rest }))
  if (wakeUps.length === 0) return
  await tx.run(WRITE, { ...arraysOf(WAKE_UPS, wakeUps), tick_id: passId, now })
}

export const createWakeUpStore = (connection: Connection): WakeUpStore => ({
  claimWakeUps: (passId) =>
    connection.write(async (tx) => {
      const { real } = await tx.times
      const rows = await tx.all(CLAIM_WAKE_UPS, { tick_id: passId, now: real })
      return rows.map((row) => ({
        tenant: tenantOf(row),
        webhook: webhookOf(row),
        count: Number(row.count),
        earliest: row.earliest_execution_id as ExecutionId,
      }))
    }),

  hasLeftWakeUps: async (passId) =>
    (await connection.look((tx) => tx.get(LEFT, { tick_id: passId })))?.is_left === true,
})

// How the rows of an import of prices are staged.

const IMPORTED = arraysFor('price_imports', columnsToAdd('price_imports'))
const STAGE = query(
  `insert into price_imports (${namesOf(IMPORTED)}) select n.* from ${rowsIn(IMPORTED, 'n')} on conflict do nothing`,
)
const CLEAR = query('delete from price_imports')

/** Without the gate of months, so that no month waits for the end of an import. */
export const createStaging = (connection: Connection): Staging => ({
  begin: createSessionLocks(connection, LOCK.import),
  add: (batch) => connection.look((tx) => tx.run(STAGE, arraysOf(IMPORTED, batch))),
  clear: () => connection.look((tx) => tx.run(CLEAR)),
})

// One page of a scheduler pass, for a transaction of the scheduler's: its plans are locked, rolled, decided and stored,
// all of them in a handful of statements.

/**
 * How many plans one transaction takes: enough to spread the cost of a commit, few enough that nobody waits long for a
 * row.
 */
const PAGE_PLANS = 250

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
  TenantRow & { frequency: string; amount_usd: bigint; min_tranche: bigint }

/**
 * The plans of a page that may fire. A user whose disable is under way has none. A partner's status is read from the
 * partner itself, because schedules follow it later.
 */
const PLANS_OF_PAGE = query<PageRow>(
  `select s.*, w.reserved, w.spent, w.excess, w.released, w.closed_at, w.close_reason,
     t.partner_slug, t.environment, p.tenant_id, p.frequency, p.amount_usd, r.min_tranche,
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
const LATEST_ID = query<{ id: string }>(LATEST_EXECUTION)

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
    tx.all(PLANS_OF_PAGE, plans),
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
  return {
    schedule: scheduleOf(row),
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
