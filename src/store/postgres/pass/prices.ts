// SCAFFOLD Prices.

import type { PriceStore } from '../../prices.ts'
import type { Connection } from '../server/connection.ts'

export function createPriceStore(_connection: Connection): PriceStore {
  return {} as PriceStore
}
