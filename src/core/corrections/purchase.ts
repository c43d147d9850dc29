// Purchases that the ledger lacks, booked by an operator: the execution and the window they go to, and how an earlier
// record of them is found.

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
import { Problem, usage } from '../problem.ts'
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

/** A purchase as the operator enters it. Without a time it counts as made when it is booked. */
export type Purchase = {
  partnerOrderId: string
  usd: Usd
  btc: Btc
  partnerFee: Usd | null
  executedAt: Instant | null
}

/** A purchase as a fill, at the price given by its amounts. Throws adjustment_conflict for impossible amounts. */
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
  /** The holder of its order; `trade` is null where the order is a further purchase of the execution. */
  holder: { execution: Execution; trade: Trade | null } | null
  /** A fill of the plan with the same amounts under another order, made within TWIN_MS of it. */
  twin: { executionId: string; partnerOrderId: string; at: Instant } | null
  waiting: readonly { executionId: string; reportId: number }[]
  environment: Environment
  /** The schedule of the plan's current window; null when there is none. */
  schedule: Schedule | null
  ordersBooked: readonly string[]
  /** The executions of `window` that wait for a confirmation. */
  openInWindow: readonly { executionId: string; trancheIndex: number }[]
  /** The plan's window at the time of the purchase; null when the ledger has none. */
  window: Window | null
  cell: Opening
  windowId: number
  executionId: ExecutionId
  trancheIndex: number
  latestRecordedAt: Instant | null
  /** The market price at that time; null when it is unknown. */
  market: Price | null
}

export type Booking = { kind: 'known'; execution: Execution; trade: Trade } | Booked
export type Booked = {
  kind: 'booked'
  execution: Execution
  window: Window
  isNewWindow: boolean
  /** The plan's schedule past the purchase, when that was the tranche due next; else null. */
  schedule: Schedule | null
  /** The execution with the purchase's key that waits for a confirmation, which would now be refused. */
  stillOpen: string | null
  trade: Trade
  /** Facts that the operator should look at; the purchase is booked all the same. */
  doubts: { odd: OddPrice | null; market: Price | null; planCreatedAt: Instant }
}

/** Two purchases of a plan with equal amounts this close together are probably one, with its id spelled in two ways. */
export const TWIN_MS = DAY_MS

/** The most undecided reports kept for a tenant about executions that the ledger lacks. */
export const KEPT_UNKNOWN_MAX = 10_000

/** Booked purchases get tranche indexes from here on, which the scheduler never reaches. */
export const BOOKED_FROM = 1_000_000

/**
 * Books a purchase of a plan. Its dollars come out of what the window of its time has left, so that the plan does not
 * spend them again; the rest is excess. `key` is the idempotency key it was ordered under, where that is known and
 * differs from the order id. `isTwin` means that the operator knows the twin and books the purchase all the same.
 * Throws order_id_taken, late_fill_conflict, purchase_twin, usage.
 */
export function bookPurchase(
  facts: PurchaseFacts,
  { key = null, isTwin = false, ...fill }: Fill & { key?: string | null; isTwin?: boolean },
  now: Instant,
): Booking {
  const { plan, holder, twin, waiting } = facts
  if (fill.executedAt !== null && fill.executedAt > now)
    throw usage('A purchase that lies in the future cannot be recorded.')
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

/** Books a report of an execution that the ledger lacks. Throws order_id_taken, adjustment_conflict, usage. */
export function acceptUnknown(
  facts: PurchaseFacts,
  { report, receivedAt, key = null }: Pick<LateFill, 'report' | 'receivedAt'> & { key?: string | null },
  now: Instant,
): Booked {
  const taken = orderTaken(facts.holder?.execution.executionId ?? null, report)
  if (taken) throw taken
  refuseImpossible({ usd: report.usdAmount, btc: report.btcAmount })
  const booking = booked(facts, { key, fill: report }, now)
  return { ...booking, trade: { ...booking.trade, receivedAt } }
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

/** The tranche of the window that a key names; null for none. Throws usage for a key of another plan. */
function trancheOf({ plan, environment, window }: PurchaseFacts, { key, fill }: Ordered): number | null {
  const parts = keyParts(key ?? fill.partnerOrderId, { environment, partnerPlanId: plan.partnerPlanId })
  if (key !== null && parts === null)
    throw usage(`${key} is not an idempotency key of plan ${plan.partnerPlanId}.`)
  const isOfWindow = window !== null && parts?.windowStart === formatInstant(window.start)
  return isOfWindow ? parts.trancheIndex : null
}

/**
 * Moves the plan's schedule past the tranche of a purchase, so that it is not delivered again under the key of that
 * order, and past later tranches whose orders were booked before. It moves only if the purchase was the next tranche. A
 * skipped key is never used again, and a purchase under it that is not booked yet needs that key to keep the partner
 * from buying twice.
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

/** Whether a trade records the same order. Fields that the operator left out are not compared. */
const isRecordedAs = ({ report }: Trade, fill: Fill): boolean =>
  isFill(report) &&
  report.usdAmount === fill.usdAmount &&
  report.btcAmount === fill.btcAmount &&
  (fill.partnerFee === null || fill.partnerFee === report.partnerFee) &&
  (fill.executedAt === null || fill.executedAt === report.executedAt)

/** Rounds up to cents: an instruction is whole cents, and a purchase is at most its instruction. */
const upToCents = (amount: Usd): Usd => floorToCents((amount + CENT - 1n) as Usd)

/** A window that the ledger lost, opened and closed: the next pass opens one for what is left of its cell. */
const closedOf = ({ plan, cell, windowId }: PurchaseFacts, now: Instant): Window =>
  close(opened(cell, { windowId, planId: plan.planId }), now, 'reset')
