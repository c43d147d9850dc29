// The trades of a month by hand: every row is read, as arrays of exact integers, and nothing is made of it.

import { TRADES_BY_HAND } from '../trades.ts'
import type { RawWork } from './raw.ts'

export const rawTrades: RawWork = (db, count) => {
  const trades = db.prepare(TRADES_BY_HAND).safeIntegers().raw()
  let rows: IterableIterator<unknown> | undefined
  return (i) => {
    rows ??= trades.iterate()
    if (rows.next().done) throw new Error(`${i} trades are there, and ${count} are to be read`)
    // No statement may follow, not even the commit, while rows are left to be read.
    if (i === count - 1) rows.return?.()
  }
}
