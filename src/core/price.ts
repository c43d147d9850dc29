// Prices: whether one is live, how volatile they are, and which fills do not fit them.

import { type Fill, isFill, type Trade } from './confirmation.ts'
import { averagePrice, type Btc, type Price, priceAsNumber, UNITS, type Usd } from './money.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS } from './time.ts'

export const PRICE_LIVE_MS = 20 * MINUTE_MS

export const livePriceOf = (newest: { price: Price; at: Instant } | null, now: Instant): Price | null =>
  newest && now - newest.at < PRICE_LIVE_MS ? newest.price : null

/** The sources of prices that come from no feed: an operator, and a history file. */
export const BY_HAND = 'manual'
export const IMPORTED = 'import'

// Volatility: an exponentially weighted variance of log returns per hour, updated price by price.

export type Volatility = {
  variance: number
  hours: number
  last: { price: Price; at: Instant } | null
}

export const HALF_LIFE_HOURS = 72
/** Prices older than ten half-lives no longer matter. */
export const REACH_MS = 30 * DAY_MS
export const SPACING_MIN_MS = 15 * MINUTE_MS
export const GAP_MAX_MS = 6 * HOUR_MS
const HISTORY_MIN_HOURS = 24
export const SIGMA_DEFAULT = 0.005
const SIGMA_MIN = 0.001
const SIGMA_MAX = 0.03

export const FIRST_VOLATILITY: Volatility = { variance: SIGMA_DEFAULT ** 2, hours: 0, last: null }

/** Adds a price. A price too soon after the last one used is ignored; after too long a gap it gives no return. */
export function observe(current: Volatility, price: Price, at: Instant): Volatility {
  if (current.last === null) return { ...current, last: { price, at } }
  const gap = at - current.last.at
  if (0 <= gap && gap < SPACING_MIN_MS) return current
  // A negative gap means that the clock was set back: history starts anew here.
  if (gap < 0 || gap > GAP_MAX_MS) return { ...current, last: { price, at } }
  const dt = gap / HOUR_MS
  const r = Math.log(priceAsNumber(price) / priceAsNumber(current.last.price))
  const weight = 1 - 2 ** (-dt / HALF_LIFE_HOURS)
  return {
    variance: current.variance + weight * ((r * r) / dt - current.variance),
    hours: current.hours + dt,
    last: { price, at },
  }
}

/** Standard deviation per square root of an hour, within bounds; a fixed value until a day of history is known. */
export function sigma(current: Volatility): number {
  if (current.hours < HISTORY_MIN_HOURS) return SIGMA_DEFAULT
  return Math.min(SIGMA_MAX, Math.max(SIGMA_MIN, Math.sqrt(current.variance)))
}

// Whether the dollars, the coins and the price of a fill fit each other and the market. A fill that does not fit is
// recorded all the same, and an operator is told.

/** The tolerated difference between the dollars of a fill and its coins times its price. */
export const PRICE_TOLERANCE_PERCENT = 5n

/** A price this many times above or below the market's is in another unit, or of another day. */
export const FAR_OFF = 2n

/** Where an execution fired without a price: how old a stored price may be to count as the market's. */
export const MARKET_PRICE_MS = DAY_MS

/** The range of plausible prices where the market's is unknown: 100 to 5,000,000 dollars. */
export const PLAUSIBLE_PRICES = { least: 100n * UNITS, most: 5_000_000n * UNITS }

/** Whether the dollars and coins of a fill contradict its price, allowing for coins rounded to a satoshi. */
function isMispriced({ usdAmount, btcAmount, executionPrice }: Fill): boolean {
  const paid = usdAmount * UNITS
  const off = paid - btcAmount * executionPrice
  return (off < 0n ? -off : off) > (paid * PRICE_TOLERANCE_PERCENT) / 100n + executionPrice
}

/** Whether a price is far from the market's; `market` is null where it is unknown. */
export function isFarOff(price: Price, market: Price | null): boolean {
  if (market === null) return price < PLAUSIBLE_PRICES.least || price > PLAUSIBLE_PRICES.most
  return price >= market * FAR_OFF || price * FAR_OFF <= market
}

/** The price that a fill was confirmed at, and what is wrong with it. */
export type OddPrice = { price: Price; fault: 'contradicted' | 'far_off' }

/**
 * The fault in the figures of a fill; null if there is none, or no fill. Amounts given by an operator are not compared
 * with a reported price that is far off, but with the market's, where that is known.
 */
export function oddPrice(
  { report }: Trade,
  { amounts, market }: { amounts: { usd: Usd; btc: Btc }; market: Price | null },
): OddPrice | null {
  if (!isFill(report)) return null
  const { executionPrice: price } = report
  const { usd, btc } = amounts
  const asConfirmed = usd === report.usdAmount && btc === report.btcAmount
  const isOff = isFarOff(price, market)
  if (!isOff || asConfirmed) {
    if (isMispriced({ ...report, usdAmount: usd, btcAmount: btc })) return { price, fault: 'contradicted' }
    return isOff ? { price, fault: 'far_off' } : null
  }
  const paid = averagePrice(usd, btc)
  return paid !== null && isFarOff(paid, market) ? { price, fault: 'far_off' } : null
}
