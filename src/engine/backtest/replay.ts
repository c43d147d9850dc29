// The timing engine over history: the very decisions of the scheduler, one pass a bar, one window every seven hours.

import type { Trigger } from '../../core/execution.ts'
import { failsafeLead } from '../../core/failsafe.ts'
import { type Frequency, WINDOW_MS } from '../../core/frequency.ts'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../../core/instant.ts'
import { type Price, priceAsNumber, usd, ZERO_USD } from '../../core/money.ts'
import { freshSchedule, type Layout, type Schedule } from '../../core/schedule-state.ts'
import { FIRST_VOLATILITY, observe, sigma } from '../../core/volatility.ts'
import type { Window } from '../../core/window.ts'
import { decide, type Pass } from '../slot-reserve.ts'

/** Prices in time order, one bar each: when a price became known, and the price. */
export type History = { at: Float64Array; price: Price[]; value: Float64Array }

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

const WINDOW_EVERY_MS = 7 * HOUR_MS
const WARM_UP_MS = 14 * DAY_MS
const BUDGET = usd('10000.00')
const MIN_TRANCHE = usd('5.00')

/** Orders prices by time; of several at one instant the first one stands. */
export function historyOf(points: readonly { at: Instant; price: Price }[]): History {
  const sorted = points.every((point, i) => i === 0 || point.at > (points[i - 1]?.at ?? 0))
    ? points
    : points.toSorted((a, b) => a.at - b.at).filter((point, i, all) => point.at !== all[i - 1]?.at)
  return {
    at: Float64Array.from(sorted, (point) => point.at),
    price: sorted.map((point) => point.price),
    value: Float64Array.from(sorted, (point) => priceAsNumber(point.price)),
  }
}

/** Runs every window of the history. */
export function backtest(of: History, frequency: Frequency, layout: Layout | null = null): WindowResult[] {
  const length = WINDOW_MS[frequency]
  const sigmas = deviations(of)
  const lead = failsafeLead(barGaps(of))
  const results: WindowResult[] = []
  const last = of.at[of.at.length - 1] ?? 0
  let firstBar = 0
  for (let start = (of.at[0] ?? 0) + WARM_UP_MS; start + length <= last; start += WINDOW_EVERY_MS) {
    while ((of.at[firstBar] ?? Number.POSITIVE_INFINITY) < start) firstBar += 1
    let endBar = firstBar
    while (endBar < of.at.length && (of.at[endBar] ?? 0) < start + length) endBar += 1
    if (endBar > firstBar)
      results.push(
        runWindow({ of, sigmas, lead, layout }, { start: start as Instant, length, firstBar, endBar }),
      )
  }
  return results
}

type Market = { of: History; sigmas: Float64Array; lead: number; layout: Layout | null }
type Span = { start: Instant; length: number; firstBar: number; endBar: number }

function runWindow(market: Market, span: Span): WindowResult {
  const { of } = market
  let inverse = 0
  let min = Number.POSITIVE_INFINITY
  for (let i = span.firstBar; i < span.endBar; i++) {
    const value = of.value[i] ?? 0
    inverse += 1 / value
    if (value < min) min = value
  }
  const bars = span.endBar - span.firstBar
  const { fires, slots } = play(market, span, true)
  return {
    start: span.start,
    end: plus(span.start, span.length),
    slots,
    cost: costOf(of, span, fires),
    twap: bars / inverse,
    min,
    lump: of.value[span.firstBar] ?? 0,
    clock: costOf(of, span, play(market, span, false).fires),
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

/** Plays one window bar by bar, visiting the engine only when the scheduler would. */
function play(
  { of, sigmas, lead, layout }: Market,
  span: Span,
  live: boolean,
): Pick<WindowResult, 'fires' | 'slots'> {
  const fresh = freshSchedule(
    { ...WINDOW, start: span.start, end: plus(span.start, span.length) },
    MIN_TRANCHE,
  )
  let schedule: Schedule = { ...fresh, layout }
  const fires: WindowResult['fires'] = []
  const failsafeAt = span.start + span.length - lead
  let limit = limitOf(schedule)
  for (let i = span.firstBar; i < span.endBar; i++) {
    const now = of.at[i] as Instant
    const due =
      now >= schedule.nextRunAt ||
      (live ? (of.value[i] ?? 0) <= limit : schedule.clockAt !== null && now >= schedule.clockAt) ||
      (now >= failsafeAt && schedule.fireable >= schedule.floor)
    if (!due) continue
    const pass: Pass = {
      now,
      price: live ? (of.price[i] ?? null) : null,
      sigma: sigmas[i] ?? 0,
      leadMs: lead,
    }
    const decision = decide(schedule, pass)
    schedule = decision.schedule
    limit = limitOf(schedule)
    const { tranche } = decision
    if (tranche) {
      fires.push({
        bar: i - span.firstBar,
        share: Number(tranche.amount) / Number(BUDGET),
        trigger: tranche.trigger,
      })
    }
  }
  return { fires, slots: schedule.layout?.slots ?? 1 }
}

const limitOf = (schedule: Schedule): number =>
  schedule.limitPrice === null ? 0 : priceAsNumber(schedule.limitPrice)

function deviations(of: History): Float64Array {
  const out = new Float64Array(of.at.length)
  let state = FIRST_VOLATILITY
  for (let i = 0; i < out.length; i++) {
    state = observe(state, of.price[i] as Price, of.at[i] as Instant)
    out[i] = sigma(state)
  }
  return out
}

/** The usual time between bars replaces the gaps between passes: holes in a history are not outages of a scheduler. */
function barGaps(of: History): number[] {
  const gaps = Array.from(
    { length: Math.min(1000, of.at.length - 1) },
    (_, i) => (of.at[i + 1] ?? 0) - (of.at[i] ?? 0),
  )
  const usual = gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 2)] ?? 0
  return [usual, usual]
}
