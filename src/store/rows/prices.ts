// Rows and values of prices, the volatility and the clock's dispute. First the price.

import type { Dispute } from '../../core/clock.ts'
import type { Price } from '../../core/money.ts'
import { FIRST_VOLATILITY, type Volatility } from '../../core/price.ts'
import { instant } from '../statement.ts'
import type { ListedPrice } from '../store.ts'
import type { NewRow, RowOf } from '../tables.ts'

export const priceOrNull = (value: bigint | null): Price | null => value as Price | null

export type PriceRow = RowOf<'prices'>
export const priceOf = (row: PriceRow): ListedPrice => ({
  at: instant(row.at),
  price: row.price as Price,
  source: row.source,
})

// The volatility: the row and the value, and back.

export type VolatilityRow = Omit<RowOf<'volatility'>, 'one'>

export function volatilityOf(row: VolatilityRow | undefined): Volatility {
  if (!row) return FIRST_VOLATILITY
  const { variance, hours, last_price: price, last_at: at } = row
  return {
    variance,
    hours,
    last: price === null || at === null ? null : { price: price as Price, at: instant(at) },
  }
}
export const volatilityParams = ({ variance, hours, last }: Volatility): NewRow<'volatility'> => ({
  one: 1,
  variance,
  hours,
  last_price: last?.price ?? null,
  last_at: last?.at ?? null,
})

// The dispute about the clock: the row and the value.

export type DisputeRow = Omit<RowOf<'clock_disputes'>, 'one'>
export const disputeOf = (row: DisputeRow): Dispute => ({
  clockAt: instant(row.clock_at),
  witness: { source: row.source, at: instant(row.witness_at) },
})
