// A price history of a few prices, as the backtest reads it.

import { gatherHistory, type History } from '../../src/engine/backtest.ts'

type Gathered = ReturnType<typeof gatherHistory>

export function historyOf(points: Parameters<Gathered['add']>[0]): History {
  const gathered = gatherHistory()
  gathered.add(points)
  return gathered.history()
}
