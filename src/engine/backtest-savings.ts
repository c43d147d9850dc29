// The savings of a backtest's windows: the strategy beside its baselines, means with their intervals and their tails,
// by start and by year.

import {
  DAY_MS,
  formatInstant,
  HOUR_MS,
  type Instant,
  MINUTE_MS,
  midnightOf,
  plus,
  utcDate,
} from '../core/time.ts'
import { type Frequency, WINDOW_MS } from '../core/window.ts'
import { type History, PROFILE_STEPS, seededRandom, type Windows } from './backtest.ts'

/** Savings against the time-weighted average, in basis points; positive is cheaper. */
type Savings = { mean_bp: number; median_bp: number; win_rate: number; p5_bp: number; worst_bp: number }

export type Summary = Savings & { mean_bp_ci95: [number, number]; capture: number }

/** The cost of a purchase on top of the price; the time-weighted average has none. */
export type Costs = {
  fee_bps: number
  /** From bid to ask: a purchase pays half of it above the price. */
  spread_bps: number
}

/**
 * How much the mean depends on when a plan begins. The windows of a plan follow each other, so there are as many
 * different plans as starts within one window's length.
 */
type ByStart = { every_minutes: number; plans: number; lowest_mean_bp: number; highest_mean_bp: number }

export type Year = Savings & { year: number; windows: number; dca_mean_bp: number }

export type BacktestResult = Summary &
  Costs & {
    file: string
    frequency: Frequency
    windows: number
    first_start: string
    last_end: string
    /** The independent blocks that the intervals rest on, and the days of each. */
    blocks: number
    block_days: number
    drift_bp: number
    skill_bp: number
    skill_bp_ci95: [number, number]
    /** The saving over the same amount each day at the hour of the start. */
    over_dca_bp: number
    over_dca_bp_ci95: [number, number]
    starts: ByStart
    years: Year[]
    baselines: { lump: Summary; clock: Summary; dca: Summary; minimum: Summary }
    /** For one window every seven hours, as in the measurements behind the rule. */
    every_7h: Savings & { windows: number }
  }

/** Windows close together share their market. Blocks of this many days are nearly independent. */
const BLOCK_DAYS: Record<Frequency, number> = { daily: 30, weekly: 60, 'bi-weekly': 90 }

/** With fewer blocks, an interval is far too narrow; with a single one, it has no width at all. */
export const BLOCKS_MIN = 10

type ResultParts = { file: string; history: History; costs: Costs }

export function resultOf(windows: Windows, { file, history, costs }: ResultParts): BacktestResult {
  const { frequency, start, cost, lump, clock, dca, minimum } = windows
  const days = BLOCK_DAYS[frequency]
  const blockOf = (i: number): number => Math.floor((start[i] ?? 0) / (days * DAY_MS))
  const summary = (paid: Float64Array): Summary => summarise(windows, { paid, costs, blockOf })
  const saved = savingsOf(windows, cost, costs)
  const savedByDca = savingsOf(windows, dca, costs)
  const drifts = savingsOf(windows, driftCosts(windows, history), costs)
  const skills = difference(saved, drifts)
  const overDca = difference(saved, savedByDca)
  const everySevenHours = saved.filter(onceIn(7 * HOUR_MS, windows))
  return {
    file,
    frequency,
    windows: start.length,
    first_start: formatInstant((start[0] ?? 0) as Instant),
    last_end: formatInstant(plus((start.at(-1) ?? 0) as Instant, WINDOW_MS[frequency])),
    ...costs,
    blocks: new Set(start.map((_, i) => blockOf(i))).size,
    block_days: days,
    ...summary(cost),
    drift_bp: mean(drifts),
    skill_bp: mean(skills),
    skill_bp_ci95: meanInterval(skills, blockOf),
    over_dca_bp: mean(overDca),
    over_dca_bp_ci95: meanInterval(overDca, blockOf),
    starts: byStart(windows, saved),
    years: byYear(windows, saved, savedByDca),
    baselines: {
      lump: summary(lump),
      clock: summary(clock),
      dca: summary(dca),
      minimum: summary(minimum),
    },
    every_7h: { windows: everySevenHours.length, ...savings(everySevenHours) },
  }
}

/** The dollars that a purchase costs for each dollar of the price. */
export const markup = ({ fee_bps, spread_bps }: Costs): number =>
  (1 + spread_bps / 2 / 1e4) * (1 + fee_bps / 1e4)

/** The saving of each window against its time-weighted average, when buying at the given prices. */
export function savingsOf({ twap }: Windows, paid: Float64Array, costs: Costs): Float64Array {
  const factor = markup(costs)
  return paid.map((price, i) => 1e4 * (1 - (factor * price) / (twap[i] ?? 0)))
}

const difference = (a: Float64Array, b: Float64Array): Float64Array =>
  a.map((value, i) => value - (b[i] ?? 0))

/** A saving this small is a rounding error of adding doubles: no win, and nothing to capture. */
const NOISE_BP = 1e-6

type Paid = { paid: Float64Array; costs: Costs; blockOf: (index: number) => number }

function summarise(windows: Windows, { paid, costs, blockOf }: Paid): Summary {
  const saved = savingsOf(windows, paid, costs)
  const factor = markup(costs)
  const average = sum(windows.twap)
  const possible = average - factor * sum(windows.minimum)
  const { mean_bp, ...spread } = savings(saved)
  return {
    mean_bp,
    mean_bp_ci95: meanInterval(saved, blockOf),
    ...spread,
    capture: 1e4 * possible > NOISE_BP * average ? (average - factor * sum(paid)) / possible : 0,
  }
}

function savings(saved: Float64Array): Savings {
  const sorted = saved.toSorted()
  return {
    mean_bp: mean(saved),
    median_bp: quantileOf(sorted, 0.5),
    win_rate: saved.filter((value) => value > NOISE_BP).length / saved.length,
    p5_bp: quantileOf(sorted, 0.05),
    worst_bp: quantileOf(sorted, 0),
  }
}

/** Sorts the windows by plan: a plan's windows begin a whole number of windows apart. */
function byStart({ frequency, starts, start }: Windows, saved: Float64Array): ByStart {
  const windowMs = WINDOW_MS[frequency]
  const sums = new Float64Array(windowMs / starts.stepMs)
  const counts = new Uint32Array(sums.length)
  saved.forEach((value, i) => {
    const plan = (((start[i] ?? 0) - starts.first) % windowMs) / starts.stepMs
    sums[plan] = (sums[plan] ?? 0) + value
    counts[plan] = (counts[plan] ?? 0) + 1
  })
  const means = sums.map((total, plan) => total / (counts[plan] ?? 0)).filter((value) => !Number.isNaN(value))
  return {
    every_minutes: (starts.nth * starts.stepMs) / MINUTE_MS,
    plans: means.length,
    lowest_mean_bp: quantile(means, 0),
    highest_mean_bp: quantile(means, 1),
  }
}

function byYear({ start }: Windows, saved: Float64Array, savedByDca: Float64Array): Year[] {
  const years: Year[] = []
  for (let from = 0, to = 0; from < start.length; from = to) {
    const year = Number(utcDate((start[from] ?? 0) as Instant).slice(0, 4))
    const next = midnightOf(year + 1, 1, 1)
    while (to < start.length && (start[to] ?? 0) < next) to += 1
    const yearly = savings(saved.subarray(from, to))
    years.push({ year, windows: to - from, ...yearly, dca_mean_bp: mean(savedByDca.subarray(from, to)) })
  }
  return years
}

/** Selects the first start at or after each multiple of an interval, counted from the first start. */
const onceIn =
  (everyMs: number, { start, starts: { first, stepMs, nth } }: Windows) =>
  (_: number, i: number): boolean =>
    ((start[i] ?? 0) - first) % everyMs < nth * stepMs

/**
 * The prices of a fixed schedule that spends, in every window, the same share at the same time as the strategy does on
 * average: they show the part of a saving that comes from the market's drift.
 */
function driftCosts({ firstBar, endBar, profile, twap }: Windows, { inverse }: History): Float64Array {
  let purchases: [bar: number, share: number][] = []
  let boughtOver = 0
  return twap.map((_, i) => {
    const first = firstBar[i] ?? 0
    const bars = (endBar[i] ?? 0) - first
    if (bars !== boughtOver) purchases = purchasesOver(bars, profile)
    boughtOver = bars
    let coins = 0
    for (const [bar, share] of purchases) coins += share * (inverse[first + bar] ?? 0)
    return 1 / coins
  })
}

const purchasesOver = (bars: number, profile: Float64Array): [bar: number, share: number][] =>
  [...profile].flatMap((share, step): [number, number][] =>
    share === 0 ? [] : [[Math.min(bars - 1, Math.ceil((step * bars) / PROFILE_STEPS)), share]],
  )

// The statistics of a backtest: order statistics, and intervals by bootstrap over calendar blocks.

type Numbers = Float64Array | readonly number[]

function sum(values: Numbers): number {
  let total = 0
  for (const value of values) total += value
  return total
}

export const mean = (values: Numbers): number => sum(values) / values.length

/** The smallest value that at least a share `q` of the values do not exceed. */
export const quantile = (values: Numbers, q: number): number =>
  quantileOf(Float64Array.from(values).sort(), q)

const quantileOf = (sorted: Float64Array, q: number): number =>
  sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN

const RESAMPLES = 2_000
const SEED = 20_260_105

/** A 95 % interval by drawing whole calendar blocks: windows that share a week are not independent. Deterministic. */
export function meanInterval(values: Numbers, blockOf: (index: number) => number): [number, number] {
  const blocks = new Map<number, { sum: number; n: number }>()
  values.forEach((value, i) => {
    const key = blockOf(i)
    const block = blocks.get(key)
    if (!block) blocks.set(key, { sum: value, n: 1 })
    else {
      block.sum += value
      block.n += 1
    }
  })
  const drawn = [...blocks.values()]
  const random = seededRandom(SEED)
  const means = Float64Array.from({ length: RESAMPLES }, () => {
    let total = 0
    let n = 0
    for (let i = 0; i < drawn.length; i++) {
      const block = drawn[Math.floor(random() * drawn.length)]
      total += block?.sum ?? 0
      n += block?.n ?? 0
    }
    return total / n
  })
  return [quantile(means, 0.025), quantile(means, 0.975)]
}
