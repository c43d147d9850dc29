// What the contract promises whatever happens, asked of the model itself: should it err as the program does, it errs
// here.

import { Difference } from '../difference.ts'
import type { State } from './state.ts'
import { CENT } from './units.ts'

export function assertSound(state: State): void {
  const keys = new Set<string>()
  const orders = new Set<string>()
  const unlike = (known: Set<string>, what: string, key: string) => {
    if (known.has(key)) throw new Difference(`${what} twice: ${key}`)
    known.add(key)
  }
  for (const { tenant, plan, index, windowStart, window, trade, amount } of state.executions) {
    unlike(keys, 'an idempotency key', `${tenant.name} ${plan.id}:${windowStart}:${index}`)
    if (trade) unlike(orders, 'an order', `${tenant.name} ${trade.report.order}`)
    if (amount <= 0n || amount % CENT !== 0n)
      throw new Difference(`a tranche of ${amount} of plan ${plan.id}`)
    if (window.start !== windowStart) throw new Difference(`an execution outside its window: plan ${plan.id}`)
  }
  for (const { id, windows } of state.plans) {
    for (const { budget, reserved, spent, released, closed } of windows) {
      const claimed = reserved + spent + released
      const isRight = reserved >= 0n && spent >= 0n && (closed ? claimed === budget : claimed <= budget)
      if (!isRight) throw new Difference(`plan ${id}: ${reserved} + ${spent} + ${released} of ${budget}`)
    }
  }
}
