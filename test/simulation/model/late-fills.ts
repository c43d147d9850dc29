// The model's late fills: reports of a purchase that were refused. None is dropped, and an operator decides on each.

import { amountsOf, correct, isImpossible } from './corrections.ts'
import { holderOf, recordingTime, sameReport } from './executions.ts'
import { change, settle } from './ledger.ts'
import { audit, type Refusal } from './levers.ts'
import { type Execution, isOpen, type Late, presentOf, type Report, type State } from './state.ts'
import { least } from './units.ts'

const KEPT_MAX = 20

/** Keeps a report, once: the first of an execution, and how many more there were. */
export function keep(
  state: State,
  execution: Execution,
  { report, reason }: { report: Report; reason: string },
): void {
  if (execution.late.some((one) => sameReport(one.report, report))) return
  if (execution.late.length >= KEPT_MAX) {
    execution.uncounted += 1
    return
  }
  state.lateNumbers += 1
  execution.late.push({
    number: state.lateNumbers,
    report,
    reason,
    receivedAt: presentOf(state, execution.tenant),
    accepted: false,
    decided: false,
  })
}

const saysTheSame = (a: Report, b: Report): boolean =>
  a.order === b.order && a.usd === b.usd && a.btc === b.btc && a.fee === b.fee

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
  if (late.accepted || (trade && sameReport(trade.report, late.report))) return 'late_fill_conflict'
  if (holderOf(execution, late.report.order)) return 'order_id_taken'
  const refusal = trade ? acceptBeside(state, execution, late) : acceptFirst(state, execution, late)
  if (refusal) return refusal
  late.accepted = true
  // Only what says the same of the order is settled by it.
  for (const one of execution.late)
    if (one === late || saysTheSame(one.report, late.report)) one.decided = true
  return audit(state)
}

/** When a purchase was made, as far as anybody knows: when its report came, where that does not say. */
const boughtAt = ({ report, receivedAt }: Late): number => report.executedAt ?? receivedAt

/** It becomes the trade that the execution lacks. */
function acceptFirst(state: State, execution: Execution, late: Late): Refusal {
  const { report } = late
  if (isImpossible(report)) return 'adjustment_conflict'
  if (isOpen(execution)) {
    const within = least(report.usd, execution.amount)
    settle(execution, within)
    change(execution, within, report.usd)
  } else change(execution, 0n, report.usd)
  execution.status = report.status
  execution.trade = { report, executedAt: boughtAt(late), recordedAt: recordingTime(state, execution.tenant) }
  return null
}

/** Beside a trade: what that very order came to, or a further purchase. */
const acceptBeside = (state: State, execution: Execution, late: Late): Refusal =>
  late.report.order === execution.trade?.report.order
    ? acceptBetterReport(state, execution, late)
    : acceptFurther(state, execution, late)

const originOf = (late: Late, fee: bigint | null) => ({
  reason: `late fill accepted: report ${late.number}`,
  lateNumber: late.number,
  price: late.report.price,
  fee,
  executedAt: boughtAt(late),
})

/** Another order. What is in an operator's own sum is unknown: only one from before the report leaves it out. */
function acceptFurther(state: State, execution: Execution, late: Late): Refusal {
  const { report, receivedAt } = late
  const isCounted = execution.adjustments.some(
    ({ order, lateNumber, recordedAt }) =>
      order === report.order || (lateNumber === null && recordedAt >= receivedAt),
  )
  if (isCounted) return 'late_fill_conflict'
  const { usd, btc } = amountsOf(execution)
  const to = { usd: usd + report.usd, btc: btc + report.btc }
  return correct(state, execution, to, { ...originOf(late, report.fee), order: report.order })
}

/** The order that is recorded, told anew: the difference to what was told is added, in the fee as in the amounts. */
function acceptBetterReport(state: State, execution: Execution, late: Late): Refusal {
  const { trade, adjustments } = execution
  const { report } = late
  const further = adjustments.filter(({ order }) => order !== null)
  const [first] = further
  const isUnknown =
    first && adjustments.slice(adjustments.indexOf(first)).some((one) => one.lateNumber === null)
  if (isUnknown) return 'late_fill_conflict'
  const to = { usd: report.usd, btc: report.btc }
  for (const one of further) {
    to.usd += one.usd
    to.btc += one.btc
  }
  let told = trade?.report.fee ?? 0n
  for (const { order, fee } of adjustments) if (order === null) told += fee ?? 0n
  const fee = report.fee === null ? null : report.fee - told
  return correct(state, execution, to, { ...originOf(late, fee), order: null })
}

/** Done with a late fill, or with all of an execution, without recording it. */
export function dismissLate(state: State, execution: Execution, number: number | null): Refusal {
  const late = execution.late.filter((one) => !one.decided && (number === null || one.number === number))
  if (late.length === 0) return 'late_fill_not_found'
  for (const one of late) one.decided = true
  if (number === null) execution.uncounted = 0
  return audit(state)
}
