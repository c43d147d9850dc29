// The volatility: the row and the value, and back.

import type { Price } from '../../core/money.ts'
import { FIRST_VOLATILITY, type Volatility } from '../../core/volatility.ts'
import { instant } from './instant.ts'

export type VolatilityRow = {
  variance: number
  hours: number
  last_price: bigint | null
  last_at: bigint | null
}

export function volatilityOf(row: VolatilityRow | undefined): Volatility {
  if (!row) return FIRST_VOLATILITY
  const { variance, hours, last_price: price, last_at: at } = row
  return {
    variance,
    hours,
    last: price === null || at === null ? null : { price: price as Price, at: instant(at) },
  }
}
export const volatilityParams = ({ variance, hours, last }: Volatility) => ({
  variance,
  hours,
  last_price: last?.price ?? null,
  last_at: last?.at ?? null,
})
