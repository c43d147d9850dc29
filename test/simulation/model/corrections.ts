// The model's corrections: what an operator adds to a trade, dated when it is added.

import { recordingTime } from './executions.ts'
import { change } from './ledger.ts'
import { audit, type Refusal } from './levers.ts'
import type { Adjustment, Execution, State } from './state.ts'

export type Amounts = { usd: bigint; btc: bigint }

/** Dollars and coins of an execution, its adjustments included. */
export function amountsOf({ trade, adjustments }: Execution): Amounts {
  const sum = { usd: trade?.report.usd ?? 0n, btc: trade?.report.btc ?? 0n }
  for (const one of adjustments) {
    sum.usd += one.usd
    sum.btc += one.btc
  }
  return sum
}

export const isImpossible = ({ usd, btc }: Amounts): boolean =>
  usd < 0n || btc < 0n || (usd === 0n) !== (btc === 0n) || usd > 10n ** 17n || btc > 21n * 10n ** 14n

/** What a correction was made from, and what of that is shown beside the difference. */
export type Origin = Pick<Adjustment, 'reason' | 'lateNumber' | 'order' | 'price' | 'fee' | 'executedAt'>

/** Brings an execution to these amounts, by an entry of the difference. */
export function correct(state: State, execution: Execution, to: Amounts, origin: Origin): Refusal {
  const before = amountsOf(execution)
  const changes = to.usd !== before.usd || to.btc !== before.btc || (origin.fee ?? 0n) !== 0n
  if (isImpossible(to) || !changes) return 'adjustment_conflict'
  change(execution, before.usd, to.usd)
  state.adjustmentNumbers += 1
  execution.adjustments.push({
    number: state.adjustmentNumbers,
    usd: to.usd - before.usd,
    btc: to.btc - before.btc,
    recordedAt: recordingTime(state, execution.tenant),
    ...origin,
  })
  return null
}

/** An operator's own figures settle whatever waits for a decision. */
export function adjust(
  state: State,
  execution: Execution,
  { reason, ...to }: Amounts & { reason: string },
): Refusal {
  if (!execution.trade) return 'adjustment_conflict'
  const own = { reason, lateNumber: null, order: null, price: null, fee: null, executedAt: null }
  const refusal = correct(state, execution, to, own)
  if (refusal) return refusal
  for (const late of execution.late) late.decided = true
  execution.uncounted = 0
  return audit(state)
}
