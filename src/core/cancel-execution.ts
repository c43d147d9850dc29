// Which executions may be cancelled, and what becomes of their reservations.

import { type Execution, isOpen } from './execution.ts'
import type { Instant } from './instant.ts'
import { ZERO_USD } from './money.ts'
import { Problem } from './problem.ts'
import type { Trade } from './trade.ts'
import { settle, type Window } from './window.ts'

/** Ends an open execution because its plan was cancelled or its user disabled. The whole reservation goes back. */
export function cancel(
  execution: Execution,
  window: Window,
  now: Instant,
): { execution: Execution; window: Window } {
  return {
    execution: { ...execution, status: 'cancelled', cancelledAt: now },
    window: settle(window, execution.amount, ZERO_USD),
  }
}

/** Ends an open execution that nobody will ever confirm. Throws execution_recorded, execution_cancelled. */
export function cancelByHand(
  seen: { execution: Execution; window: Window; trade: Trade | null },
  reason: string,
  now: Instant,
): { execution: Execution; window: Window } {
  const { execution, window, trade } = seen
  if (trade) {
    throw new Problem(
      'execution_recorded',
      `Execution ${execution.executionId} is recorded as ${trade.report.status}: what happened cannot be cancelled.`,
    )
  }
  if (!isOpen(execution)) {
    throw new Problem('execution_cancelled', `Execution ${execution.executionId} is cancelled already.`)
  }
  const ended = cancel(execution, window, now)
  return { ...ended, execution: { ...ended.execution, cancelReason: reason } }
}
