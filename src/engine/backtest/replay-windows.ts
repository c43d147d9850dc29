// The timing engine over history: the very decisions of the scheduler, one pass a bar, one window every seven hours.

import type { Trigger } from '../../core/execution.ts'
import { failsafeStart } from '../../core/failsafe-start.ts'
import { type Frequency, WINDOW_MS } from '../../core/frequency.ts'
import { earlier, type Instant, plus } from '../../core/instant.ts'
import { type Price, priceAsNumber, usd, ZERO_USD } from '../../core/money.ts'
import { freshSchedule, type Layout, type Schedule } from '../../core/schedule-state.ts'
import type { Window } from '../../core/window.ts'
import { decide } from '../slot-reserve/decide-tranche.ts'
import type { History } from './bars.ts'
import { WARM_UP_MS, WINDOW_EVERY_MS } from './window-starts.ts'

/** What one window cost and what it might have: prices in dollars, spend as shares of the budget by bar. */
export type WindowResult = {
  start: Instant
  end: Instant
  slots: number
  cost: number
  twap: number
  min: number
  lump: number
  clock: number
  /** Where in the window, and how much: for the drift and for the drawing. */
  fires: { bar: number; share: number; trigger: Trigger }[]
  firstBar: number
  bars: number
}

const BUDGET = usd('10000.00')
const MIN_TRANCHE = usd('5.00')

/** Runs every window of the history. */
export function backtest(of: History, frequency: Frequency, layout: Layout | null = null): WindowResult[] {
  const { at } = of
  const length = WINDOW_MS[frequency]
  const results: WindowResult[] = []
  const last = at[at.length - 1] ?? 0
  for (let start = (at[0] ?? 0) + WARM_UP_MS; start + length <= last; start += WINDOW_EVERY_MS) {
    const firstBar = firstBarAt(at, start, { firstBar: 0, endBar: at.length })
    const endBar = firstBarAt(at, start + length, { firstBar, endBar: at.length })
    if (endBar > firstBar)
      results.push(runWindow(of, { start: start as Instant, length, firstBar, endBar }, layout))
  }
  return results
}

/** Bars of a history, up to `endBar` and without it. */
type Bars = { firstBar: number; endBar: number }
type Span = Bars & { start: Instant; length: number }

function runWindow(of: History, span: Span, layout: Layout | null): WindowResult {
  let inverse = 0
  let min = Number.POSITIVE_INFINITY
  for (let i = span.firstBar; i < span.endBar; i++) {
    const value = of.value[i] ?? 0
    inverse += 1 / value
    if (value < min) min = value
  }
  const bars = span.endBar - span.firstBar
  const end = plus(span.start, span.length)
  const fresh = freshSchedule({ ...WINDOW, start: span.start, end }, MIN_TRANCHE)
  const schedule = { ...fresh, layout }
  const { fires, slots } = play(of, span, { schedule, live: true })
  return {
    start: span.start,
    end,
    slots,
    cost: costOf(of, span, fires),
    twap: bars / inverse,
    min,
    lump: of.value[span.firstBar] ?? 0,
    clock: costOf(of, span, play(of, span, { schedule, live: false }).fires),
    fires,
    firstBar: span.firstBar,
    bars,
  }
}

const costOf = (of: History, span: Span, fires: WindowResult['fires']): number => {
  let coins = 0
  let spent = 0
  for (const { bar, share } of fires) {
    coins += share / (of.value[span.firstBar + bar] ?? 0)
    spent += share
  }
  return spent / coins
}

const WINDOW: Omit<Window, 'start' | 'end'> = {
  windowId: 0,
  planId: 0,
  budget: BUDGET,
  reserved: ZERO_USD,
  spent: ZERO_USD,
  excess: ZERO_USD,
  released: ZERO_USD,
  closed: null,
}

type Player = { schedule: Schedule; live: boolean }

/** Plays one window: a pass at each bar at which the scheduler would look at the plan. */
function play(
  of: History,
  { firstBar, endBar }: Span,
  player: Player,
): Pick<WindowResult, 'fires' | 'slots'> {
  const { live } = player
  let { schedule } = player
  const fires: WindowResult['fires'] = []
  const visitFrom = (bar: number): number => nextVisit(of, { firstBar: bar, endBar }, { schedule, live })
  for (let bar = visitFrom(firstBar); bar < endBar; bar = visitFrom(bar + 1)) {
    const decision = decide(schedule, {
      now: of.at[bar] as Instant,
      price: live ? (of.price[bar] as Price) : null,
      sigma: of.sigma[bar] ?? 0,
      leadMs: of.leadMs,
    })
    schedule = decision.schedule
    const { tranche } = decision
    if (tranche) {
      const share = Number(tranche.amount) / Number(BUDGET)
      fires.push({ bar: bar - firstBar, share, trigger: tranche.trigger })
    }
  }
  return { fires, slots: schedule.layout?.slots ?? 1 }
}

/**
 * The first bar whose pass finds the plan due, or `endBar`. A plan that waits is due at instants that are known and at
 * the first price that is low enough, as in the store's indexes; the bars before change nothing.
 */
function nextVisit(of: History, bars: Bars, { schedule, live }: Player): number {
  const { nextRunAt, clockAt, limitPrice } = schedule
  let wakeAt = nextRunAt
  if (schedule.fireable >= schedule.floor) wakeAt = earlier(wakeAt, failsafeStart(schedule, of.leadMs))
  if (!live && clockAt !== null) wakeAt = earlier(wakeAt, clockAt)
  const endBar = firstBarAt(of.at, wakeAt, bars)
  if (!live || limitPrice === null) return endBar
  return firstBarUnder(of.value, priceAsNumber(limitPrice), { ...bars, endBar })
}

/** The first of some bars at or after an instant, by halves; `endBar` when all are before it. */
function firstBarAt(at: Float64Array, instant: number, { firstBar, endBar }: Bars): number {
  let [low, high] = [firstBar, endBar]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((at[middle] ?? 0) < instant) low = middle + 1
    else high = middle
  }
  return low
}

/** The first of some bars with a price at or under a limit; `endBar` when there is none. */
function firstBarUnder(value: Float64Array, limit: number, { firstBar, endBar }: Bars): number {
  let bar = firstBar
  while (bar < endBar && (value[bar] ?? 0) > limit) bar += 1
  return bar
}
