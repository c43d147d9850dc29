// The states between the transactions of an action: after a crash the file is in one of them.

import type { Action } from '../action.ts'
import { answer } from './calls.ts'
import { fix } from './months.ts'
import { operate } from './operate.ts'
import { pass, wake, wakeUpsOf } from './pass.ts'
import type { State } from './state.ts'
import { units } from './units.ts'

type Killed = Extract<Action, { do: 'killed' }>['action']

/** Copies of the state, from the one before the action to the one after it. */
export function statesOnTheWay(state: State, action: Killed): State[] {
  const before = structuredClone(state)
  const after = structuredClone(state)
  switch (action.do) {
    case 'call':
      answer(after, action)
      return [before, after]
    case 'export':
      fix(after, action.month)
      return [before, after]
    case 'lever': {
      const known = new Set(state.keys.keys())
      operate(after, action)
      // It was issued, and its secret died with the process.
      for (const key of after.keys.values()) if (!known.has(key.label)) key.isLost = true
      return [before, after]
    }
    case 'pass': {
      const states = [before]
      const { price, told, receivers } = action
      const from = after.executions.length
      const time = typeof told === 'number' ? after.clock + told : told
      const steps = pass(after, { price: price === null ? null : units(price), told: time })
      let step = steps.next()
      for (; !step.done; step = steps.next()) states.push(structuredClone(after))
      if (step.value.kind === 'disputed') return states
      const sent = wakeUpsOf(after.executions.slice(from)).map((wakeUp) => {
        const how = receivers[wakeUp.tenant.name] ?? 'takes'
        const statusCode = how === 'takes' ? 204 : how === 'fails' ? 500 : null
        return { wakeUp, attempt: { statusCode, delivered: how === 'takes' } }
      })
      for (const _ of wake(after, sent)) states.push(structuredClone(after))
      return states
    }
  }
}
