// Adjustments: a fill that was recorded wrongly is set right by an entry of its own. The trade itself never changes,
// and neither does the month it was recorded in.

import type { Execution } from './execution.ts'
import type { ExecutionId } from './execution-id.ts'
import { type Instant, later } from './instant.ts'
import { type Btc, formatBtc, formatUsd, UNITS, type Usd } from './money.ts'
import { Problem } from './problem.ts'
import { FILL_BTC_MAX, type Trade } from './trade.ts'
import { adjustSpent, leftOf, type Window } from './window.ts'

/** What a fill comes to: dollars spent and coins bought. */
export type Amounts = { usd: Usd; btc: Btc }

export type Adjustment = Amounts & {
  /** Counts up over all adjustments, in the order they were made. */
  adjustmentId: number
  executionId: ExecutionId
  reason: string
  recordedAt: Instant
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

export type Correction = { window: Window; adjustment: Adjustment; before: Amounts; after: Amounts }

/** What a fill comes to after its adjustments; null when the trade is not a fill. */
export function amountsOf(trade: Trade, adjustments: readonly Amounts[]): Amounts | null {
  if (!('usdAmount' in trade.report)) return null
  const { usdAmount, btcAmount } = trade.report
  return adjustments.reduce<Amounts>((sum, step) => added(sum, step), { usd: usdAmount, btc: btcAmount })
}

/**
 * Sets a recorded fill right: `right` is what it should have said. Throws execution_not_found, adjustment_conflict.
 * Dated like a trade: now, and never before what was recorded last, so that no month that is over gains anything.
 */
export function adjust(seen: TradeSeen, right: Amounts & { reason: string }, now: Instant): Correction {
  const { execution, window, trade, adjustments, latestId, latestRecordedAt } = seen
  if (!execution || !window) throw new Problem('execution_not_found', 'Execution not found.')
  const before = trade && amountsOf(trade, adjustments)
  if (!before)
    throw conflict(`Execution ${execution.executionId} is ${execution.status}: it has no fill to adjust.`)
  const after: Amounts = { usd: right.usd, btc: right.btc }
  refuseImpossible(after, execution)
  const step = { usd: (after.usd - before.usd) as Usd, btc: (after.btc - before.btc) as Btc }
  if (step.usd === 0n && step.btc === 0n) {
    throw conflict(
      `The fill of ${execution.executionId} already stands at ${formatUsd(after.usd)} USD for ${formatBtc(after.btc)} BTC.`,
    )
  }
  refuseUncovered(window, step.usd)
  return {
    window: adjustSpent(window, step.usd),
    adjustment: {
      adjustmentId: latestId + 1,
      executionId: execution.executionId,
      ...step,
      reason: right.reason,
      recordedAt: latestRecordedAt === null ? now : later(now, latestRecordedAt),
    },
    before,
    after,
  }
}

function refuseImpossible({ usd, btc }: Amounts, execution: Execution): void {
  if (usd < 0n || btc < 0n) throw conflict('A fill is never negative.')
  if ((usd === 0n) !== (btc === 0n)) {
    throw conflict('A fill has both dollars and bitcoin, or neither: give 0 for both if nothing was bought.')
  }
  if (btc > FILL_BTC_MAX)
    throw conflict(`A fill is at most ${(FILL_BTC_MAX / UNITS).toLocaleString('en-US')} BTC.`)
  if (usd <= execution.amount) return
  throw conflict(
    `A fill is at most its reservation: ${formatUsd(execution.amount)} USD were reserved, ${formatUsd(usd)} given.`,
  )
}

/** More money than was recorded has to come from what the window still has: its budget holds whatever happens. */
function refuseUncovered(window: Window, more: Usd): void {
  const left = leftOf(window)
  if (more <= left) return
  throw conflict(
    `The window has ${formatUsd(left)} USD left of its budget; the adjustment would take ${formatUsd(more)} USD.`,
  )
}

const added = (a: Amounts, b: Amounts): Amounts => ({
  usd: (a.usd + b.usd) as Usd,
  btc: (a.btc + b.btc) as Btc,
})

const conflict = (message: string): Problem => new Problem('adjustment_conflict', message)
