// The states between the transactions of an action: after a crash the file is in one of them.

import type { Interruptible } from '../action.ts'
import { executionOf } from '../request.ts'
import { answer } from './calls.ts'
import { halfway, leftNow } from './left-behind.ts'
import { fix } from './months.ts'
import { operate } from './operate.ts'
import { observedBy, pass, sentTo, wake, wakeUpsOf } from './pass.ts'
import type { State } from './state.ts'
import { place } from './venue.ts'

/** Copies of the state, from the one before the action to the one after it. */
export function statesOnTheWay(state: State, action: Interruptible, isOnServer: boolean): State[] {
  const before = structuredClone(state)
  const after = structuredClone(state)
  switch (action.do) {
    case 'call':
      // What was bought is bought, whatever becomes of its report.
      if (action.route === 'settle') place(before, executionOf(before, action.of), action.terms)
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
      return [before, ...(isOnServer ? halfway(before, after) : []), after]
    }
    case 'pass': {
      const states = [before]
      const from = after.executions.length
      const steps = pass(after, observedBy(after, action))
      let step = steps.next()
      for (; !step.done; step = steps.next()) states.push(structuredClone(after))
      if (step.value.kind === 'disputed') return states
      const own = wakeUpsOf(after.executions.slice(from))
      const left = leftNow(after)
      for (const wakeUps of left.length > 0 ? [own, [...left, ...own]] : [own]) {
        const woken = structuredClone(after)
        const sent = sentTo(action.receivers, wakeUps).map(({ wakeUp, attempt }) => ({
          wakeUp: { ...wakeUp, tenant: woken.tenants.get(wakeUp.tenant.name) ?? wakeUp.tenant },
          attempt,
        }))
        for (const _ of wake(woken, sent)) states.push(structuredClone(woken))
      }
      return states
    }
  }
}
