// Whether the dollars, the coins and the price of a fill fit each other and the market. A fill in which they do not is
// recorded all the same, and a person is told.

import { type Fill, isFill } from './confirmation-report.ts'
import { DAY_MS } from './instant.ts'
import { averagePrice, type Btc, type Price, UNITS, type Usd } from './money.ts'
import type { Trade } from './trade.ts'

/** How far the dollars of a fill may be from its coins at its price before it deserves a look: 5 percent. */
export const PRICE_TOLERANCE_PERCENT = 5n

/** A price this many times the market's, or the market's this many times it, is of another unit, or of another day. */
export const FAR_OFF = 2n

/** How long before an execution a stored price may have been the market's, where it fired without one. */
export const MARKET_PRICE_MS = DAY_MS

/** What one bitcoin can cost at all, where nothing is known of the market: 100 to 5,000,000 dollars. */
export const PLAUSIBLE_PRICES = { least: 100n * UNITS, most: 5_000_000n * UNITS }

/** Whether dollars and coins of a fill do not fit its price, allowing for coins that were rounded to a satoshi. */
function isMispriced({ usdAmount, btcAmount, executionPrice }: Fill): boolean {
  const paid = usdAmount * UNITS
  const off = paid - btcAmount * executionPrice
  return (off < 0n ? -off : off) > (paid * PRICE_TOLERANCE_PERCENT) / 100n + executionPrice
}

/** Whether a price is no price of the market, which is null where nothing is known of it. */
export function isFarOff(price: Price, market: Price | null): boolean {
  if (market === null) return price < PLAUSIBLE_PRICES.least || price > PLAUSIBLE_PRICES.most
  return price >= market * FAR_OFF || price * FAR_OFF <= market
}

/** The price that a fill was confirmed at, and what is wrong with it. */
export type OddPrice = { price: Price; fault: 'contradicted' | 'far_off' }

/**
 * What is wrong with the figures of a fill that comes to so much; null if nothing is, or there is no fill. Amounts that
 * an operator gave are not held against a price that is far off: they are held against the market, as far as it is
 * known.
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
