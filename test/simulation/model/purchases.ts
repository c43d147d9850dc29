// The model's purchases that the ledger did not know, booked by an operator; and the warnings to a clerk who credits an
// invoice.

import type { CreditSeen } from '../observed.ts'
import { change, isFill, isImpossible, recordingTime } from './ledger.ts'
import { audit, type Refusal } from './levers.ts'
import { bill, fix } from './months.ts'
import {
  CENT,
  DAY,
  dollars,
  type Execution,
  halfEven,
  monthBounds,
  monthOf,
  type Plan,
  presentOf,
  type Report,
  type State,
  type Tenant,
  UNIT,
  units,
  untouched,
  WINDOW_LENGTH,
  type Window,
} from './state.ts'

export type PurchaseTerms = {
  tenant: string
  plan: string
  order: string
  usd: string
  btc: string
  fee: string | null
  /** Null for a purchase at the time of its booking. */
  at: string | null
  yes: boolean
}

const PRICE_MAX = 50_000_000n * UNIT
/** The first tranche number of booked purchases. */
const BOOKED_FROM = 1_000_000

export function recordPurchase(state: State, tenant: Tenant, terms: PurchaseTerms): Refusal {
  const [usd, btc] = [units(terms.usd), units(terms.btc)]
  if (isImpossible({ usd, btc }) || usd === 0n) return 'adjustment_conflict'
  const price = halfEven(usd * UNIT, btc)
  if (price === 0n || price > PRICE_MAX) return 'adjustment_conflict'
  const plan = tenant.plans.get(terms.plan)
  if (!plan) return 'plan_not_found'
  const now = presentOf(state, tenant)
  const executedAt = terms.at === null ? null : Date.parse(terms.at)
  if (executedAt !== null && executedAt > now) return 'usage'
  const fee = terms.fee === null ? null : units(terms.fee)
  const bought = { usd, btc, price, fee }
  const report: Report = { order: terms.order, status: 'filled', executedAt, ...bought, reason: null }
  const holder = tenant.executions.find(
    ({ trade, adjustments }) =>
      trade?.report.order === report.order || adjustments.some(({ order }) => order === report.order),
  )
  if (holder) return isRecordedAs(holder, plan, report) ? null : 'order_id_taken'
  const waits = tenant.executions.some(({ late }) =>
    late.some(({ decided, report: { order } }) => !decided && order === report.order),
  )
  if (waits) return 'late_fill_conflict'
  const at = executedAt ?? now
  if (!terms.yes && hasTwin(plan, report, at)) return 'purchase_twin'
  const window = windowOf(plan, at) ?? lostWindow(plan, at, now)
  const used = plan.executions.filter((one) => one.windowStart === window.start).map(({ index }) => index)
  const execution: Execution = {
    ...untouched(),
    tenant,
    plan,
    window,
    index: Math.max(BOOKED_FROM, ...used.map((index) => index + 1)),
    windowStart: window.start,
    amount: ((usd + CENT - 1n) / CENT) * CENT,
    trigger: 'recorded',
    createdAt: now,
    status: 'filled',
  }
  change(execution, 0n, usd)
  const recordedAt = recordingTime(state, tenant)
  execution.trade = { report, executedAt: executedAt ?? recordedAt, recordedAt }
  for (const { executions } of [plan, tenant, state]) executions.push(execution)
  return audit(state)
}

/** Fields that the operator leaves out match anything. */
const isRecordedAs = ({ trade, plan: of }: Execution, plan: Plan, report: Report): boolean =>
  trade !== null &&
  of === plan &&
  trade.report.order === report.order &&
  isFill(trade.report) &&
  trade.report.usd === report.usd &&
  trade.report.btc === report.btc &&
  (report.fee === null || report.fee === trade.report.fee) &&
  (report.executedAt === null || report.executedAt === trade.report.executedAt)

/** An equal purchase of the plan within a day: probably the same one, under two spellings of its order. */
const hasTwin = (plan: Plan, { usd, btc }: Report, at: number): boolean =>
  plan.executions.some(
    ({ trade }) =>
      trade?.report.usd === usd &&
      trade.report.btc === btc &&
      Math.abs((trade.executedAt ?? trade.recordedAt) - at) <= DAY,
  )

const latestOf = (windows: readonly Window[]): Window | null =>
  windows.reduce<Window | null>((last, one) => (last && last.start > one.start ? last : one), null)

/** The cell of the plan's latest grid that contains a time. */
function cellOf({ windows, startDate, frequency }: Plan, at: number): { start: number; end: number } {
  const length = WINDOW_LENGTH[frequency]
  const grid = latestOf(windows)?.end ?? startDate
  const start = grid + Math.floor((at - grid) / length) * length
  return { start, end: start + length }
}

/** The window of a time, else the last one that began in its cell. */
function windowOf(plan: Plan, at: number): Window | null {
  const cell = cellOf(plan, at)
  const around = plan.windows.filter(({ start, end }) => start <= at && at < end)
  const within = plan.windows.filter(({ start }) => cell.start <= start && start < cell.end)
  return latestOf(around) ?? latestOf(within)
}

/** A window that the ledger does not have: it is over as it begins, with all of its budget released. */
function lostWindow(plan: Plan, at: number, now: number): Window {
  const amounts = { budget: plan.amount, reserved: 0n, spent: 0n, excess: 0n, released: plan.amount }
  const window: Window = { ...cellOf(plan, at), ...amounts, closed: { at: now, reason: 'reset' } }
  plan.windows.push(window)
  return window
}

/** The refusal and the warning to a clerk who credits the invoice of a month; null where nothing is owed. */
export function credit(state: State, slug: string, month: string): CreditSeen {
  // In a copy of the database: months are closed only there.
  const copy = structuredClone(state)
  const period = fix(copy, month)
  if (!period.final) return { refused: 'invoice_conflict', lowered: null }
  const tenant = copy.tenants.get(`${slug}/live`)
  if (!tenant || bill(copy, tenant, period).fees.total === 0n) return { refused: null, lowered: null }
  if (state.frozen) return { refused: 'database_frozen', lowered: null }
  const { start, end } = monthBounds(month)
  const lowered = new Map<string, bigint>()
  const later = tenant.executions
    .filter(({ trade }) => trade && start <= trade.recordedAt && trade.recordedAt < end)
    .flatMap(({ adjustments }) => adjustments)
    .filter(({ recordedAt, usd }) => recordedAt >= end && usd < 0n)
  for (const { recordedAt, usd } of later)
    lowered.set(monthOf(recordedAt), (lowered.get(monthOf(recordedAt)) ?? 0n) - usd)
  const months = [...lowered].sort(([a], [b]) => (a < b ? -1 : 1))
  return { refused: null, lowered: months.map(([later, usd]) => [later, dollars(usd)]) }
}
