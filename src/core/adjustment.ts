// Adjustments: a fill that was recorded wrongly is set right by an entry of its own. The trade itself never changes,
// and neither does the month it was recorded in.

import { isFill } from './confirmation-report.ts'
import type { Execution } from './execution.ts'
import type { ExecutionId } from './execution-id.ts'
import { FILL_BTC_MAX, FILL_USD_MAX } from './fill-limits.ts'
import type { Instant } from './instant.ts'
import { type OddPrice, oddPrice } from './mispriced-fill.ts'
import { type Btc, formatBtc, formatUsd, type Price, UNITS, type Usd, ZERO_USD } from './money.ts'
import { Problem } from './problem.ts'
import { recordedAtOf, type Trade } from './trade.ts'
import { adjustSpent, type Window } from './window.ts'

/** What an execution comes to: dollars spent and coins bought. */
export type Amounts = { usd: Usd; btc: Btc }

export type Adjustment = Amounts & {
  /** Counts up over all adjustments, in the order they were made. */
  adjustmentId: number
  executionId: ExecutionId
  reason: string
  recordedAt: Instant
  /** The late fill it was made of; null when an operator gave the amounts. */
  reportId: number | null
  /** The order of a further purchase; null when it is about the order of the trade. */
  partnerOrderId: string | null
  /** What else the report of that late fill says; null without one, and where it was accepted before this was kept. */
  fill: AdjustmentFill | null
}

/** What is known of the purchase behind an adjustment, besides its amounts. */
export type AdjustmentFill = {
  /** The difference to what the order's fee was so far; null when the report says nothing of a fee. */
  partnerFee: Usd | null
  executionPrice: Price
  /** As reported, or when the report came. */
  executedAt: Instant
}

export type TradeSeen = {
  execution: Execution | null
  window: Window | null
  trade: Trade | null
  adjustments: readonly Adjustment[]
  /** The last adjustment of all, of whatever trade; 0 before the first. */
  latestId: number
  /** When the latest trade or adjustment of all was recorded. */
  latestRecordedAt: Instant | null
}

export type Correction = {
  window: Window
  adjustment: Adjustment
  before: Amounts
  after: Amounts
  /** What is wrong with the price of the fill at what the execution comes to now; null if nothing is. */
  odd: OddPrice | null
}

/** What an execution comes to after its adjustments. A report of failure begins at nothing. */
export function amountsOf({ report }: Trade, adjustments: readonly Amounts[]): Amounts {
  const first = isFill(report)
    ? { usd: report.usdAmount, btc: report.btcAmount }
    : { usd: ZERO_USD, btc: 0n as Btc }
  return adjustments.reduce<Amounts>(
    (sum, step) => ({ usd: (sum.usd + step.usd) as Usd, btc: (sum.btc + step.btc) as Btc }),
    first,
  )
}

/** What partners took as their own fee for an execution, in all; null when nobody has reported one. */
export function feeOf({ report }: Trade, adjustments: readonly Pick<Adjustment, 'fill'>[]): Usd | null {
  const first = isFill(report) ? report.partnerFee : null
  const steps = [first, ...adjustments.map(({ fill }) => fill?.partnerFee ?? null)]
  const said = steps.filter((fee) => fee !== null)
  return said.length === 0 ? null : (said.reduce<bigint>((sum, fee) => sum + fee, 0n) as Usd)
}

/** The orders that an adjustment is about, and what they came to before it and after it. */
export type AdjustedOrders = { orders: string[]; isFurther: boolean; before: Amounts; after: Amounts }

/**
 * Which orders of its execution an adjustment is about: a further purchase is an order of its own; the amounts that an
 * operator gave after one are of all orders together; everything else is about the order of the trade. `earlier` are
 * the adjustments of the execution before it.
 */
export function ordersAdjusted(
  trade: Trade,
  earlier: readonly Adjustment[],
  adjustment: Adjustment,
): AdjustedOrders {
  const { partnerOrderId, reportId } = adjustment
  const isFurther = partnerOrderId !== null
  const further = earlier.flatMap((one) => one.partnerOrderId ?? [])
  const isOfAll = reportId === null && further.length > 0
  const before = isFurther
    ? { usd: ZERO_USD, btc: 0n as Btc }
    : amountsOf(trade, isOfAll ? earlier : earlier.filter((one) => one.partnerOrderId === null))
  return {
    orders: isFurther ? [partnerOrderId] : [trade.report.partnerOrderId, ...(isOfAll ? further : [])],
    isFurther,
    before,
    after: { usd: (before.usd + adjustment.usd) as Usd, btc: (before.btc + adjustment.btc) as Btc },
  }
}

/**
 * Sets a recorded outcome right: `right` is what it should have said. Throws execution_not_found, adjustment_conflict.
 */
export function adjust(seen: TradeSeen, right: Amounts & { reason: string }, now: Instant): Correction {
  const { execution, window, trade } = seen
  if (!execution || !window) throw new Problem('execution_not_found', 'Execution not found.')
  if (!trade) {
    throw conflict(
      `Execution ${execution.executionId} is ${execution.status}: no report of it is recorded that could be adjusted.`,
    )
  }
  return correct(
    { ...seen, execution, window, trade },
    { ...right, reportId: null, partnerOrderId: null, fill: null },
    now,
  )
}

/**
 * Brings an execution to `right`, by an adjustment of the difference. What is beyond its reservation, or beyond what
 * the window has left, becomes the window's excess. Dated like a trade.
 */
export function correct(
  seen: TradeSeen & { execution: Execution; window: Window; trade: Trade },
  { usd, btc, ...origin }: Amounts & Pick<Adjustment, 'reason' | 'reportId' | 'partnerOrderId' | 'fill'>,
  now: Instant,
): Correction {
  const { execution, window, trade, adjustments, latestId, latestRecordedAt } = seen
  const before = amountsOf(trade, adjustments)
  const after: Amounts = { usd, btc }
  refuseImpossible(after)
  const step = { usd: (usd - before.usd) as Usd, btc: (btc - before.btc) as Btc }
  if (step.usd === 0n && step.btc === 0n && !origin.fill?.partnerFee) {
    throw conflict(
      `Execution ${execution.executionId} is already ${formatUsd(usd)} USD for ${formatBtc(btc)} BTC.`,
    )
  }
  return {
    window: adjustSpent(window, { before: before.usd, after: usd, reservation: execution.amount }),
    adjustment: {
      adjustmentId: latestId + 1,
      executionId: execution.executionId,
      ...step,
      ...origin,
      recordedAt: recordedAtOf(now, latestRecordedAt),
    },
    before,
    after,
    odd: oddPrice(trade, { amounts: after, market: execution.firing.price }),
  }
}

/** Throws adjustment_conflict for amounts that no purchase can have. */
export function refuseImpossible({ usd, btc }: Amounts): void {
  if (usd < 0n || btc < 0n) throw conflict('A fill is never negative.')
  if ((usd === 0n) !== (btc === 0n)) {
    throw conflict('A fill has both dollars and bitcoin, or neither: give 0 for both if nothing was bought.')
  }
  if (btc > FILL_BTC_MAX) throw conflict(`A fill is at most ${wholes(FILL_BTC_MAX)} BTC.`)
  if (usd > FILL_USD_MAX) throw conflict(`A fill is at most ${wholes(FILL_USD_MAX)} USD.`)
}

const wholes = (units: bigint): string => (units / UNITS).toLocaleString('en-US')

const conflict = (message: string): Problem => new Problem('adjustment_conflict', message)
