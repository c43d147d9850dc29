// Prices observed or imported, and the volatility that follows them.

import type { Instant } from '../core/instant.ts'
import type { Price } from '../core/money.ts'
import type { PageRequest } from './paging.ts'

/** A price and where it came from. */
export type ObservedPrice = { price: Price; source: string }
/** A feed that was asked for a price, and why it gave none; null when it gave one. */
export type AskedFeed = { name: string; failure: string | null }
export type ListedPrice = ObservedPrice & { at: Instant }

export interface PriceStore {
  /** Stores a price for the present instant and updates the volatility. Returns the instant. */
  addPrice(observed: ObservedPrice): Promise<Instant>
  listPrices(page: PageRequest): Promise<ListedPrice[]>
  /**
   * Adds the rows of every batch, or none: a source that throws leaves nothing behind. An instant that already has a
   * price keeps it. Returns how many were new, and recomputes the volatility. Throws import_running.
   */
  importPrices(batches: AsyncIterable<{ at: Instant; price: Price }[]>, source: string): Promise<number>
}
