// The backtest: the scheduler's own decisions over a price history, one pass a bar, one window every seven hours, and
// what they saved.

import type { Trigger } from '../core/execution.ts'
import { type Price, priceAsNumber, usd, ZERO_USD } from '../core/money.ts'
import { FIRST_VOLATILITY, observe, sigma } from '../core/price.ts'
import { DAY_MS, earlier, type Frequency, type Instant, plus, WINDOW_MS } from '../core/time.ts'
import {
  failsafeLead,
  failsafeStart,
  freshSchedule,
  type Layout,
  type Schedule,
  type Window,
} from '../core/window.ts'
import { decide } from './slot-reserve.ts'
import { WARM_UP_MS, WINDOW_EVERY_MS } from './window-starts.ts'

/** What one window cost and what it might have cost: prices in dollars, spend as shares of the budget by bar. */
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
 * The first bar whose pass finds the plan due, or `endBar`. A waiting plan is due at known instants and at the first
 * price that is low enough, as in the store's indexes; the bars before it change nothing.
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

/** The first of some bars at or after an instant, by binary search; `endBar` when all are before it. */
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

// A price history as the backtest reads it: columns in time order, with what a scheduler would have known at each
// price.

/** Bars in time order, no two at one instant. */
export type History = {
  /** When a price became known. */
  at: Float64Array
  /** The price, in units of 1e-8 dollars. */
  price: BigInt64Array
  /** The price in dollars. */
  value: Float64Array
  /** The volatility that prices up to this one show to a scheduler. */
  sigma: Float64Array
  /** How early the failsafe begins when a pass comes with every price. */
  leadMs: number
}

type Point = { at: Instant; price: Price }

/**
 * Takes in prices in batches, in any order; of several at one instant the first one counts. The batches are not kept,
 * so a long history takes little memory.
 */
export function gatherHistory(): { add: (points: readonly Point[]) => void; history: () => History } {
  let at = new Float64Array(1_024)
  let price = new BigInt64Array(1_024)
  let length = 0
  return {
    add(points) {
      for (const point of points) {
        if (length === at.length) {
          at = new Float64Array(at.buffer.transfer(2 * at.byteLength))
          price = new BigInt64Array(price.buffer.transfer(2 * price.byteLength))
        }
        at[length] = point.at
        price[length] = point.price
        length += 1
      }
    },
    history: () => judged(inOrder({ at: at.subarray(0, length), price: price.subarray(0, length) })),
  }
}

type Prices = Pick<History, 'at' | 'price'>

function inOrder(prices: Prices): Prices {
  const { at, price } = prices
  if (at.every((instant, i) => i === 0 || instant > (at[i - 1] ?? 0))) return prices
  const order = Uint32Array.from(at.keys())
    .sort((a, b) => (at[a] ?? 0) - (at[b] ?? 0) || a - b)
    .filter((bar, i, all) => i === 0 || at[bar] !== at[all[i - 1] ?? 0])
  return {
    at: Float64Array.from(order, (bar) => at[bar] ?? 0),
    price: BigInt64Array.from(order, (bar) => price[bar] ?? 0n),
  }
}

function judged({ at, price }: Prices): History {
  const value = new Float64Array(at.length)
  const sigmas = new Float64Array(at.length)
  let volatility = FIRST_VOLATILITY
  for (let bar = 0; bar < at.length; bar++) {
    const known = price[bar] as Price
    volatility = observe(volatility, known, at[bar] as Instant)
    value[bar] = priceAsNumber(known)
    sigmas[bar] = sigma(volatility)
  }
  return { at, price, value, sigma: sigmas, leadMs: failsafeLead(barGaps(at)) }
}

/** The usual time between bars replaces the gaps between passes: holes in a history are not outages of a scheduler. */
function barGaps(at: Float64Array): number[] {
  const gaps = Float64Array.from(at.subarray(1, 1_001), (instant, i) => instant - (at[i] ?? 0)).sort()
  const usual = gaps[Math.floor(gaps.length / 2)] ?? 0
  return [usual, usual]
}

// The result of a backtest: the strategy beside its baselines, means with their intervals and their tails.

/** Savings against the time-weighted average, in basis points; positive is cheaper. */
export type Summary = {
  mean_bp: number
  mean_bp_ci95: [number, number]
  median_bp: number
  win_rate: number
  p5_bp: number
  worst_bp: number
  capture: number
}

export type BacktestReport = Summary & {
  file: string
  frequency: Frequency
  windows: number
  /** The independent blocks that the intervals rest on, and the days of each. */
  blocks: number
  block_days: number
  drift_bp: number
  skill_bp: number
  skill_bp_ci95: [number, number]
  baselines: { lump: Summary; clock: Summary; minimum: Summary }
}

/** Windows close together share their market: the blocks are long enough to be nearly independent. */
const BLOCK_DAYS: Record<Frequency, number> = { daily: 30, weekly: 60, 'bi-weekly': 90 }

/** The independent blocks that an interval rests on. */
export type Blocks = { count: number; days: number }
/** With fewer, an interval is far too narrow; with one, it has no width at all. */
export const BLOCKS_MIN = 10

export function blocksOf(results: readonly WindowResult[], frequency: Frequency): Blocks {
  const days = BLOCK_DAYS[frequency]
  return { count: new Set(results.map(({ start }) => blockAt(start, days))).size, days }
}

const blockAt = (at: number, days: number): number => Math.floor(at / (days * DAY_MS))

export function reportOf(
  results: readonly WindowResult[],
  of: { file: string; frequency: Frequency; history: History },
): BacktestReport {
  const { file, frequency, history } = of
  const blocks = blocksOf(results, frequency)
  const blockOf = (i: number): number => blockAt(results[i]?.start ?? 0, BLOCK_DAYS[frequency])
  const summary = (cost: (window: WindowResult) => number): Summary => summarise(results, cost, blockOf)
  const drifts = driftSavings(results, history)
  const skills = results.map((window, i) => saving(window, window.cost) - (drifts[i] ?? 0))
  return {
    file,
    frequency,
    windows: results.length,
    blocks: blocks.count,
    block_days: blocks.days,
    ...summary((window) => window.cost),
    drift_bp: mean(drifts),
    skill_bp: mean(skills),
    skill_bp_ci95: meanInterval(skills, blockOf),
    baselines: {
      lump: summary((window) => window.lump),
      clock: summary((window) => window.clock),
      minimum: summary((window) => window.min),
    },
  }
}

export const saving = (window: WindowResult, cost: number): number => 1e4 * (1 - cost / window.twap)

/**
 * A saving this small is a rounding error of adding doubles: it is not a win, and in a flat market there is nothing to
 * capture.
 */
const NOISE_BP = 1e-6

function summarise(
  results: readonly WindowResult[],
  cost: (window: WindowResult) => number,
  blockOf: (index: number) => number,
): Summary {
  const savings = results.map((window) => saving(window, cost(window)))
  const gained = results.reduce((sum, window) => sum + window.twap - cost(window), 0)
  const possible = results.reduce((sum, window) => sum + window.twap - window.min, 0)
  const average = results.reduce((sum, window) => sum + window.twap, 0)
  return {
    mean_bp: mean(savings),
    mean_bp_ci95: meanInterval(savings, blockOf),
    median_bp: quantile(savings, 0.5),
    win_rate: savings.filter((value) => value > NOISE_BP).length / savings.length,
    p5_bp: quantile(savings, 0.05),
    worst_bp: quantile(savings, 0),
    capture: 1e4 * possible > NOISE_BP * average ? gained / possible : 0,
  }
}

/** The steps into which a window is divided for the average spend profile. */
const PROFILE_STEPS = 336

/**
 * What a fixed schedule would have saved if it spent, in every window, the same share at the same time as the strategy
 * does on average: the part of a saving that the market's drift explains.
 */
function driftSavings(results: readonly WindowResult[], { value }: History): number[] {
  const profile = new Float64Array(PROFILE_STEPS)
  for (const { fires, bars } of results) {
    for (const { bar, share } of fires) {
      const step = Math.min(PROFILE_STEPS - 1, Math.floor((bar * PROFILE_STEPS) / bars))
      profile[step] = (profile[step] ?? 0) + share / results.length
    }
  }
  return results.map((window) => {
    let coins = 0
    let spent = 0
    profile.forEach((share, step) => {
      if (share === 0) return
      const bar = Math.min(window.bars - 1, Math.ceil((step * window.bars) / PROFILE_STEPS))
      coins += share / (value[window.firstBar + bar] ?? 0)
      spent += share
    })
    return saving(window, spent / coins)
  })
}

// The statistics of a backtest: order statistics, and intervals by bootstrap over calendar blocks.

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

/** The smallest value that at least a share `q` of the values do not exceed. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN
}

const RESAMPLES = 2_000
const SEED = 20_260_105

/**
 * A 95 % interval for the mean, by drawing whole calendar blocks with replacement: windows that overlap, or share a
 * week of the market, are not independent. Deterministic.
 */
export function meanInterval(
  values: readonly number[],
  blockOf: (index: number) => number,
): [number, number] {
  const blocks = new Map<number, { sum: number; n: number }>()
  values.forEach((value, i) => {
    const block = blocks.get(blockOf(i)) ?? { sum: 0, n: 0 }
    block.sum += value
    block.n += 1
    blocks.set(blockOf(i), block)
  })
  const drawn = [...blocks.values()]
  const random = seededRandom(SEED)
  const means = Array.from({ length: RESAMPLES }, () => {
    let sum = 0
    let n = 0
    for (let i = 0; i < drawn.length; i++) {
      const block = drawn[Math.floor(random() * drawn.length)]
      sum += block?.sum ?? 0
      n += block?.n ?? 0
    }
    return sum / n
  })
  return [quantile(means, 0.025), quantile(means, 0.975)]
}

// Repeatable random numbers, for simulations and statistics. Never for anything secret.

/** Numbers in [0, 1) that are the same for the same seed: mulberry32. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
