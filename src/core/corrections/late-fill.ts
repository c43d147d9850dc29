// Late fills: how an operator accepts a refused fill, and how the right one is found. What a late fill is, and which
// fills are kept as one, is in ../confirmation.ts.

import {
  type ExecutionFacts,
  type Fill,
  type LateFill,
  orderTaken,
  type Recorded,
  sameReport,
  type Trade,
  tradeOf,
} from '../confirmation.ts'
import { isOpen } from '../execution.ts'
import { formatBtc, formatUsd, lesser, type Usd, ZERO_USD } from '../money.ts'
import { notFound, Problem } from '../problem.ts'
import type { Instant } from '../time.ts'
import { adjustSpent, settle, type Window } from '../window.ts'
import {
  type Adjustment,
  type AdjustmentFill,
  amountsOf,
  type Correction,
  correct,
  feeOf,
  plusAmounts,
  refuseImpossible,
} from './adjustment.ts'

export type LateFillFacts = ExecutionFacts & { adjustments: readonly Adjustment[]; latestId: number }

/** An execution without an outcome gets its trade; one that has a trade, which never changes, gets an adjustment. */
export type Acceptance = Recorded | ({ kind: 'adjusted' } & Correction)

/** An execution and the number of a late fill; null means the only undecided one, or all of them. */
type LateFillIds = { executionId: string; reportId: number | null }

/** The late fill that an operator decides on, and the reason, if one was given. */
export type LateFillDecision = LateFillIds & { reason?: string | undefined }

/** Records a late fill. Throws execution_not_found, late_fill_conflict, order_id_taken, adjustment_conflict. */
export function acceptLate(facts: LateFillFacts, late: LateFill, now: Instant): Acceptance {
  const { execution, window, trade } = facts
  const { report, reportId } = late
  if (!execution || !window) throw notFound('execution')
  // An adjustment never changes, so it proves an acceptance even where the row of the late fill was damaged.
  const isAdjusted = facts.adjustments.some((one) => one.reportId === reportId)
  if (late.acceptedAt !== null || isAdjusted)
    throw lateFillConflict(`Report ${reportId} has been accepted already.`)
  if (trade && sameReport(trade.report, report)) {
    throw lateFillConflict(
      `Report ${reportId} is on record: the partner sent it again, and it was confirmed.`,
    )
  }
  const taken = orderTaken(facts.orderHeldBy, report)
  if (taken) throw taken
  if (trade) return { kind: 'adjusted', ...acceptBeside({ ...facts, execution, window, trade }, late, now) }
  refuseImpossible({ usd: report.usdAmount, btc: report.btcAmount })
  return {
    kind: 'recorded',
    execution: { ...execution, status: report.status },
    window: entered(window, { reservation: execution.amount, isReserved: isOpen(execution) }, report),
    trade: { ...tradeOf(facts, execution, report, now), receivedAt: late.receivedAt },
    settles: null,
  }
}

/** The window after the fill, which takes from the reservation while that is open. */
function entered(
  window: Window,
  { reservation, isReserved }: { reservation: Usd; isReserved: boolean },
  { usdAmount }: Fill,
): Window {
  if (!isReserved) return adjustSpent(window, { before: ZERO_USD, after: usdAmount, reservation })
  const within = lesser(usdAmount, reservation)
  return adjustSpent(settle(window, reservation, within), { before: within, after: usdAmount, reservation })
}

type Recording = LateFillFacts & {
  execution: NonNullable<ExecutionFacts['execution']>
  window: Window
  trade: Trade
}

/**
 * Accepts a late fill of an execution that already has a trade. With the trade's order id it restates that order; with
 * another one it is a further purchase. If an operator adjusted the execution after the report arrived, the sum may
 * include it, and adding it could bill it twice.
 */
function acceptBeside(facts: Recording, late: LateFill, now: Instant): Correction {
  const { trade, adjustments } = facts
  const { report, reportId } = late
  const reported = { usd: report.usdAmount, btc: report.btcAmount }
  const reason = `late fill accepted: report ${reportId}`
  if (report.partnerOrderId !== trade.report.partnerOrderId) {
    if (adjustments.some(({ partnerOrderId }) => partnerOrderId === report.partnerOrderId))
      throw undecidable(late, 'is recorded already as a further purchase')
    if (mayBeInSum(late, adjustments))
      throw undecidable(late, 'may be in the sum to which the execution was adjusted')
    const after = plusAmounts(amountsOf(trade, adjustments), reported)
    const { partnerOrderId } = report
    return correct(facts, { ...after, reason, reportId, partnerOrderId, fill: fillOf(late, null) }, now)
  }
  const isFurther = (one: Adjustment) => one.partnerOrderId !== null
  const further = adjustments.filter(isFurther)
  // An operator who adjusted after a further purchase gave one sum for all orders: the share of each is unknown.
  const since = further[0]?.adjustmentId ?? Number.POSITIVE_INFINITY
  if (adjustments.some((one) => one.reportId === null && one.adjustmentId > since))
    throw undecidable(late, 'was adjusted together with others')
  const ofOrder = adjustments.filter((one) => !isFurther(one))
  const [soFar, fill] = [amountsOf(trade, ofOrder), fillOf(late, feeOf(trade, ofOrder))]
  if (soFar.usd === reported.usd && soFar.btc === reported.btc && !fill.partnerFee) {
    const amounts = `${formatUsd(soFar.usd)} USD for ${formatBtc(soFar.btc)} BTC`
    throw new Problem(
      'adjustment_conflict',
      `Order ${report.partnerOrderId} is on record with ${amounts}, so nothing is left to record: dismiss report ${reportId} with "execution dismiss-late".`,
    )
  }
  const right = { ...further.reduce(plusAmounts, reported), reason, reportId, partnerOrderId: null }
  return correct(facts, { ...right, fill }, now)
}

/**
 * Whether an operator's adjustment of the execution may include a report. An adjustment decides all waiting reports, so
 * a report that still waits came after it. For a decided report the order is unknown: the clock may have gone back in
 * between.
 */
const mayBeInSum = ({ decidedAt, receivedAt }: LateFill, adjustments: readonly Adjustment[]): boolean =>
  adjustments.some((one) => one.reportId === null && (decidedAt !== null || one.recordedAt >= receivedAt))

/** A report without its amounts. A report without a fee leaves the order's fee unchanged. */
const fillOf = ({ report, receivedAt }: LateFill, feeSoFar: Usd | null): AdjustmentFill => ({
  partnerFee: report.partnerFee === null ? null : ((report.partnerFee - (feeSoFar ?? 0n)) as Usd),
  executionPrice: report.executionPrice,
  executedAt: report.executedAt ?? receivedAt,
})

const lateFillConflict = (message: string): Problem => new Problem('late_fill_conflict', message)

const undecidable = ({ report, reportId }: LateFill, why: string): Problem =>
  lateFillConflict(
    `Order ${report.partnerOrderId} ${why}: use "trade adjust" to enter the total of the execution. If that is on record already, or only a fee differs, dismiss report ${reportId} with "execution dismiss-late".`,
  )

export const waiting = (late: readonly LateFill[]): number[] =>
  late.filter((one) => one.decidedAt === null).map(({ reportId }) => reportId)

/** The late fill with this number, or the only undecided one. Throws late_fill_not_found, late_fill_conflict. */
export function chosen(ids: LateFillIds, late: readonly LateFill[]): LateFill {
  const { executionId, reportId } = ids
  if (reportId !== null) {
    const named = late.find((one) => one.reportId === reportId)
    if (!named) throw nothingToDecide(ids)
    return named
  }
  const undecided = late.filter((one) => one.decidedAt === null)
  const [only, another] = undecided
  if (only && !another) return only
  if (late.length === 0) throw nothingToDecide(ids)
  if (another) throw severalWait(executionId, undecided, 'name one with --report.')
  throw lateFillConflict(
    `Execution ${executionId} has no late fill left to decide on. Decided already: ${numbersOf(late)}.`,
  )
}

/** The refusal when several late fills are undecided and no number was given; `remedy` says how to give one. */
export const severalWait = (executionId: string, late: readonly LateFill[], remedy: string): Problem =>
  lateFillConflict(
    `Execution ${executionId} has several late fills to decide on (${numbersOf(late)}): ${remedy}`,
  )

const numbersOf = (late: readonly LateFill[]): string => late.map(({ reportId }) => reportId).join(', ')

/**
 * The undecided late fill with this number, or all undecided ones. The list may be empty when some were only `counted`.
 * Throws late_fill_not_found.
 */
export function undecided(ids: LateFillIds, late: readonly LateFill[], counted: boolean): LateFill[] {
  const { reportId } = ids
  const found = late.filter(
    (one) => one.decidedAt === null && (reportId === null || one.reportId === reportId),
  )
  if (found.length === 0 && !(counted && reportId === null)) throw nothingToDecide(ids)
  return found
}

const nothingToDecide = ({ executionId, reportId }: LateFillIds): Problem =>
  new Problem(
    'late_fill_not_found',
    reportId === null
      ? `Execution ${executionId} has no late fill to decide on.`
      : `Execution ${executionId} has no late fill ${reportId} to decide on.`,
  )
