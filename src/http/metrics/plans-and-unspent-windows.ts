// What takes reading many rows, and is read at most once a minute: all plans, and the windows that left money.

import { type Instant, MINUTE_MS } from '../../core/instant.ts'
import type { MonitoringStore, Stock } from '../../store/monitoring.ts'

export const STOCK_TAKEN_MS = MINUTE_MS

export type TakeStock = (store: Pick<MonitoringStore, 'takeStock'>, now: Instant) => Promise<Stock>

/** Returns the latest stock until it is too old, or the clock was set back by as much. */
export function createStockTaker(): TakeStock {
  let latest: { at: Instant; stock: Stock } | null = null
  return async (store, now) => {
    if (latest === null || Math.abs(now - latest.at) >= STOCK_TAKEN_MS)
      latest = { at: now, stock: await store.takeStock(now) }
    return latest.stock
  }
}
