// Executions: what they are, and how they are cancelled.

import type { ExecutionId } from './execution-id.ts'
import type { Instant } from './instant.ts'
import { type Price, type Usd, ZERO_USD } from './money.ts'
import { Problem } from './problem.ts'
import type { Trade } from './trade.ts'
import { settle, type Window } from './window.ts'

export const EXECUTION_STATUSES = ['pending', 'sent', 'filled', 'partial', 'failed', 'cancelled'] as const
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number]

/** Why a tranche fired: kept for the operator, never shown in the API. */
export const TRIGGERS = ['slot_start', 'limit', 'deadline', 'catch_up', 'failsafe', 'clock'] as const
export type Trigger = (typeof TRIGGERS)[number]

/** The evidence behind a tranche: what the engine saw and what it compared it with. */
export type Firing = {
  trigger: Trigger
  slot: number
  units: number
  price: Price | null
  reference: Price | null
  reservationPrice: Price | null
}

/** A tranche the engine decided to fire. */
export type Tranche = Firing & { amount: Usd }

export type Execution = {
  executionId: ExecutionId
  planId: number
  windowId: number
  partnerUserId: string
  partnerPlanId: string
  windowStart: Instant
  trancheIndex: number
  amount: Usd
  firing: Firing
  createdAt: Instant
  deliveredCount: number
  leaseExpiresAt: Instant | null
  status: ExecutionStatus
  /** Set when a plan cancel, a user disable or an operator ended it; a partner's own "cancelled" report leaves it null. */
  cancelledAt: Instant | null
  /** The operator's words, when it was one. */
  cancelReason: string | null
}

export const isOpen = (execution: Execution): boolean =>
  execution.status === 'pending' || execution.status === 'sent'

/** Built from the plan id, the window start and the tranche index; the same for every delivery. */
export const idempotencyKey = (execution: Execution, formatStart: (at: Instant) => string): string =>
  `${execution.partnerPlanId}:${formatStart(execution.windowStart)}:${execution.trancheIndex}`

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
