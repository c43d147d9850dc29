// A price: the row and the value.

import type { Price } from '../../core/money.ts'
import type { ListedPrice } from '../prices.ts'
import { instant } from './instant.ts'

export const priceOrNull = (value: bigint | null): Price | null => value as Price | null

export type PriceRow = { at: bigint; price: bigint; source: string }
export const priceOf = (row: PriceRow): ListedPrice => ({
  at: instant(row.at),
  price: row.price as Price,
  source: row.source,
})
