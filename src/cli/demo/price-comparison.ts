// What was paid, compared with the time-weighted mean of the same windows. Statistics in floats: no amount is derived
// from them.

import { assert } from '../../core/assert.ts'
import { FREQUENCIES, type Frequency } from '../../core/frequency.ts'
import {
  averagePrice,
  type Btc,
  CENT,
  formatPrice,
  type Price,
  priceAsNumber,
  type Usd,
} from '../../core/money.ts'
import type { Story } from './play.ts'
import type { ReadPlan, ReadWindow } from './read-plans.ts'
import { PATH_STEP_MS } from './storyline.ts'

export type WindowPrice = {
  average_price_usd: string
  /** The harmonic mean of the window's prices: what the same dollars cost when spread evenly over the window. */
  time_weighted_mean_usd: string
  /** 10,000 (1 - average / mean): above zero is cheaper. */
  saving_bp: number
}

export type PriceComparison = {
  frequency: Frequency
  /** Windows that ran their course; one that was cut short has no complete mean to compare with. */
  windows: number
  average_price_usd: string
  /** What the same dollars of the same windows cost on average when each window's are spread evenly over it. */
  even_price_usd: string
  mean_bp: number
  worst_bp: number
}

export function windowPrice(read: ReadWindow, story: Story): WindowPrice | null {
  const average = averagePrice(read.window.spent, read.bought)
  if (!read.ranItsCourse || average === null) return null
  return {
    average_price_usd: formatPrice(average),
    time_weighted_mean_usd: formatPrice(priceOf(timeWeightedMean(read, story))),
    saving_bp: toTenth(savingBp(read, story)),
  }
}

/** One line for each frequency that has a window to show. */
export function comparePrices(plans: readonly ReadPlan[], story: Story): PriceComparison[] {
  return FREQUENCIES.flatMap((frequency) => {
    const windows = plans
      .filter(({ plan }) => plan.frequency === frequency)
      .flatMap((plan) => plan.windows)
      .filter(({ ranItsCourse, bought }) => ranItsCourse && bought > 0n)
    return windows.length === 0 ? [] : [compare(frequency, windows, story)]
  })
}

function compare(frequency: Frequency, windows: readonly ReadWindow[], story: Story): PriceComparison {
  const savings = windows.map((window) => savingBp(window, story))
  const spent = windows.reduce((sum, { window }) => sum + window.spent, 0n) as Usd
  const bought = windows.reduce((sum, window) => sum + window.bought, 0n) as Btc
  const average = averagePrice(spent, bought)
  assert(average !== null, 'windows that bought have an average price')
  const evenly = windows.reduce(
    (sum, read) => sum + Number(read.window.spent) / timeWeightedMean(read, story),
    0,
  )
  return {
    frequency,
    windows: windows.length,
    average_price_usd: formatPrice(average),
    even_price_usd: formatPrice(priceOf(Number(spent) / evenly)),
    mean_bp: toTenth(savings.reduce((sum, saving) => sum + saving, 0) / savings.length),
    worst_bp: toTenth(Math.min(...savings)),
  }
}

function savingBp(read: ReadWindow, story: Story): number {
  const average = Number(read.window.spent) / Number(read.bought)
  return 10_000 * (1 - average / timeWeightedMean(read, story))
}

function timeWeightedMean({ window }: ReadWindow, { path, from }: Story): number {
  const prices = path.slice((window.start - from) / PATH_STEP_MS, (window.end - from) / PATH_STEP_MS)
  return prices.length / prices.reduce((sum, price) => sum + 1 / priceAsNumber(price), 0)
}

const priceOf = (value: number): Price => (BigInt(Math.round(value * 100)) * CENT) as Price

// Adding zero turns a rounded -0 into 0.
const toTenth = (value: number): number => Math.round(value * 10) / 10 + 0
