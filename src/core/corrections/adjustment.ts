// Adjustments: separate entries that correct a wrongly recorded fill. The trade never changes, nor does its month.

import { FILL_BTC_MAX, FILL_USD_MAX, isFill, recordedAtOf, type Trade } from '../confirmation.ts'
import type { Execution, ExecutionId } from '../execution.ts'
import { type Btc, formatBtc, formatUsd, type Price, UNITS, type Usd, ZERO_USD } from '../money.ts'
import { type OddPrice, oddPrice } from '../price.ts'
import { notFound, Problem } from '../problem.ts'
import type { Instant } from '../time.ts'
import { adjustSpent, type Window } from '../window.ts'

export type Amounts = { usd: Usd; btc: Btc }

export type Adjustment = Amounts & {
  /** Counts up over all adjustments, in the order they were made. */
  adjustmentId: number
  executionId: ExecutionId
  reason: string
  recordedAt: Instant
  /** The late fill it was made from; null when an operator gave the amounts. */
  reportId: number | null
  /** The order id of a further purchase; null when the adjustment is about the order of the trade. */
  partnerOrderId: string | null
  /** The other parts of that late fill's report; null without one, and for one from before they were stored. */
  fill: AdjustmentFill | null
}

export type AdjustmentFill = {
  /** The difference from the order's fee so far; null when the report gives no fee. */
  partnerFee: Usd | null
  executionPrice: Price
  /** The reported time, else the time the report arrived. */
  executedAt: Instant
}

/** Every part of an adjustment, for hashing. Stored digests were computed from exactly this, so it never changes. */
export function adjustmentContent(adjustment: Adjustment): unknown[] {
  const { adjustmentId, executionId, usd, btc, reason, recordedAt, reportId, partnerOrderId, fill } =
    adjustment
  const worded = { adjustmentId, executionId, usd: `${usd}`, btc: `${btc}`, reason, recordedAt }
  // Adjustments with an operator's amounts are hashed as they were before the other kinds existed.
  if (reportId === null) return Object.values(worded)
  const late = { ...worded, reportId, partnerOrderId }
  late satisfies Record<Exclude<keyof Adjustment, 'fill'>, unknown>
  if (fill === null) return Object.values(late)
  const { partnerFee, executionPrice, executedAt } = fill
  const filled = {
    partnerFee: partnerFee?.toString() ?? null,
    executionPrice: `${executionPrice}`,
    executedAt,
  } satisfies Record<keyof AdjustmentFill, unknown>
  return [...Object.values(late), ...Object.values(filled)]
}

export type TradeFacts = {
  execution: Execution | null
  window: Window | null
  trade: Trade | null
  adjustments: readonly Adjustment[]
  /** The latest adjustment of any trade; 0 before the first. */
  latestId: number
  latestRecordedAt: Instant | null
}

export type Correction = {
  window: Window
  adjustment: Adjustment
  before: Amounts
  after: Amounts
  /** The fault of the fill's price at the new total; null if there is none. */
  odd: OddPrice | null
}

export const plusAmounts = (a: Amounts, b: Amounts): Amounts => ({
  usd: (a.usd + b.usd) as Usd,
  btc: (a.btc + b.btc) as Btc,
})

const NOTHING: Amounts = { usd: ZERO_USD, btc: 0n as Btc }

/** The total of an execution after its adjustments. A report of failure counts as zero. */
export function amountsOf({ report }: Trade, adjustments: readonly Amounts[]): Amounts {
  const first = isFill(report) ? { usd: report.usdAmount, btc: report.btcAmount } : NOTHING
  return adjustments.reduce(plusAmounts, first)
}

/** The sum of the partner's own fees for an execution; null when no report gave one. */
export function feeOf({ report }: Trade, adjustments: readonly Pick<Adjustment, 'fill'>[]): Usd | null {
  const first = isFill(report) ? report.partnerFee : null
  const steps = [first, ...adjustments.map(({ fill }) => fill?.partnerFee ?? null)]
  const given = steps.filter((fee) => fee !== null)
  return given.length === 0 ? null : (given.reduce<bigint>((sum, fee) => sum + fee, 0n) as Usd)
}

/** The orders that an adjustment is about, and their total before it and after it. */
export type AdjustedOrders = { orders: string[]; isFurther: boolean; before: Amounts; after: Amounts }

/**
 * Finds the orders of its execution that an adjustment is about. A further purchase is an order of its own. Amounts
 * that an operator gave after one are the total of all orders. Every other adjustment is about the order of the trade.
 * `earlier` are the adjustments of the execution before this one.
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
    ? NOTHING
    : amountsOf(trade, isOfAll ? earlier : earlier.filter((one) => one.partnerOrderId === null))
  return {
    orders: isFurther ? [partnerOrderId] : [trade.report.partnerOrderId, ...(isOfAll ? further : [])],
    isFurther,
    before,
    after: plusAmounts(before, adjustment),
  }
}

/** Corrects a recorded outcome to `right`. Throws execution_not_found, adjustment_conflict. */
export function adjust(facts: TradeFacts, right: Amounts & { reason: string }, now: Instant): Correction {
  const { execution, window, trade } = facts
  if (!execution || !window) throw notFound('execution')
  if (!trade) {
    throw conflict(
      `Execution ${execution.executionId} is ${execution.status}: no report of it is recorded that could be adjusted.`,
    )
  }
  return correct(
    { ...facts, execution, window, trade },
    { ...right, reportId: null, partnerOrderId: null, fill: null },
    now,
  )
}

/** Adjusts an execution to `usd` and `btc`. Dollars beyond its reservation or its window become the window's excess. */
export function correct(
  facts: TradeFacts & { execution: Execution; window: Window; trade: Trade },
  { usd, btc, ...origin }: Amounts & Pick<Adjustment, 'reason' | 'reportId' | 'partnerOrderId' | 'fill'>,
  now: Instant,
): Correction {
  const { execution, window, trade, adjustments, latestId, latestRecordedAt } = facts
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
  if ((usd === 0n) !== (btc === 0n))
    throw conflict('A fill has both dollars and bitcoin, or neither: give 0 for both if nothing was bought.')
  if (btc > FILL_BTC_MAX) throw conflict(`A fill is at most ${wholes(FILL_BTC_MAX)} BTC.`)
  if (usd > FILL_USD_MAX) throw conflict(`A fill is at most ${wholes(FILL_USD_MAX)} USD.`)
}

const wholes = (units: bigint): string => (units / UNITS).toLocaleString('en-US')

export const conflict = (message: string): Problem => new Problem('adjustment_conflict', message)
