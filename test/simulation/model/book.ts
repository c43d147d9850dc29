// The model's book: every confirmation that was accepted and every correction of one. Months, reports and exports are
// made of its entries and of nothing else.

import { isFill } from './executions.ts'
import type { Execution, Report, Tenant } from './state.ts'
import { coins, decimal, dollars, iso, isoOrNull } from './units.ts'

/** A purchase, a failure, or what is added to a purchase: amounts are null where nothing was bought. */
export type Entry = {
  recordedAt: number
  /** 0 for the confirmation itself, else the number of the correction. */
  number: number
  execution: Execution
  order: string
  status: Report['status'] | 'adjustment'
  usd: bigint | null
  btc: bigint | null
  price: bigint | null
  fee: bigint | null
  executedAt: number | null
  reason: string | null
}

/** What is in the book of an execution. */
export function entriesOf(execution: Execution): Entry[] {
  const { trade, adjustments } = execution
  if (!trade) return []
  const { report, executedAt, recordedAt } = trade
  const { order, status, usd, btc, price, fee, reason } = report
  const bought = isFill(report) ? { usd, btc, price, fee } : { usd: null, btc: null, price: null, fee: null }
  const first: Entry = { recordedAt, number: 0, execution, order, status, ...bought, executedAt, reason }
  const corrections = adjustments.map(
    (one): Entry => ({ ...one, execution, order: one.order ?? order, status: 'adjustment' }),
  )
  return [first, ...corrections]
}

/** Half-open: an entry of the very end is one of the next span. */
export type Span = { start: number; until: number }

/** The entries that belong to a span: those recorded in it, whatever day they speak of. In the order of recording. */
export function entriesWithin(executions: readonly Execution[], { start, until }: Span): Entry[] {
  return executions
    .flatMap(entriesOf)
    .filter(({ recordedAt }) => start <= recordedAt && recordedAt < until)
    .sort((a, b) => a.recordedAt - b.recordedAt || byId(a, b) || a.number - b.number)
}

const byId = ({ execution: { id: a } }: Entry, { execution: { id: b } }: Entry): number =>
  a < b ? -1 : a > b ? 1 : 0

const orNull = (amount: bigint | null, text: (amount: bigint) => string): string | null =>
  amount === null ? null : text(amount)

/** An entry as the exports and the API show it, but for whose it is. */
export const entryJson = (entry: Entry) => ({
  recorded_at: iso(entry.recordedAt),
  partner_user_id: entry.execution.plan.user.id,
  partner_plan_id: entry.execution.plan.id,
  execution_id: entry.execution.id,
  partner_order_id: entry.order,
  status: entry.status,
  usd_amount: orNull(entry.usd, dollars),
  btc_amount: orNull(entry.btc, coins),
  execution_price: orNull(entry.price, (amount) => decimal(amount, 2)),
  partner_fee_usd: orNull(entry.fee, dollars),
  executed_at: isoOrNull(entry.executedAt),
  failure_reason: entry.reason,
})

/** Whose it is. */
export const ownerJson = ({ partner, environment }: Tenant) => ({ partner_slug: partner.slug, environment })
