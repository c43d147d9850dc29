// What a backtest says: the strategy beside its baselines, means with their intervals and their tails.

import type { Frequency } from '../../core/frequency.ts'
import { DAY_MS } from '../../core/instant.ts'
import type { History } from './bars.ts'
import type { WindowResult } from './replay-windows.ts'
import { mean, meanInterval, quantile } from './statistics.ts'

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
  /** The independent pieces that the intervals rest on, and the days of each. */
  blocks: number
  block_days: number
  drift_bp: number
  skill_bp: number
  skill_bp_ci95: [number, number]
  baselines: { lump: Summary; clock: Summary; minimum: Summary }
}

/** Windows this close share their market: blocks long enough that what is left between them is little. */
const BLOCK_DAYS: Record<Frequency, number> = { daily: 30, weekly: 60, 'bi-weekly': 90 }

/** The independent pieces an interval rests on. */
export type Blocks = { count: number; days: number }
/** With fewer an interval is far too narrow, and with one it has no width at all. */
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

/** A saving this small is only what adding up doubles leaves: not a win, and in a flat market nothing to capture. */
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

/** Steps a window is divided into for the average spend profile. */
const PROFILE_STEPS = 336

/**
 * What a fixed schedule would have saved that spends the same share at the same time of every window as the strategy
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
