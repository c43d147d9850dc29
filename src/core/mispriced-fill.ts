// Whether the dollars, the coins and the price of a fill fit each other. A fill in which they do not is recorded all
// the same, and a person is told.

import { type Fill, isFill } from './confirmation-report.ts'
import { type Btc, type Price, UNITS, type Usd } from './money.ts'
import type { Trade } from './trade.ts'

/** How far the dollars of a fill may be from its coins at its price before it deserves a look: 5 percent. */
export const PRICE_TOLERANCE_PERCENT = 5n

/** Whether dollars and coins of a fill do not fit its price, allowing for coins that were rounded to a satoshi. */
function isMispriced({ usdAmount, btcAmount, executionPrice }: Fill): boolean {
  const paid = usdAmount * UNITS
  const off = paid - btcAmount * executionPrice
  return (off < 0n ? -off : off) > (paid * PRICE_TOLERANCE_PERCENT) / 100n + executionPrice
}

/** The price that a fill was confirmed at, if what it comes to does not fit it; null if it does, or there is none. */
export function contradictedPrice({ report }: Trade, { usd, btc }: { usd: Usd; btc: Btc }): Price | null {
  if (!isFill(report)) return null
  const isOff = isMispriced({ ...report, usdAmount: usd, btcAmount: btc })
  return isOff ? report.executionPrice : null
}
