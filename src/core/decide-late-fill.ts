// Late fills: which one an operator means, and the decision that a report which was refused and kept tells of a real
// purchase.

import {
  type Adjustment,
  type AdjustmentFill,
  amountsOf,
  type Correction,
  correct,
  feeOf,
  refuseImpossible,
} from './adjustment.ts'
import { type ExecutionSeen, orderTaken, type Recorded } from './confirmation.ts'
import type { Fill } from './confirmation-report.ts'
import { isOpen } from './execution.ts'
import type { Instant } from './instant.ts'
import type { LateFill } from './keep-late-fill.ts'
import { type Btc, formatBtc, formatUsd, lesser, type Usd, ZERO_USD } from './money.ts'
import { Problem } from './problem.ts'
import { sameReport } from './same-report.ts'
import type { Trade } from './trade.ts'
import { tradeOf } from './trade.ts'
import { adjustSpent, settle, type Window } from './window.ts'

export type LateFillSeen = ExecutionSeen & { adjustments: readonly Adjustment[]; latestId: number }

/** An execution without an outcome gets its trade; one that has a trade, which never changes, gets an adjustment. */
export type Acceptance = Recorded | ({ kind: 'adjusted' } & Correction)

/** An execution, and the report that is meant; null stands for its only undecided one, or for all of them. */
export type LateFillIds = { executionId: string; reportId: number | null }

/** What an operator decides on, and why, if a reason was given. */
export type LateFillDecision = LateFillIds & { reason?: string | undefined }

/** Records a late fill. Throws execution_not_found, late_fill_conflict, order_id_taken, adjustment_conflict. */
export function acceptLate(seen: LateFillSeen, late: LateFill, now: Instant): Acceptance {
  const { execution, window, trade } = seen
  const { report, reportId } = late
  if (!execution || !window) throw new Problem('execution_not_found', 'Execution not found.')
  // An adjustment is never changed, and says so when the late fill itself was damaged and does not.
  const isAdjusted = seen.adjustments.some((one) => one.reportId === reportId)
  if (late.acceptedAt !== null || isAdjusted) throw conflict(`Report ${reportId} has been accepted already.`)
  if (trade && sameReport(trade.report, report)) {
    throw conflict(`Report ${reportId} is on record: the partner sent it again, and it was confirmed.`)
  }
  const taken = orderTaken(seen.orderHeldBy, report)
  if (taken) throw taken
  if (trade) return { kind: 'adjusted', ...acceptBeside({ ...seen, execution, window, trade }, late, now) }
  refuseImpossible({ usd: report.usdAmount, btc: report.btcAmount })
  return {
    kind: 'recorded',
    execution: { ...execution, status: report.status },
    window: entered(window, { reservation: execution.amount, isReserved: isOpen(execution) }, report),
    trade: { ...tradeOf(seen, execution, report, now), receivedAt: late.receivedAt },
    settles: null,
  }
}

/** The window with the whole fill in it, out of its reservation as far as that is still there. */
function entered(
  window: Window,
  { reservation, isReserved }: { reservation: Usd; isReserved: boolean },
  { usdAmount }: Fill,
): Window {
  if (!isReserved) return adjustSpent(window, { before: ZERO_USD, after: usdAmount, reservation })
  const within = lesser(usdAmount, reservation)
  return adjustSpent(settle(window, reservation, within), { before: within, after: usdAmount, reservation })
}

type Recording = LateFillSeen & {
  execution: NonNullable<ExecutionSeen['execution']>
  window: Window
  trade: Trade
}

/**
 * A report on an execution that has its trade. With the order id of the trade, it says anew what that order came to;
 * with another one, it tells of a further purchase. An operator who adjusted after it came knew of it: whether it is
 * in that sum is not known here, and adding it could bill it twice.
 */
function acceptBeside(seen: Recording, late: LateFill, now: Instant): Correction {
  const { trade, adjustments } = seen
  const { report, reportId } = late
  const reported = { usd: report.usdAmount, btc: report.btcAmount }
  const reason = `late fill accepted: report ${reportId}`
  if (report.partnerOrderId !== trade.report.partnerOrderId) {
    if (adjustments.some(({ partnerOrderId }) => partnerOrderId === report.partnerOrderId)) {
      throw undecidable(late, 'is recorded already as a further purchase')
    }
    if (adjustments.some((one) => one.reportId === null && one.recordedAt >= late.receivedAt)) {
      throw undecidable(late, 'was reported before the execution was adjusted')
    }
    const after = plus(amountsOf(trade, adjustments), reported)
    const { partnerOrderId } = report
    return correct(seen, { ...after, reason, reportId, partnerOrderId, fill: fillOf(late, null) }, now)
  }
  const isFurther = (one: Adjustment) => one.partnerOrderId !== null
  const further = adjustments.filter(isFurther)
  // An operator who adjusted after a further purchase gave one sum for all orders: what is in it of each is unknown.
  const since = further[0]?.adjustmentId ?? Number.POSITIVE_INFINITY
  if (adjustments.some((one) => one.reportId === null && one.adjustmentId > since)) {
    throw undecidable(late, 'was adjusted together with others')
  }
  const own = adjustments.filter((one) => !isFurther(one))
  const [soFar, fill] = [amountsOf(trade, own), fillOf(late, feeOf(trade, own))]
  if (soFar.usd === reported.usd && soFar.btc === reported.btc && !fill.partnerFee) {
    const amounts = `${formatUsd(soFar.usd)} USD for ${formatBtc(soFar.btc)} BTC`
    throw new Problem(
      'adjustment_conflict',
      `Order ${report.partnerOrderId} is on record with ${amounts}, so nothing is left to record: end report ${reportId} with "execution dismiss-late".`,
    )
  }
  const right = { ...further.reduce(plus, reported), reason, reportId, partnerOrderId: null }
  return correct(seen, { ...right, fill }, now)
}

/** The report without its amounts. One that says nothing of a fee leaves what the fee of its order was so far. */
const fillOf = ({ report, receivedAt }: LateFill, feeSoFar: Usd | null): AdjustmentFill => ({
  partnerFee: report.partnerFee === null ? null : ((report.partnerFee - (feeSoFar ?? 0n)) as Usd),
  executionPrice: report.executionPrice,
  executedAt: report.executedAt ?? receivedAt,
})

const plus = (a: { usd: Usd; btc: Btc }, b: { usd: Usd; btc: Btc }) => ({
  usd: (a.usd + b.usd) as Usd,
  btc: (a.btc + b.btc) as Btc,
})

const conflict = (message: string): Problem => new Problem('late_fill_conflict', message)

const undecidable = ({ report, reportId }: LateFill, why: string): Problem =>
  conflict(
    `Order ${report.partnerOrderId} ${why}: say with "trade adjust" what the execution comes to in all. If that is on record already, or only a fee differs, end report ${reportId} with "execution dismiss-late".`,
  )

/** The numbers of the reports that nobody has decided on. */
export const waiting = (late: readonly LateFill[]): number[] =>
  late.filter((one) => one.decidedAt === null).map(({ reportId }) => reportId)

/** The report that is named, or the only undecided one. Throws late_fill_not_found, late_fill_conflict. */
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
  throw conflict(
    `Execution ${executionId} has no late fill left to decide on. Decided already: ${numbersOf(late)}.`,
  )
}

/** Which of them is meant is not known: `remedy` is how to say so. */
export const severalWait = (executionId: string, late: readonly LateFill[], remedy: string): Problem =>
  conflict(`Execution ${executionId} has several late fills to decide on (${numbersOf(late)}): ${remedy}`)

const numbersOf = (late: readonly LateFill[]): string => late.map(({ reportId }) => reportId).join(', ')

/**
 * The undecided one that is named, or all of them: none where some were only `counted`. Throws late_fill_not_found.
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
