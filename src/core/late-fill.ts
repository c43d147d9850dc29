// Late fills, adjustments and purchases booked by hand: how an operator accepts a fill that was refused, corrects one
// that was recorded wrongly, and records a purchase that nobody confirmed.

import {
  type ExecutionFacts,
  FILL_BTC_MAX,
  FILL_PRICE_MAX,
  FILL_USD_MAX,
  type Fill,
  isFill,
  type LateFill,
  orderTaken,
  type Recorded,
  recordedAtOf,
  sameReport,
  type Trade,
  tradeOf,
} from './confirmation.ts'
import { type Execution, type ExecutionId, isOpen, keyParts, RECORDED } from './execution.ts'
import {
  averagePrice,
  type Btc,
  CENT,
  floorToCents,
  formatBtc,
  formatPrice,
  formatUsd,
  lesser,
  type Price,
  UNITS,
  type Usd,
  ZERO_USD,
} from './money.ts'
import type { Environment } from './partner.ts'
import type { Plan } from './plan.ts'
import { type OddPrice, oddPrice } from './price.ts'
import { notFound, Problem } from './problem.ts'
import { formatInstant, type Instant } from './time.ts'
import {
  adjustSpent,
  close,
  type Opening,
  opened,
  pastTranches,
  type Schedule,
  settle,
  type Window,
} from './window.ts'

// Adjustments: an entry of its own corrects a fill that was recorded wrongly. The trade itself never changes, and
// neither does the month it was recorded in.

/** The total of an execution: dollars spent and coins bought. */
export type Amounts = { usd: Usd; btc: Btc }

export type Adjustment = Amounts & {
  /** Counts up over all adjustments, in the order they were made. */
  adjustmentId: number
  executionId: ExecutionId
  reason: string
  recordedAt: Instant
  /** The late fill it was made of; null when an operator gave the amounts. */
  reportId: number | null
  /** The order id of a further purchase; null when the adjustment is about the order of the trade. */
  partnerOrderId: string | null
  /** The rest of that late fill's report; null without one, and for one accepted before these parts were stored. */
  fill: AdjustmentFill | null
}

/** What is known of the purchase besides its amounts. */
export type AdjustmentFill = {
  /** The difference from the order's fee so far; null when the report gives no fee. */
  partnerFee: Usd | null
  executionPrice: Price
  /** As reported, or when the report came. */
  executedAt: Instant
}

/** Every part of an adjustment, for hashing. Stored digests were computed from exactly this, so it never changes. */
export function adjustmentContent(adjustment: Adjustment): unknown[] {
  const { adjustmentId, executionId, usd, btc, reason, recordedAt, reportId, partnerOrderId, fill } =
    adjustment
  const worded = { adjustmentId, executionId, usd: `${usd}`, btc: `${btc}`, reason, recordedAt }
  // Adjustments with an operator's amounts are hashed as before other kinds existed.
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
  /** When the latest trade or adjustment of any execution was recorded. */
  latestRecordedAt: Instant | null
}

export type Correction = {
  window: Window
  adjustment: Adjustment
  before: Amounts
  after: Amounts
  /** What is wrong with the price of the fill at the new total; null if nothing is. */
  odd: OddPrice | null
}

/** The total of an execution after its adjustments. A report of failure starts at zero. */
export function amountsOf({ report }: Trade, adjustments: readonly Amounts[]): Amounts {
  const first = isFill(report)
    ? { usd: report.usdAmount, btc: report.btcAmount }
    : { usd: ZERO_USD, btc: 0n as Btc }
  return adjustments.reduce<Amounts>(
    (sum, step) => ({ usd: (sum.usd + step.usd) as Usd, btc: (sum.btc + step.btc) as Btc }),
    first,
  )
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
 * Which orders of its execution an adjustment is about. A further purchase is an order of its own. Amounts that an
 * operator gave after one are those of all orders together. Everything else is about the order of the trade. `earlier`
 * are the adjustments of the execution before this one.
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

/**
 * Brings an execution to the amounts `usd` and `btc`, by an adjustment of the difference. What is beyond its
 * reservation, or beyond what the window has left, becomes the window's excess. The adjustment is dated like a trade.
 */
function correct(
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
function refuseImpossible({ usd, btc }: Amounts): void {
  if (usd < 0n || btc < 0n) throw conflict('A fill is never negative.')
  if ((usd === 0n) !== (btc === 0n)) {
    throw conflict('A fill has both dollars and bitcoin, or neither: give 0 for both if nothing was bought.')
  }
  if (btc > FILL_BTC_MAX) throw conflict(`A fill is at most ${wholes(FILL_BTC_MAX)} BTC.`)
  if (usd > FILL_USD_MAX) throw conflict(`A fill is at most ${wholes(FILL_USD_MAX)} USD.`)
}

const wholes = (units: bigint): string => (units / UNITS).toLocaleString('en-US')

const conflict = (message: string): Problem => new Problem('adjustment_conflict', message)

export type LateFillFacts = ExecutionFacts & { adjustments: readonly Adjustment[]; latestId: number }

/** An execution without an outcome gets its trade; one that has a trade, which never changes, gets an adjustment. */
export type Acceptance = Recorded | ({ kind: 'adjusted' } & Correction)

/** An execution and the number of a late fill; null stands for the only undecided one, or for all of them. */
type LateFillIds = { executionId: string; reportId: number | null }

/** The late fill that an operator decides on, and the reason, if one was given. */
export type LateFillDecision = LateFillIds & { reason?: string | undefined }

/** Records a late fill. Throws execution_not_found, late_fill_conflict, order_id_taken, adjustment_conflict. */
export function acceptLate(facts: LateFillFacts, late: LateFill, now: Instant): Acceptance {
  const { execution, window, trade } = facts
  const { report, reportId } = late
  if (!execution || !window) throw notFound('execution')
  // An adjustment never changes, so it shows an acceptance even where the row of the late fill was damaged and does
  // not.
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

/** The window with the whole fill in it, taken from the reservation as far as that is still open. */
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
 * A late fill of an execution that already has its trade. With the order id of the trade, it restates that order; with
 * another one, it is a further purchase. An operator who adjusted after it arrived may have included it in the sum, so
 * adding it could bill it twice.
 */
function acceptBeside(facts: Recording, late: LateFill, now: Instant): Correction {
  const { trade, adjustments } = facts
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
    return correct(facts, { ...after, reason, reportId, partnerOrderId, fill: fillOf(late, null) }, now)
  }
  const isFurther = (one: Adjustment) => one.partnerOrderId !== null
  const further = adjustments.filter(isFurther)
  // An operator who adjusted after a further purchase gave one sum for all orders: the share of each is unknown.
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
  return correct(facts, { ...right, fill }, now)
}

/** The report without its amounts. One without a fee leaves the order's fee so far unchanged. */
const fillOf = ({ report, receivedAt }: LateFill, feeSoFar: Usd | null): AdjustmentFill => ({
  partnerFee: report.partnerFee === null ? null : ((report.partnerFee - (feeSoFar ?? 0n)) as Usd),
  executionPrice: report.executionPrice,
  executedAt: report.executedAt ?? receivedAt,
})

const plus = (a: { usd: Usd; btc: Btc }, b: { usd: Usd; btc: Btc }) => ({
  usd: (a.usd + b.usd) as Usd,
  btc: (a.btc + b.btc) as Btc,
})

const lateFillConflict = (message: string): Problem => new Problem('late_fill_conflict', message)

const undecidable = ({ report, reportId }: LateFill, why: string): Problem =>
  lateFillConflict(
    `Order ${report.partnerOrderId} ${why}: say with "trade adjust" what the execution comes to in all. If that is on record already, or only a fee differs, end report ${reportId} with "execution dismiss-late".`,
  )

/** The numbers of the undecided late fills. */
export const waiting = (late: readonly LateFill[]): number[] =>
  late.filter((one) => one.decidedAt === null).map(({ reportId }) => reportId)

/** The named late fill, or the only undecided one. Throws late_fill_not_found, late_fill_conflict. */
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

/** Several late fills are undecided and none was named; `remedy` says how to name one. */
export const severalWait = (executionId: string, late: readonly LateFill[], remedy: string): Problem =>
  lateFillConflict(
    `Execution ${executionId} has several late fills to decide on (${numbersOf(late)}): ${remedy}`,
  )

const numbersOf = (late: readonly LateFill[]): string => late.map(({ reportId }) => reportId).join(', ')

/**
 * The named undecided late fill, or all of them; the list may be empty where some were only `counted`. Throws
 * late_fill_not_found.
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

// Purchases that the ledger does not know, booked by an operator: as which execution, into which window, and when one
// is on record already.

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

/** The most reports kept of executions that the ledger does not know, for one tenant and not decided on. */
export const KEPT_UNKNOWN_MAX = 10_000

/** Tranche indexes of booked purchases begin here, so that no instruction of the scheduler has one of them. */
export const BOOKED_FROM = 1_000_000

/**
 * Books a purchase of a plan. What it spent is taken from what the window of its time has left, which the plan would
 * otherwise spend a second time; the rest is excess. `key` is the idempotency key under which it was ordered, where
 * that is known and not the order id itself. Throws order_id_taken, late_fill_conflict, usage.
 */
export function bookPurchase(
  facts: PurchaseFacts,
  { key = null, ...fill }: Fill & { key?: string | null },
  now: Instant,
): Booking {
  const { plan, holder, waiting } = facts
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
