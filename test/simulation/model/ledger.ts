// The model's windows: a budget, and the state of every dollar of it.

import type { Terms } from '../action.ts'
import { Difference } from '../observed.ts'
import { type Expected, ok, refused, refusedNaming } from './calls.ts'
import { audit, type Refusal } from './levers.ts'
import {
  type Adjustment,
  CENT,
  currentWindow,
  dollars,
  type Execution,
  HOUR,
  idempotencyKey,
  isOpen,
  iso,
  type Late,
  lastRecordedAt,
  least,
  MINUTE,
  type Order,
  type Plan,
  presentOf,
  type Report,
  type State,
  type Tenant,
  type Timing,
  units,
  type Window,
} from './state.ts'

export const leftOf = ({ budget, reserved, spent }: Window): bigint => budget - reserved - spent

/** Opens a window: checked from its first instant on. */
export function open(plan: Plan, { start, end, budget }: Pick<Window, 'start' | 'end' | 'budget'>): Timing {
  const nothing = { reserved: 0n, spent: 0n, excess: 0n, released: 0n, closed: null }
  const window: Window = { start, end, budget, ...nothing }
  plan.windows.push(window)
  const unfired = { index: 0, cut: null, slot: -1, reference: null, limit: null, clock: null, extras: 3 }
  const floor = least(plan.tenant.partner.minTranche, budget)
  plan.timing = { window, floor, ...unfired, nextRun: start, nextExtra: start }
  return plan.timing
}

/** Closes the current window, if there is one: the rest of its budget is released. */
export function close(plan: Plan, at: number, reason: 'ended' | 'reset' | 'cancelled'): void {
  const window = currentWindow(plan)
  plan.timing = null
  if (!window) return
  window.released = leftOf(window)
  window.closed = { at, reason }
}

/** Returns money to a window: it covers an excess first. */
function giveBack(window: Window, amount: bigint): void {
  const covered = least(amount, window.excess)
  window.excess -= covered
  window.spent += covered
  if (window.closed) window.released += amount - covered
}

/** Ends a reservation, of which `spent` was used. */
export function settle({ window, amount }: Execution, spent: bigint): void {
  window.reserved -= amount
  window.spent += spent
  giveBack(window, amount - spent)
}

/**
 * Changes the total of an execution without a reservation. An increase comes out of the window's rest, as far as that
 * and the execution's own amount go, and is excess beyond; a decrease takes the excess away first.
 */
export function change({ window, amount }: Execution, before: bigint, after: bigint): void {
  if (after < before) {
    const less = before - after
    const covered = least(less, window.excess)
    window.excess -= covered
    window.spent -= less - covered
    if (window.closed) window.released += less - covered
    return
  }
  const inside = least(after, amount) - least(before, amount)
  const left = window.closed ? window.released : leftOf(window)
  const taken = least(inside, left)
  window.spent += taken
  window.excess += after - before - taken
  if (window.closed) window.released -= taken
}

/** Ends the open executions of a plan, by a cancel or a disable. Answers their number. */
export function cancelOpen(plan: Plan, now: number): number {
  const ended = plan.executions.filter(isOpen)
  for (const execution of ended) {
    settle(execution, 0n)
    execution.status = 'cancelled'
    execution.cancelledAt = now
  }
  return ended.length
}

// The model's executions: delivered under a lease, confirmed once, with the reports that break a rule stored.

const LEASE = 5 * MINUTE
const POLL_MAX = 500

export type ConfirmBody = {
  partner_order_id: string
  status: Report['status']
  executed_at?: string | null
  usd_amount?: string
  btc_amount?: string
  execution_price?: string
  partner_fee_usd?: string | null
  failure_reason?: string | null
}

/** The most undelivered executions that a poll counts. */
const REMAINING_MAX = 1_000

/** Never delivered, its lease over, or a lease so long that the clock has been set back since. */
const isDue = (execution: Execution, now: number): boolean =>
  isOpen(execution) &&
  (execution.leasedUntil === null || execution.leasedUntil <= now || execution.leasedUntil > now + HOUR)

export function getDue(state: State, tenant: Tenant): Expected {
  const now = presentOf(state, tenant)
  const due = tenant.executions.filter((one) => isDue(one, now))
  // First the redelivered ones, by the end of their lease, then the new ones, by their creation.
  const place = ({ leasedUntil, createdAt }: Execution) =>
    [leasedUntil === null ? 1 : 0, leasedUntil ?? createdAt] as const
  due.sort((a, b) => {
    const [[isNew, at], [isNewToo, atToo]] = [place(a), place(b)]
    return isNew - isNewToo || at - atToo || (a.id < b.id ? -1 : 1)
  })
  const handed = due.slice(0, POLL_MAX)
  for (const execution of handed) {
    execution.status = 'sent'
    execution.deliveries += 1
    execution.leasedUntil = now + LEASE
  }
  return { ...ok(handed.map(json)), dueRemaining: Math.min(due.length - handed.length, REMAINING_MAX) }
}

const json = (execution: Execution) => ({
  execution_id: execution.id,
  partner_slug: execution.tenant.partner.slug,
  partner_user_id: execution.plan.user.id,
  partner_plan_id: execution.plan.id,
  side: 'buy',
  asset: 'BTC',
  spend_currency: 'USD',
  amount_usd: dollars(execution.amount),
  reason: 'smart_timing',
  idempotency_key: idempotencyKey(execution),
  created_at: iso(execution.createdAt),
  lease_expires_at: iso(execution.leasedUntil ?? 0),
  delivered_count: execution.deliveries,
})

export const isFill = ({ status }: Pick<Report, 'status'>): boolean =>
  status === 'filled' || status === 'partial'

/** A confirmation without the fields that its status ignores, rounded. */
function reportOf(body: ConfirmBody): Report {
  const fill = isFill(body)
  return {
    order: body.partner_order_id,
    status: body.status,
    executedAt: typeof body.executed_at === 'string' ? Date.parse(body.executed_at) : null,
    usd: fill ? units(body.usd_amount ?? '') : 0n,
    btc: fill ? units(body.btc_amount ?? '') : 0n,
    price: fill ? units(body.execution_price ?? '') : 0n,
    fee: fill && typeof body.partner_fee_usd === 'string' ? units(body.partner_fee_usd) : null,
    reason: fill ? null : body.failure_reason || null,
  }
}

const sameReport = (a: Report, b: Report): boolean =>
  (['order', 'status', 'executedAt', 'usd', 'btc', 'price', 'fee', 'reason'] as const).every(
    (name) => a[name] === b[name],
  )

export function confirm(state: State, tenant: Tenant, id: string, body: ConfirmBody): Expected {
  const execution = tenant.executions.find((one) => one.id === id)
  if (!execution) return refused(404, 'Execution not found.')
  const report = reportOf(body)
  const answer = { ok: true, execution_id: id, status: report.status, partner_order_id: report.order }
  const { trade, late } = execution
  const isReplay =
    (trade && sameReport(trade.report, report)) ||
    late.some((one) => one.accepted && sameReport(one.report, report))
  if (isReplay) return ok({ ...answer, replayed: true })
  const refusal = refusalOf(execution, report)
  if (!refusal) {
    record(state, execution, report)
    // A report stored while it was pending is about this very purchase.
    for (const one of late) if (sameReport(one.report, report)) one.decided = true
    return ok(answer)
  }
  if (isFill(report)) keep(state, execution, { report, reason: refusal.keptFor })
  return refusal.expected
}

/** The answer, and the reason for storing a purchase: whatever the rule, its report is not dropped. */
type RefusedReport = { expected: Expected; keptFor: string }

function refusalOf(execution: Execution, report: Report): RefusedReport | null {
  const { trade, status } = execution
  if (trade) {
    const expected = refusedNaming(409, trade.report.status, trade.report.order)
    return { expected, keptFor: 'execution_recorded' }
  }
  if (status === 'pending') {
    const expected = refusedNaming(409, 'cannot be confirmed while pending', 'poll')
    return { expected, keptFor: 'execution_pending' }
  }
  if (status === 'cancelled') {
    const expected = refusedNaming(409, execution.id, 'cancelled before it was confirmed')
    return { expected, keptFor: 'execution_cancelled' }
  }
  const holder = holderOf(execution, report.order)
  if (holder) return { expected: refusedNaming(409, report.order, holder.id), keptFor: 'order_id_taken' }
  if (report.usd > execution.amount) {
    const expected = refusedNaming(400, dollars(execution.amount), dollars(report.usd))
    return { expected, keptFor: 'amount_over_reservation' }
  }
  return null
}

/** The other execution of the tenant that holds an order. */
const holderOf = (execution: Execution, order: string): Execution | undefined =>
  execution.tenant.executions.find(
    (other) =>
      other !== execution &&
      (other.trade?.report.order === order || other.adjustments.some((one) => one.order === order)),
  )

/** The time at which a trade or an adjustment is recorded: never before the latest recorded one. */
export const recordingTime = (state: State, tenant: Tenant): number =>
  Math.max(presentOf(state, tenant), lastRecordedAt(state, tenant))

function record(state: State, execution: Execution, report: Report): void {
  const recordedAt = recordingTime(state, execution.tenant)
  // The first report of a purchase dates it, even if it was refused and stored.
  const first = execution.late.find((late) => sameReport(late.report, report))
  const executedAt = report.executedAt ?? (isFill(report) ? (first?.receivedAt ?? recordedAt) : null)
  execution.status = report.status
  execution.trade = { report, executedAt, recordedAt }
  settle(execution, report.usd)
}

// The model's late fills: refused reports of a purchase. None is dropped, and an operator decides on each.

const KEPT_MAX = 20

/** Stores a report, once: the first reports of an execution, and the number of further ones. */
function keep(
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

/** The late fill that was named, or the only undecided one. */
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
  // Only an equal report of the order is settled by it.
  for (const one of execution.late)
    if (one === late || saysTheSame(one.report, late.report)) one.decided = true
  return audit(state)
}

/** The time of a purchase, as far as anybody knows: its own, or that of its report. */
const boughtAt = ({ report, receivedAt }: Late): number => report.executedAt ?? receivedAt

/** Makes it the trade that the execution lacks. */
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

/** Beside a trade: a correction of its order, or a further purchase. */
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

/**
 * Another order. The orders in an operator's own sum are unknown: only a sum from before the report leaves it out, and
 * since the clock may go back, only a report that still waits came after it.
 */
function acceptFurther(state: State, execution: Execution, late: Late): Refusal {
  const { report, receivedAt, decided } = late
  const isCounted = execution.adjustments.some(
    ({ order, lateNumber, recordedAt }) =>
      order === report.order || (lateNumber === null && (decided || recordedAt >= receivedAt)),
  )
  if (isCounted) return 'late_fill_conflict'
  const { usd, btc } = amountsOf(execution)
  const to = { usd: usd + report.usd, btc: btc + report.btc }
  return correct(state, execution, to, { ...originOf(late, report.fee), order: report.order })
}

/** A correction of the recorded order: the difference to the earlier report is added, in the fee as in the amounts. */
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

/** Settles a late fill, or all of an execution, without recording it. */
export function dismissLate(state: State, execution: Execution, number: number | null): Refusal {
  const late = execution.late.filter((one) => !one.decided && (number === null || one.number === number))
  if (late.length === 0) return 'late_fill_not_found'
  for (const one of late) one.decided = true
  if (number === null) execution.uncounted = 0
  return audit(state)
}

// The model's corrections: an operator's additions to a trade, dated when they are made.

type Amounts = { usd: bigint; btc: bigint }

/** Dollars and coins of an execution, its adjustments included. */
function amountsOf({ trade, adjustments }: Execution): Amounts {
  const sum = { usd: trade?.report.usd ?? 0n, btc: trade?.report.btc ?? 0n }
  for (const one of adjustments) {
    sum.usd += one.usd
    sum.btc += one.btc
  }
  return sum
}

export const isImpossible = ({ usd, btc }: Amounts): boolean =>
  usd < 0n || btc < 0n || (usd === 0n) !== (btc === 0n) || usd > 10n ** 17n || btc > 21n * 10n ** 14n

/** The source of a correction, and the parts of it that are shown beside the difference. */
type Origin = Pick<Adjustment, 'reason' | 'lateNumber' | 'order' | 'price' | 'fee' | 'executedAt'>

/** Brings an execution to these amounts, by an entry of the difference. */
function correct(state: State, execution: Execution, to: Amounts, origin: Origin): Refusal {
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

/** An operator's own figures settle every report that waits for a decision. */
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

// A partner's account at its venue, for both of its environments: the venue refuses a second order under a known id,
// and answers with the first. A sale stays, whatever becomes of the database.

/** The id under which an order is placed, as the guide tells partners (docs/api.md). */
const clientOrderId = (execution: Execution): string =>
  `${execution.tenant.environment}:${idempotencyKey(execution)}`

/** The order that the venue has under the instruction's id, or a new one. */
export function orderFor(state: State, execution: Execution, terms: Terms): { id: string; order: Order } {
  const { partner, name } = execution.tenant
  const id = clientOrderId(execution)
  const order = state.venues.get(partner.slug)?.get(id) ?? {
    id: `venue ${id}`,
    tenant: name,
    execution: execution.id,
    restores: state.restores,
    ...terms,
    at: presentOf(state, execution.tenant),
  }
  return { id, order }
}

/**
 * Places the order of an instruction, and answers the venue's order under its id. The order is for this instruction, or
 * for one that a restored database has forgotten: else no order was ever placed for this one.
 */
export function place(state: State, execution: Execution, terms: Terms): Order {
  const { id, order } = orderFor(state, execution, terms)
  const { partner, name } = execution.tenant
  const isForgotten = order.tenant === name && order.restores < state.restores
  if (order.execution !== execution.id && !isForgotten) {
    const other = `${order.tenant} ${order.execution}`
    throw new Difference(
      `${name} ${execution.id} is confirmed by the order ${id} of ${other}: nothing was bought for it`,
    )
  }
  const venue = state.venues.get(partner.slug) ?? new Map<string, Order>()
  state.venues.set(partner.slug, venue.set(id, order))
  return order
}

/** The report of an order, equal each time. */
export const reportOfOrder = ({ id, usd, btc, price, fee, at }: Order): ConfirmBody => ({
  partner_order_id: id,
  status: 'filled',
  usd_amount: usd,
  btc_amount: btc,
  execution_price: price,
  ...(fee !== null && { partner_fee_usd: fee }),
  executed_at: iso(at),
})

// The contract's invariants, checked on the model itself: an error that it shares with the program shows here.

export function assertSound(state: State): void {
  const keys = new Set<string>()
  const orders = new Set<string>()
  const unlike = (known: Set<string>, what: string, key: string) => {
    if (known.has(key)) throw new Difference(`${what} twice: ${key}`)
    known.add(key)
  }
  for (const { tenant, plan, index, windowStart, window, trade, amount } of state.executions) {
    unlike(keys, 'an idempotency key', `${tenant.name} ${plan.id}:${windowStart}:${index}`)
    if (trade) unlike(orders, 'an order', `${tenant.name} ${trade.report.order}`)
    if (amount <= 0n || amount % CENT !== 0n)
      throw new Difference(`a tranche of ${amount} of plan ${plan.id}`)
    if (window.start !== windowStart) throw new Difference(`an execution outside its window: plan ${plan.id}`)
  }
  for (const { id, windows } of state.plans) {
    for (const { budget, reserved, spent, released, closed } of windows) {
      const claimed = reserved + spent + released
      const isRight = reserved >= 0n && spent >= 0n && (closed ? claimed === budget : claimed <= budget)
      if (!isRight) throw new Difference(`plan ${id}: ${reserved} + ${spent} + ${released} of ${budget}`)
    }
  }
}
