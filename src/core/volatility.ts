// Recent volatility: an exponentially weighted variance of log returns per hour, updated price by price.

import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS } from './instant.ts'
import { type Price, priceAsNumber } from './money.ts'

export type Volatility = {
  /** Variance of log returns per hour. */
  variance: number
  /** Hours of returns taken in so far. */
  hours: number
  last: { price: Price; at: Instant } | null
}

export const HALF_LIFE_HOURS = 72
/** Prices older than ten half-lives no longer move it. */
export const REACH_MS = 30 * DAY_MS
export const SPACING_MIN_MS = 15 * MINUTE_MS
export const GAP_MAX_MS = 6 * HOUR_MS
const HISTORY_MIN_HOURS = 24
export const SIGMA_DEFAULT = 0.005
const SIGMA_MIN = 0.001
const SIGMA_MAX = 0.03

export const FIRST_VOLATILITY: Volatility = { variance: SIGMA_DEFAULT ** 2, hours: 0, last: null }

/** Takes in one price. One too close to the last one kept is passed over; one after too long a gap gives no return. */
export function observe(seen: Volatility, price: Price, at: Instant): Volatility {
  if (seen.last === null) return { ...seen, last: { price, at } }
  const gap = at - seen.last.at
  if (0 <= gap && gap < SPACING_MIN_MS) return seen
  // A gap below zero is a clock set back: history goes on from here.
  if (gap < 0 || gap > GAP_MAX_MS) return { ...seen, last: { price, at } }
  const dt = gap / HOUR_MS
  const r = Math.log(priceAsNumber(price) / priceAsNumber(seen.last.price))
  const weight = 1 - 2 ** (-dt / HALF_LIFE_HOURS)
  return {
    variance: seen.variance + weight * ((r * r) / dt - seen.variance),
    hours: seen.hours + dt,
    last: { price, at },
  }
}

/** Standard deviation per square root of an hour, within bounds; a fixed value until a day of history is in. */
export function sigma(seen: Volatility): number {
  if (seen.hours < HISTORY_MIN_HOURS) return SIGMA_DEFAULT
  return Math.min(SIGMA_MAX, Math.max(SIGMA_MIN, Math.sqrt(seen.variance)))
}
