// Confirmations: how a partner's report settles an execution, every reason to refuse one, and how an execution that
// nobody confirms is cancelled.

import { type Execution, type ExecutionId, isOpen } from './execution.ts'
import { formatUsd, LEDGER_MAX, ZERO_USD } from './money.ts'
import { type Fill, isFill, type Report, sameReport, spentBy, type Trade, tradeOf } from './partner-report.ts'
import { notFound, Problem, type ProblemCode, unreachable } from './problem.ts'
import type { Instant } from './time.ts'
import { settle, type Window } from './window.ts'

export type ExecutionFacts = {
  execution: Execution | null
  window: Window | null
  trade: Trade | null
  /** The late fills of this execution. */
  lateFills: readonly LateFill[]
  /** The execution of this tenant that already holds the reported partner_order_id. */
  orderHeldBy: ExecutionId | null
  latestRecordedAt: Instant | null
}

export type Confirmation = Recorded | { kind: 'replayed'; report: Report } | Refused
export type Recorded = {
  kind: 'recorded'
  execution: Execution
  window: Window
  trade: Trade
  /**
   * The number of the undecided late fill that this report settles: the same report, refused while the execution was
   * pending.
   */
  settles: number | null
}
/** Refused, but money may have moved. */
export type Refused = {
  kind: 'refused'
  execution: Execution
  report: Fill
  reason: KeptFor
  keeping: Keeping
  problem: Problem
}

/**
 * Decides a confirmation. A fill that breaks a rule is returned as refused, so that the store can keep it; a report
 * without a fill throws the same problem: execution_pending, execution_cancelled, execution_recorded, order_id_taken.
 * Throws execution_not_found. An identical report is always answered from the record, and so is one that an operator
 * accepted.
 */
export function confirm(facts: ExecutionFacts, report: Report, now: Instant): Confirmation {
  const { execution, window, trade, lateFills } = facts
  if (!execution || !window) throw notFound('execution')
  if (trade && sameReport(trade.report, report)) return { kind: 'replayed', report }
  const known = lateFills.find((late) => sameReport(late.report, report))
  if (known && known.acceptedAt !== null) return { kind: 'replayed', report }
  const problem = refusalOf(facts, execution, report)
  if (problem === null) {
    const recorded = tradeOf(facts, execution, report, now)
    return {
      kind: 'recorded',
      execution: { ...execution, status: report.status },
      window: settle(window, execution.amount, spentBy(report)),
      // A report that was refused at first keeps the time at which it first came.
      trade: known ? { ...recorded, receivedAt: known.receivedAt } : recorded,
      settles: known && known.decidedAt === null ? known.reportId : null,
    }
  }
  const reason = KEPT_FOR.find((code) => code === problem.code)
  if (!reason || !isFill(report)) throw problem
  const keeping = known ? 'known' : canKeep(report, lateFills) ? 'new' : 'counted'
  return { kind: 'refused', execution, report, reason, keeping, problem }
}

/** The rule that a report breaks, or null. */
function refusalOf(facts: ExecutionFacts, execution: Execution, report: Report): Problem | null {
  if (facts.trade) return alreadyRecorded(facts.trade)
  switch (execution.status) {
    case 'pending':
      return confirmedWhilePending(report)
    case 'cancelled':
      return cancelledBeforeConfirmed(execution, report)
    case 'sent':
      return orderTaken(facts.orderHeldBy, report) ?? overReservation(execution, report)
    case 'filled':
    case 'partial':
    case 'failed':
      throw new Error(`execution ${execution.executionId} is ${execution.status} without a trade`)
    default:
      return unreachable(execution.status)
  }
}

const alreadyRecorded = ({ report }: Trade): Problem =>
  new Problem(
    'execution_recorded',
    `Execution already confirmed with status ${report.status} and partner_order_id ` +
      `${report.partnerOrderId}; it cannot be re-confirmed with different values.`,
  )

/** The execution was never handed out. If the partner bought all the same, the money has moved. */
function confirmedWhilePending(report: Report): Problem {
  const fate = !isFill(report)
    ? ''
    : report.usdAmount > LEDGER_MAX
      ? `; ${NOT_KEPT}`
      : '; a purchase is kept as a late fill'
  return new Problem(
    'execution_pending',
    `Execution cannot be confirmed while pending; poll due first${fate}.`,
  )
}

const NOT_KEPT = 'an amount like this cannot be kept: ask the operator'

function cancelledBeforeConfirmed(execution: Execution, report: Report): Problem {
  const fate = !isFill(report)
    ? 'nothing was bought, and nothing is recorded.'
    : report.usdAmount > LEDGER_MAX
      ? `${NOT_KEPT}.`
      : 'a reported fill is kept for the operator to decide on.'
  return new Problem(
    'execution_cancelled',
    `Execution ${execution.executionId} was cancelled before it was confirmed; ${fate}`,
  )
}

/** What refuses a report whose order another execution holds. */
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

// Late fills: reports of purchases that a rule refused. Money may have moved, so they are kept for an operator to
// decide on.

/**
 * The most late fills kept for one execution. Further ones are only counted: twenty are enough to show that something
 * is wrong.
 */
export const LATE_FILLS_MAX = 20

/** The rules whose breach does not undo a purchase. A late fill is kept under the code of the rule that refused it. */
export const KEPT_FOR = [
  'execution_cancelled',
  'execution_recorded',
  'order_id_taken',
  'amount_over_reservation',
  'execution_pending',
  'execution_not_found',
] as const satisfies readonly ProblemCode[]
export type KeptFor = (typeof KEPT_FOR)[number]

/** Stands in for an operator's reason when the partner sent the report again and it was recorded. */
export const RECORDED_SINCE = 'the same report was recorded'

export type LateFill = {
  reportId: number
  report: Fill
  reason: KeptFor
  receivedAt: Instant
  /** When an operator recorded it. */
  acceptedAt: Instant | null
  /**
   * When it was decided: an operator accepted it, dismissed it or adjusted its execution, or the same report was
   * recorded.
   */
  decidedAt: Instant | null
  /** Why, in the words of the operator, if there were any. */
  decisionReason: string | null
}

/**
 * What becomes of a refused fill: it is kept as a late fill, it is kept already, or it cannot be kept and is only
 * counted.
 */
type Keeping = 'new' | 'known' | 'counted'

/** Whether one more late fill of an execution can be kept. The ledger's integers do not hold every amount. */
const canKeep = (report: Fill, kept: readonly LateFill[]): boolean =>
  kept.length < LATE_FILLS_MAX && report.usdAmount <= LEDGER_MAX

// Which executions may be cancelled, and where their reservations go.

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
  facts: { execution: Execution; window: Window; trade: Trade | null },
  reason: string,
  now: Instant,
): { execution: Execution; window: Window } {
  const { execution, window, trade } = facts
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
