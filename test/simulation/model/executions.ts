// The model's executions: handed out under a lease, confirmed once, and what is kept of reports that break a rule.

import { type Expected, ok, refused, refusedNaming } from './answer.ts'
import { keep } from './late-fills.ts'
import { settle } from './ledger.ts'
import {
  type Execution,
  idempotencyKey,
  isOpen,
  lastRecordedAt,
  presentOf,
  type Report,
  type State,
  type Tenant,
} from './state.ts'
import { dollars, HOUR, iso, MINUTE, units } from './units.ts'

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

/** Never delivered, its lease over, or a lease so long that the clock has been set back since. */
const isDue = (execution: Execution, now: number): boolean =>
  isOpen(execution) &&
  (execution.leasedUntil === null || execution.leasedUntil <= now || execution.leasedUntil > now + HOUR)

export function getDue(state: State, tenant: Tenant): Expected {
  const now = presentOf(state, tenant)
  const due = tenant.executions.filter((one) => isDue(one, now))
  due.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
  const handed = due.slice(0, POLL_MAX)
  for (const execution of handed) {
    execution.status = 'sent'
    execution.deliveries += 1
    execution.leasedUntil = now + LEASE
  }
  return { ...ok(handed.map(json)), dueRemaining: due.length - handed.length }
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

/** A confirmation without what its status ignores, rounded. */
export function reportOf(body: ConfirmBody): Report {
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

export const sameReport = (a: Report, b: Report): boolean =>
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
    // What was kept of it while it was pending tells of this very purchase.
    for (const one of late) if (sameReport(one.report, report)) one.decided = true
    return ok(answer)
  }
  if (isFill(report)) keep(state, execution, { report, reason: refusal.keptFor })
  return refusal.expected
}

/** What is answered, and what a purchase is kept for: whatever the rule, its report is not dropped. */
type Refusal = { expected: Expected; keptFor: string }

function refusalOf(execution: Execution, report: Report): Refusal | null {
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
export const holderOf = (execution: Execution, order: string): Execution | undefined =>
  execution.tenant.executions.find(
    (other) =>
      other !== execution &&
      (other.trade?.report.order === order || other.adjustments.some((one) => one.order === order)),
  )

/** When a trade or an adjustment is recorded: never before the one recorded last. */
export const recordingTime = (state: State, tenant: Tenant): number =>
  Math.max(presentOf(state, tenant), lastRecordedAt(state, tenant))

function record(state: State, execution: Execution, report: Report): void {
  const recordedAt = recordingTime(state, execution.tenant)
  // The first report of a purchase dates it, also where that was refused and kept.
  const first = execution.late.find((late) => sameReport(late.report, report))
  const executedAt = report.executedAt ?? (isFill(report) ? (first?.receivedAt ?? recordedAt) : null)
  execution.status = report.status
  execution.trade = { report, executedAt, recordedAt }
  settle(execution, report.usd)
}
