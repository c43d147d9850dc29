// SCAFFOLD Trades.

import type { TradeStore } from '../../trades.ts'
import type { Connection } from '../server/connection.ts'

export function createTradeStore(_connection: Connection): TradeStore {
  return {} as TradeStore
}
