// Confirmations: what a partner reports of an execution, how the report settles it and becomes a trade, and every
// reason to refuse one. Refused fills that may be kept as late fills are listed here; how an operator decides on one is
// in corrections/late-fill.ts.

import type { Execution, ExecutionId } from './execution.ts'
import { type Btc, btc, formatUsd, LEDGER_MAX, type Price, price, type Usd, usd, ZERO_USD } from './money.ts'
import { notFound, Problem, type ProblemCode, unreachable } from './problem.ts'
import { type Instant, later } from './time.ts'
import { settle, type Window } from './window.ts'

// What a partner reports of an execution.

export const FILL_STATUSES = ['filled', 'partial'] as const
export const NO_FILL_STATUSES = ['failed', 'cancelled'] as const
export const REPORT_STATUSES = [...FILL_STATUSES, ...NO_FILL_STATUSES] as const

/** The outcome of an execution as the partner reported it, rounded, without the fields that the contract ignores. */
export type Report = Fill | NoFill

export type Fill = {
  status: (typeof FILL_STATUSES)[number]
  partnerOrderId: string
  /** As sent; null when the partner left it out, which means the time of receipt. */
  executedAt: Instant | null
  usdAmount: Usd
  btcAmount: Btc
  executionPrice: Price
  partnerFee: Usd | null
}

export type NoFill = {
  status: (typeof NO_FILL_STATUSES)[number]
  partnerOrderId: string
  executedAt: Instant | null
  failureReason: string | null
}

/** The parts of a report, with the name of each on the wire, in a row and in an export. */
const REPORT_COLUMNS = {
  status: 'status',
  partnerOrderId: 'partner_order_id',
  executedAt: 'executed_at',
  usdAmount: 'usd_amount',
  btcAmount: 'btc_amount',
  executionPrice: 'execution_price',
  partnerFee: 'partner_fee_usd',
  failureReason: 'failure_reason',
} as const satisfies Record<keyof Fill | keyof NoFill, string>
/** The name of a part of a report; without a type argument, of any part. */
export type ReportColumn<Part extends keyof typeof REPORT_COLUMNS = keyof typeof REPORT_COLUMNS> =
  (typeof REPORT_COLUMNS)[Part]

export function spentBy(report: Report): Usd {
  switch (report.status) {
    case 'filled':
    case 'partial':
      return report.usdAmount
    case 'failed':
    case 'cancelled':
      return ZERO_USD
    default:
      return unreachable(report)
  }
}

export const isFill = (report: Report): report is Fill => 'usdAmount' in report

// When two reports of an execution are the same.

/** Whether two reports are equal in every field, by value. An empty reason equals no reason. */
export function sameReport(a: Report, b: Report): boolean {
  return reportFingerprint(withoutEmptyReason(a)) === reportFingerprint(withoutEmptyReason(b))
}

const withoutEmptyReason = (report: Report): Report =>
  isFill(report) ? report : { ...report, failureReason: report.failureReason || null }

/**
 * One text for each distinct report, for comparing and hashing. Stored digests were computed from exactly this text, so
 * it never changes.
 */
export function reportFingerprint(report: Report): string {
  const { status, partnerOrderId, executedAt } = report
  const common = { status, partnerOrderId, executedAt }
  const parts = isFill(report)
    ? ({
        ...common,
        usdAmount: report.usdAmount.toString(),
        btcAmount: report.btcAmount.toString(),
        executionPrice: report.executionPrice.toString(),
        partnerFee: report.partnerFee?.toString() ?? null,
      } satisfies Record<keyof Fill, unknown>)
    : ({ ...common, failureReason: report.failureReason } satisfies Record<keyof NoFill, unknown>)
  return JSON.stringify(Object.values(parts))
}

// The largest fill that is accepted: dollars, bitcoin, price and fee.

/**
 * All the bitcoin there will ever be, and dollars, a price and a fee beyond any real one. Dollars are limited where an
 * operator enters them; a partner's report is limited by its reservation.
 */
export const FILL_USD_MAX = usd('1000000000')
export const FILL_BTC_MAX = btc('21000000')
export const FILL_PRICE_MAX = price('50000000')
export const FILL_FEE_MAX = usd('1000000')

// The trade that records a report, and how it is dated.

export type Trade = {
  executionId: ExecutionId
  /** When the confirmation was accepted, which decides the month it is billed in. */
  recordedAt: Instant
  /** When the report first arrived, if it was refused and recorded later; null if it was recorded at once. */
  receivedAt: Instant | null
  report: Report
}

/**
 * When a fill was made: the time the partner reported, else the time the report arrived, even if it was recorded later.
 * Null for a failure reported without a time.
 */
export const executedAtOf = ({
  report,
  recordedAt,
  receivedAt,
}: Pick<Trade, 'report' | 'recordedAt' | 'receivedAt'>): Instant | null =>
  report.executedAt ?? (isFill(report) ? (receivedAt ?? recordedAt) : null)

/**
 * The date of a trade or an adjustment: now, but never before the latest one, so that a clock set back adds nothing to
 * a month that is over.
 */
export const recordedAtOf = (now: Instant, latest: Instant | null): Instant =>
  latest === null ? now : later(now, latest)

/** The record of a report, dated now. */
export function tradeOf(
  facts: { latestRecordedAt: Instant | null },
  execution: Execution,
  report: Report,
  now: Instant,
): Trade {
  const { executionId } = execution
  return { executionId, recordedAt: recordedAtOf(now, facts.latestRecordedAt), receivedAt: null, report }
}

// How a report settles its execution, or why it is refused.

export type ExecutionFacts = {
  execution: Execution | null
  window: Window | null
  trade: Trade | null
  /** All late fills of this execution. */
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
/** A refused report of a purchase: money may have moved. */
export type Refused = {
  kind: 'refused'
  execution: Execution
  report: Fill
  reason: KeptFor
  keeping: Keeping
  problem: Problem
}

/**
 * Decides a confirmation. A fill that breaks a rule is returned as refused, so that the store can keep it; a report of
 * failure that breaks one throws execution_pending, execution_cancelled, execution_recorded or order_id_taken. Throws
 * execution_not_found. A report identical to the recorded one, or to one that an operator accepted, is answered from
 * the record.
 */
export function confirm(facts: ExecutionFacts, report: Report, now: Instant): Confirmation {
  const { execution, window, trade, lateFills } = facts
  if (!execution || !window) throw notFound('execution')
  if (trade && sameReport(trade.report, report)) return { kind: 'replayed', report }
  const known = lateFills.find((late) => sameReport(late.report, report))
  if (known && known.acceptedAt !== null) return { kind: 'replayed', report }
  const problem = brokenRule(facts, execution, report)
  if (problem === null) {
    const recorded = tradeOf(facts, execution, report, now)
    return {
      kind: 'recorded',
      execution: { ...execution, status: report.status },
      window: settle(window, execution.amount, spentBy(report)),
      // A report that was refused at first keeps the time at which it first arrived.
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
function brokenRule(facts: ExecutionFacts, execution: Execution, report: Report): Problem | null {
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

/** The execution was never delivered. If the partner bought all the same, money has moved. */
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

/** The refusal of a report whose order another execution holds; null when no other holds it. */
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

// Late fills: reports of purchases that a rule refused. Money may have moved, so they are kept until an operator
// decides.

/**
 * The most late fills kept for one execution; more are only counted. Twenty are enough to show that something is wrong.
 */
export const LATE_FILLS_MAX = 20

/** The rules whose breach does not undo a purchase. A late fill is kept with the code of the rule it broke. */
export const KEPT_FOR = [
  'execution_cancelled',
  'execution_recorded',
  'order_id_taken',
  'amount_over_reservation',
  'execution_pending',
  'execution_not_found',
] as const satisfies readonly ProblemCode[]
export type KeptFor = (typeof KEPT_FOR)[number]

/** Used in place of an operator's reason when the partner repeated the report and it was recorded. */
export const RECORDED_SINCE = 'the same report was recorded'

export type LateFill = {
  reportId: number
  report: Fill
  reason: KeptFor
  receivedAt: Instant
  /** When an operator recorded it. */
  acceptedAt: Instant | null
  /**
   * When it was decided: accepted or dismissed by an operator, settled by an adjustment of its execution, or recorded
   * when the partner repeated it.
   */
  decidedAt: Instant | null
  /** The operator's reason, if one was given. */
  decisionReason: string | null
}

/** What happens to a refused fill: it is kept as a new late fill, was kept before, or is only counted. */
type Keeping = 'new' | 'known' | 'counted'

/** Whether one more late fill of an execution can be kept. Some amounts do not fit the ledger's integers. */
const canKeep = (report: Fill, kept: readonly LateFill[]): boolean =>
  kept.length < LATE_FILLS_MAX && report.usdAmount <= LEDGER_MAX
