// Purchases that the ledger does not know, booked by an operator: as which execution, into which window, and when one
// is on record already.

import {
  FILL_PRICE_MAX,
  type Fill,
  isFill,
  type LateFill,
  orderTaken,
  type Trade,
  tradeOf,
} from '../confirmation.ts'
import { type Execution, type ExecutionId, keyParts, RECORDED } from '../execution.ts'
import {
  averagePrice,
  type Btc,
  CENT,
  floorToCents,
  formatBtc,
  formatPrice,
  formatUsd,
  type Price,
  type Usd,
  ZERO_USD,
} from '../money.ts'
import type { Environment } from '../partner.ts'
import type { Plan } from '../plan.ts'
import { type OddPrice, oddPrice } from '../price.ts'
import { Problem } from '../problem.ts'
import { DAY_MS, formatInstant, type Instant } from '../time.ts'
import {
  adjustSpent,
  close,
  type Opening,
  opened,
  pastTranches,
  type Schedule,
  type Window,
} from '../window.ts'
import { conflict, refuseImpossible } from './adjustment.ts'

/** What an operator says of it. Without a time it was made when it is booked. */
export type Purchase = {
  partnerOrderId: string
  usd: Usd
  btc: Btc
  partnerFee: Usd | null
  executedAt: Instant | null
}

/** The purchase as a fill, at the price that its amounts come to. Throws adjustment_conflict for what none can be. */
export function purchaseFill({ partnerOrderId, usd, btc, partnerFee, executedAt }: Purchase): Fill {
  refuseImpossible({ usd, btc })
  const executionPrice = averagePrice(usd, btc)
  if (executionPrice === null || executionPrice === 0n)
    throw conflict('A purchase has both dollars and bitcoin.')
  if (executionPrice > FILL_PRICE_MAX)
    throw conflict(
      `${formatUsd(usd)} USD for ${formatBtc(btc)} BTC is a price of ${formatPrice(executionPrice)}, which no venue has.`,
    )
  return {
    status: 'filled',
    partnerOrderId,
    executedAt,
    usdAmount: usd,
    btcAmount: btc,
    executionPrice,
    partnerFee,
  }
}

export type PurchaseFacts = {
  plan: Plan
  /** What holds its order already: the trade is null where it is a further purchase of the execution. */
  holder: { execution: Execution; trade: Trade | null } | null
  /** A fill of the plan with the same amounts, under another order, that was made within a day of it. */
  twin: { executionId: string; partnerOrderId: string; at: Instant } | null
  /** Reports of its order that were refused, kept, and not decided on. */
  waiting: readonly { executionId: string; reportId: number }[]
  environment: Environment
  /** Of the plan's current window; null where it has none. */
  schedule: Schedule | null
  /** The orders that were booked into `window` before. */
  ordersBooked: readonly string[]
  /** The executions of `window` that wait for a confirmation. */
  openInWindow: readonly { executionId: string; trancheIndex: number }[]
  /** The plan's window of the time at which it was made; null where the ledger has none. */
  window: Window | null
  /** The cell of the plan's grid that has that time. */
  cell: Opening
  /** Numbers that nothing has yet. */
  windowId: number
  executionId: ExecutionId
  trancheIndex: number
  latestRecordedAt: Instant | null
  /** The market's price when it was made; null where it is unknown. */
  market: Price | null
}

export type Booking = { kind: 'known'; execution: Execution; trade: Trade } | Booked
export type Booked = {
  kind: 'booked'
  execution: Execution
  window: Window
  isNewWindow: boolean
  /** Where a pass goes on, when the purchase was that of the tranche that it would deliver next; else null. */
  schedule: Schedule | null
  /** The execution that has the key of the purchase, and waits for a confirmation that would now be refused. */
  stillOpen: string | null
  trade: Trade
  /** What an operator should look at, who is told: it is booked all the same. */
  doubts: { odd: OddPrice | null; market: Price | null; planCreatedAt: Instant }
}

/**
 * Two purchases of a plan with equal amounts this near to each other are rather one, under two spellings of its order.
 */
export const TWIN_MS = DAY_MS

/** The most reports kept of executions that the ledger does not know, for one tenant and not decided on. */
export const KEPT_UNKNOWN_MAX = 10_000

/** Tranche indexes of booked purchases begin here, so that no instruction of the scheduler has one of them. */
export const BOOKED_FROM = 1_000_000

/**
 * Books a purchase of a plan. What it spent is taken from what the window of its time has left, which the plan would
 * otherwise spend a second time; the rest is excess. `key` is the idempotency key under which it was ordered, where
 * that is known and not the order id itself. `isTwin`: an operator knows of the twin, and books the purchase beside it.
 * Throws order_id_taken, late_fill_conflict, purchase_twin, usage.
 */
export function bookPurchase(
  facts: PurchaseFacts,
  { key = null, isTwin = false, ...fill }: Fill & { key?: string | null; isTwin?: boolean },
  now: Instant,
): Booking {
  const { plan, holder, twin, waiting } = facts
  if (fill.executedAt !== null && fill.executedAt > now)
    throw new Problem('usage', 'A purchase that lies in the future cannot be recorded.')
  if (holder) {
    const { execution, trade } = holder
    const isSame = execution.planId === plan.planId && trade !== null && isRecordedAs(trade, fill)
    if (isSame) return { kind: 'known', execution, trade }
    throw orderTaken(execution.executionId, fill)
  }
  const [kept] = waiting
  if (kept)
    throw new Problem(
      'late_fill_conflict',
      `Order ${fill.partnerOrderId} was reported for execution ${kept.executionId} and is kept: accept report ${kept.reportId} with "execution accept-late", or end it with "execution dismiss-late".`,
    )
  if (twin && !isTwin)
    throw new Problem(
      'purchase_twin',
      `Execution ${twin.executionId} of this plan has the same amounts on ${formatInstant(twin.at)}, under order ${twin.partnerOrderId}: this may be the same purchase. If the partner bought twice, add --yes.`,
    )
  return booked(facts, { key, fill }, now)
}

/**
 * Books what a partner reported of an execution that the ledger does not know, under the id by which the partner knows
 * it. Throws order_id_taken, adjustment_conflict, usage.
 */
export function acceptUnknown(
  facts: PurchaseFacts,
  { report, receivedAt, key = null }: Pick<LateFill, 'report' | 'receivedAt'> & { key?: string | null },
  now: Instant,
): Booked {
  const taken = orderTaken(facts.holder?.execution.executionId ?? null, report)
  if (taken) throw taken
  refuseImpossible({ usd: report.usdAmount, btc: report.btcAmount })
  const made = booked(facts, { key, fill: report }, now)
  return { ...made, trade: { ...made.trade, receivedAt } }
}

function booked(
  facts: PurchaseFacts,
  { key, fill }: { key: string | null; fill: Fill },
  now: Instant,
): Booked {
  const { plan, executionId, trancheIndex } = facts
  const amount = upToCents(fill.usdAmount)
  const window = facts.window ?? closedOf(facts, now)
  const tranche = trancheOf(facts, { key, fill })
  const after = adjustSpent(window, { before: ZERO_USD, after: fill.usdAmount, reservation: amount })
  const execution: Execution = {
    executionId,
    planId: plan.planId,
    windowId: window.windowId,
    partnerUserId: plan.partnerUserId,
    partnerPlanId: plan.partnerPlanId,
    windowStart: window.start,
    trancheIndex,
    amount,
    firing: { trigger: RECORDED, slot: 0, units: 0, price: null, reference: null, reservationPrice: null },
    createdAt: now,
    deliveredCount: 0,
    leaseExpiresAt: null,
    status: fill.status,
    cancelledAt: null,
    cancelReason: null,
  }
  const trade = tradeOf(facts, execution, fill, now)
  const { market } = facts
  const odd = oddPrice(trade, { amounts: { usd: fill.usdAmount, btc: fill.btcAmount }, market })
  return {
    kind: 'booked',
    execution,
    window: after,
    isNewWindow: facts.window === null,
    schedule: movedOn(facts, { tranche, taken: (after.spent - window.spent) as Usd }, now),
    stillOpen: facts.openInWindow.find((one) => one.trancheIndex === tranche)?.executionId ?? null,
    trade,
    doubts: { odd, market, planCreatedAt: plan.createdAt },
  }
}

type Ordered = { key: string | null; fill: Pick<Fill, 'partnerOrderId'> }

/**
 * Which tranche of the window of its time a purchase was, by its key; null where that is not known, or of another
 * window. Throws usage for a key that is none of the plan's.
 */
function trancheOf({ plan, environment, window }: PurchaseFacts, { key, fill }: Ordered): number | null {
  const parts = keyParts(key ?? fill.partnerOrderId, { environment, partnerPlanId: plan.partnerPlanId })
  if (key !== null && parts === null)
    throw new Problem('usage', `${key} is not an idempotency key of plan ${plan.partnerPlanId}.`)
  const isOfWindow = window !== null && parts?.windowStart === formatInstant(window.start)
  return isOfWindow ? parts.trancheIndex : null
}

/**
 * Moves the plan's schedule past the tranche of a purchase, so that it is not delivered again under the key that has
 * its order, and past those after it whose orders were booked earlier. Only past the tranche that comes next: a key
 * that is left out is never given again, and for a purchase under it that is not booked yet, that key is all that keeps
 * the partner from buying twice.
 */
function movedOn(
  facts: PurchaseFacts,
  { tranche, taken }: { tranche: number | null; taken: Usd },
  now: Instant,
): Schedule | null {
  const { schedule, window, ordersBooked } = facts
  if (schedule === null || window === null || window.closed !== null) return null
  if (schedule.windowId !== window.windowId || schedule.trancheIndex !== tranche) return null
  const named = (partnerOrderId: string) => trancheOf(facts, { key: null, fill: { partnerOrderId } })
  const booked = new Set(ordersBooked.map(named))
  let next = tranche + 1
  while (booked.has(next)) next += 1
  return pastTranches(schedule, { next, taken }, now)
}

/** Whether a trade says the same of its order. What the operator leaves open does not matter. */
const isRecordedAs = ({ report }: Trade, fill: Fill): boolean =>
  isFill(report) &&
  report.usdAmount === fill.usdAmount &&
  report.btcAmount === fill.btcAmount &&
  (fill.partnerFee === null || fill.partnerFee === report.partnerFee) &&
  (fill.executedAt === null || fill.executedAt === report.executedAt)

/** An instruction is whole cents, and a purchase is at most its instruction. */
const upToCents = (amount: Usd): Usd => floorToCents((amount + CENT - 1n) as Usd)

/**
 * The window that the ledger lost, closed as it is opened: the next pass opens another one for what is left of the
 * cell, if that is not over.
 */
const closedOf = ({ plan, cell, windowId }: PurchaseFacts, now: Instant): Window =>
  close(opened(cell, { windowId, planId: plan.planId }), now, 'reset')
