// When a price is live: fresh enough that a tranche may be timed by it.

import { type Instant, MINUTE_MS } from './instant.ts'
import type { Price } from './money.ts'

/** How old a price may be and still count as live. */
export const PRICE_LIVE_MS = 20 * MINUTE_MS

/** The newest price while it is live, else null. */
export const livePriceOf = (newest: { price: Price; at: Instant } | null, now: Instant): Price | null =>
  newest && now - newest.at < PRICE_LIVE_MS ? newest.price : null

/** Where prices come from that no feed gave: an operator's hand, and a file of history. */
export const BY_HAND = 'manual'
export const IMPORTED = 'import'
