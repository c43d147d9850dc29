// What an operator decides in the model on reports that were refused and kept.

import { holderOf, recordingTime, same } from './executions.ts'
import { change, settle } from './ledger.ts'
import { amountsOf, audit, correct, isImpossible, type Refusal } from './levers.ts'
import { type Execution, isOpen, type Late, type State } from './state.ts'

/** The late fill that is named, or the only undecided one. */
function chosen({ late }: Execution, number: number | null): Late | string {
  if (number !== null) return late.find((one) => one.number === number) ?? 'late_fill_not_found'
  const undecided = late.filter(({ decided }) => !decided)
  if (undecided.length === 1 && undecided[0]) return undecided[0]
  return late.length === 0 ? 'late_fill_not_found' : 'late_fill_conflict'
}

export function acceptLate(state: State, execution: Execution, number: number | null): Refusal {
  const late = chosen(execution, number)
  if (typeof late === 'string') return late
  const { trade } = execution
  if (late.accepted || (trade && same(trade.report, late.report))) return 'late_fill_conflict'
  const { order } = late.report
  if (holderOf(execution, order)) return 'order_id_taken'
  const refusal = execution.trade ? acceptBeside(state, execution, late) : acceptFirst(state, execution, late)
  if (refusal) return refusal
  late.accepted = true
  for (const one of execution.late) if (one.report.order === order) one.decided = true
  return audit(state)
}

/** It becomes the trade that the execution lacks. */
function acceptFirst(state: State, execution: Execution, { report, receivedAt }: Late): Refusal {
  if (isImpossible(report)) return 'adjustment_conflict'
  const { usd, status } = report
  if (isOpen(execution)) {
    const within = usd < execution.amount ? usd : execution.amount
    settle(execution, within)
    change(execution, within, usd)
  } else change(execution, 0n, usd)
  execution.status = status
  execution.trade = { report, recordedAt: recordingTime(state), receivedAt }
  return null
}

/** Beside a trade: what that very order came to, or a further purchase. What is in an operator's own sum is unknown. */
function acceptBeside(state: State, execution: Execution, late: Late): Refusal {
  const { report, number, receivedAt } = late
  const { adjustments, trade } = execution
  const reason = `late fill accepted: report ${number}`
  const { price, fee } = report
  const said = { reason, lateNumber: number, price, executedAt: report.executedAt ?? receivedAt }
  if (report.order !== trade?.report.order) {
    const isCounted =
      adjustments.some(({ order }) => order === report.order) ||
      adjustments.some((one) => one.lateNumber === null && one.recordedAt >= receivedAt)
    if (isCounted) return 'late_fill_conflict'
    const before = amountsOf(execution)
    const after = { usd: before.usd + report.usd, btc: before.btc + report.btc }
    return correct(state, execution, { ...after, ...said, order: report.order, fee })
  }
  const first = adjustments.findIndex(({ order }) => order !== null)
  if (first >= 0 && adjustments.slice(first).some(({ lateNumber }) => lateNumber === null)) {
    return 'late_fill_conflict'
  }
  let { usd, btc } = report
  for (const one of adjustments.filter(({ order }) => order !== null)) {
    usd += one.usd
    btc += one.btc
  }
  // The fee of this order so far; a report that names none leaves it.
  let known = trade.report.fee ?? 0n
  for (const one of adjustments.filter(({ order }) => order === null)) known += one.fee ?? 0n
  return correct(state, execution, { usd, btc, ...said, order: null, fee: fee === null ? null : fee - known })
}

/** Done with a late fill, or with all of an execution, without recording it. */
export function dismissLate(state: State, execution: Execution, number: number | null): Refusal {
  const late = execution.late.filter((one) => !one.decided && (number === null || one.number === number))
  if (late.length === 0) return 'late_fill_not_found'
  for (const one of late) one.decided = true
  if (number === null) execution.uncounted = 0
  return audit(state)
}
