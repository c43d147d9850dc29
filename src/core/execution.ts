// Executions: delivery under a lease, confirmation, cancellation, late fills.

import { unreachable } from './assert.ts'
import type { ExecutionId } from './execution-id.ts'
import { HOUR_MS, type Instant, later, MINUTE_MS, plus } from './instant.ts'
import { formatUsd, LEDGER_MAX, type Price, type Usd, ZERO_USD } from './money.ts'
import { Problem } from './problem.ts'
import { type Report, sameReport, spentBy, type Trade } from './trade.ts'
import { adjustSpent, leftOf, settle, type Window } from './window.ts'

export const LEASE_MS = 5 * MINUTE_MS
/** A lease that ends later than this was taken under a clock that has been set back since: it has ended. */
export const LEASE_AHEAD_MAX_MS = HOUR_MS

/** An execution delivered this often without a confirmation is stuck: its partner polls but never answers. */
export const STUCK_DELIVERIES = 5

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

/** Hands an execution to the partner: a fresh lease, one more delivery. */
export function deliver(execution: Execution, now: Instant): Execution {
  return {
    ...execution,
    status: 'sent',
    deliveredCount: execution.deliveredCount + 1,
    leaseExpiresAt: plus(now, LEASE_MS),
  }
}

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

export type ExecutionSeen = {
  execution: Execution | null
  window: Window | null
  trade: Trade | null
  /** The execution of this tenant that already holds the reported partner_order_id. */
  orderHeldBy: ExecutionId | null
  latestRecordedAt: Instant | null
}

export type Confirmation =
  | { kind: 'recorded'; execution: Execution; window: Window; trade: Trade }
  | { kind: 'replayed'; trade: Trade }
  /** Refused, but money may have moved: the report is kept for an operator to decide on. */
  | { kind: 'kept_late'; execution: Execution; report: Report; problem: Problem }

/**
 * Decides a confirmation. Throws a Problem: execution_not_found, execution_recorded, execution_pending,
 * order_id_taken, amount_over_reservation. An identical report is answered from the record for ever.
 */
export function confirm(seen: ExecutionSeen, report: Report, now: Instant): Confirmation {
  const { execution, window, trade } = seen
  if (!execution || !window) throw new Problem('execution_not_found', 'Execution not found.')
  if (trade) {
    if (sameReport(trade.report, report)) return { kind: 'replayed', trade }
    throw new Problem(
      'execution_recorded',
      `Execution already confirmed with status ${trade.report.status} and partner_order_id ` +
        `${trade.report.partnerOrderId}; it cannot be re-confirmed with different values.`,
    )
  }
  switch (execution.status) {
    case 'pending':
      throw new Problem('execution_pending', 'Execution cannot be confirmed while pending; poll due first.')
    case 'cancelled':
      // An amount too large for the ledger's integers cannot be kept, and no venue has ever filled it.
      if (spentBy(report) > LEDGER_MAX) throw cancelledBeforeConfirmed(execution, false)
      return { kind: 'kept_late', execution, report, problem: cancelledBeforeConfirmed(execution) }
    case 'sent':
      break
    case 'filled':
    case 'partial':
    case 'failed':
      throw new Error(`execution ${execution.executionId} is ${execution.status} without a trade`)
    default:
      return unreachable(execution.status)
  }
  refuseTakenOrder(seen.orderHeldBy, report)
  refuseExcess(execution, report)
  return {
    kind: 'recorded',
    execution: { ...execution, status: report.status },
    window: settle(window, execution.amount, spentBy(report)),
    trade: tradeOf(seen, execution, report, now),
  }
}

/** Turns a late fill into a trade, on an operator's decision. Throws late_fill_conflict, order_id_taken. */
export function acceptLate(
  seen: ExecutionSeen,
  report: Report,
  now: Instant,
): Confirmation & { kind: 'recorded' } {
  const { execution, window, trade } = seen
  if (!execution || !window) throw new Problem('execution_not_found', 'Execution not found.')
  if (trade || execution.status !== 'cancelled') {
    throw new Problem(
      'late_fill_conflict',
      `Execution ${execution.executionId} already has a recorded outcome.`,
    )
  }
  if (execution.deliveredCount === 0) {
    throw new Problem(
      'late_fill_conflict',
      `Execution ${execution.executionId} was never delivered, so it cannot have been filled.`,
    )
  }
  refuseTakenOrder(seen.orderHeldBy, report)
  if (spentBy(report) > execution.amount) {
    throw new Problem(
      'late_fill_conflict',
      `The late fill of ${formatUsd(spentBy(report))} USD is above the ${formatUsd(execution.amount)} USD reserved.`,
    )
  }
  if (spentBy(report) > leftOf(window)) {
    throw new Problem(
      'late_fill_conflict',
      `The late fill of ${formatUsd(spentBy(report))} USD is above the ${formatUsd(leftOf(window))} USD its window ` +
        'has left: the reservation was given back and spent again.',
    )
  }
  return {
    kind: 'recorded',
    execution: { ...execution, status: report.status },
    window: adjustSpent(window, spentBy(report)),
    trade: tradeOf(seen, execution, report, now),
  }
}

function tradeOf(seen: ExecutionSeen, execution: Execution, report: Report, now: Instant): Trade {
  // Never below the latest one, whatever the clock does: a month that is over gains no trade.
  const recordedAt = seen.latestRecordedAt === null ? now : later(now, seen.latestRecordedAt)
  return { executionId: execution.executionId, recordedAt, report }
}

function cancelledBeforeConfirmed(execution: Execution, isKept = true): Problem {
  const fate = isKept
    ? 'a reported fill is kept for the operator to decide on.'
    : 'an amount like this cannot be kept: ask the operator.'
  return new Problem(
    'execution_cancelled',
    `Execution ${execution.executionId} was cancelled before it was confirmed; ${fate}`,
  )
}

function refuseTakenOrder(holder: ExecutionId | null, report: Report): void {
  if (holder === null) return
  throw new Problem(
    'order_id_taken',
    `partner_order_id ${report.partnerOrderId} is already recorded for execution ${holder}.`,
  )
}

function refuseExcess(execution: Execution, report: Report): void {
  const received = spentBy(report)
  if (received <= execution.amount) return
  throw new Problem(
    'amount_over_reservation',
    `usd_amount exceeds the reserved amount: reserved ${formatUsd(execution.amount)}, ` +
      `received ${formatUsd(received)}.`,
  )
}
