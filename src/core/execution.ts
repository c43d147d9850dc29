// Executions: delivery under a lease, confirmation, cancellation.

import { unreachable } from './assert.ts'
import type { ExecutionId } from './execution-id.ts'
import { HOUR_MS, type Instant, later, MINUTE_MS, plus } from './instant.ts'
import { KEPT_FOR, KEPT_REPORTS_MAX, type KeptFor, type LateFill } from './kept-report.ts'
import { formatUsd, LEDGER_MAX, type Price, type Usd, ZERO_USD } from './money.ts'
import { Problem } from './problem.ts'
import { type Fill, isFill, type Report, sameReport, spentBy, type Trade } from './trade.ts'
import { settle, type Window } from './window.ts'

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
  /** The reports of fills of this execution that were refused and kept. */
  lateFills: readonly LateFill[]
  /** The execution of this tenant that already holds the reported partner_order_id. */
  orderHeldBy: ExecutionId | null
  latestRecordedAt: Instant | null
}

export type Confirmation = Recorded | { kind: 'replayed'; report: Report } | Refused
export type Recorded = { kind: 'recorded'; execution: Execution; window: Window; trade: Trade }
/**
 * Refused, but money may have moved. `keeping` says what becomes of the report: it is kept for an operator to decide
 * on, it is kept already, or so many are kept that it is only counted.
 */
export type Refused = {
  kind: 'refused'
  execution: Execution
  report: Fill
  reason: KeptFor
  keeping: 'new' | 'known' | 'counted'
  problem: Problem
}

/**
 * Decides a confirmation. Throws a Problem: execution_not_found, execution_pending, and for what is not a fill the same
 * ones that a fill is refused with: execution_cancelled, execution_recorded, order_id_taken. An identical report is
 * always answered from the record, and so is one that an operator accepted.
 */
export function confirm(seen: ExecutionSeen, report: Report, now: Instant): Confirmation {
  const { execution, window, trade, lateFills } = seen
  if (!execution || !window) throw new Problem('execution_not_found', 'Execution not found.')
  if (trade && sameReport(trade.report, report)) return { kind: 'replayed', report }
  const known = lateFills.find((late) => sameReport(late.report, report))
  if (known && known.acceptedAt !== null) return { kind: 'replayed', report }
  const problem = refusalOf(seen, execution, report)
  if (problem === null) {
    return {
      kind: 'recorded',
      execution: { ...execution, status: report.status },
      window: settle(window, execution.amount, spentBy(report)),
      trade: tradeOf(seen, execution, report, now),
    }
  }
  const reason = KEPT_FOR.find((code) => code === problem.code)
  // An amount too large for the ledger's integers cannot be kept, and no venue has ever filled it.
  if (!reason || !isFill(report) || report.usdAmount > LEDGER_MAX) throw problem
  const keeping = known ? 'known' : lateFills.length < KEPT_REPORTS_MAX ? 'new' : 'counted'
  return { kind: 'refused', execution, report, reason, keeping, problem }
}

/** The rule that a report breaks, or null. */
function refusalOf(seen: ExecutionSeen, execution: Execution, report: Report): Problem | null {
  if (seen.trade) return alreadyRecorded(seen.trade)
  switch (execution.status) {
    case 'pending':
      // It was never handed out: whatever was bought, it was not this.
      return new Problem('execution_pending', 'Execution cannot be confirmed while pending; poll due first.')
    case 'cancelled':
      return cancelledBeforeConfirmed(execution, report)
    case 'sent':
      return orderTaken(seen.orderHeldBy, report) ?? overReservation(execution, report)
    case 'filled':
    case 'partial':
    case 'failed':
      throw new Error(`execution ${execution.executionId} is ${execution.status} without a trade`)
    default:
      return unreachable(execution.status)
  }
}

/** The record of a report, dated now. */
export function tradeOf(
  seen: { latestRecordedAt: Instant | null },
  execution: Execution,
  report: Report,
  now: Instant,
): Trade {
  // Never below the latest one, whatever the clock does: a month that is over gains no trade.
  const recordedAt = seen.latestRecordedAt === null ? now : later(now, seen.latestRecordedAt)
  return { executionId: execution.executionId, recordedAt, report }
}

const alreadyRecorded = ({ report }: Trade): Problem =>
  new Problem(
    'execution_recorded',
    `Execution already confirmed with status ${report.status} and partner_order_id ` +
      `${report.partnerOrderId}; it cannot be re-confirmed with different values.`,
  )

function cancelledBeforeConfirmed(execution: Execution, report: Report): Problem {
  const fate = !isFill(report)
    ? 'nothing was bought, and nothing is recorded.'
    : report.usdAmount > LEDGER_MAX
      ? 'an amount like this cannot be kept: ask the operator.'
      : 'a reported fill is kept for the operator to decide on.'
  return new Problem(
    'execution_cancelled',
    `Execution ${execution.executionId} was cancelled before it was confirmed; ${fate}`,
  )
}

/** What a report is refused with whose order another execution holds. */
export function orderTaken(holder: ExecutionId | null, report: Report): Problem | null {
  if (holder === null) return null
  return new Problem(
    'order_id_taken',
    `partner_order_id ${report.partnerOrderId} is already recorded for execution ${holder}.`,
  )
}

function overReservation(execution: Execution, report: Report): Problem | null {
  const received = spentBy(report)
  if (received <= execution.amount) return null
  return new Problem(
    'amount_over_reservation',
    `usd_amount exceeds the reserved amount: reserved ${formatUsd(execution.amount)}, ` +
      `received ${formatUsd(received)}.`,
  )
}
