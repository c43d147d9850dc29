// The model's months: when they are over, and what they come to.

import { type Entry, entriesWithin } from './book.ts'
import { lastRecordedAt, presentOf, type Report, type State, type Tenant } from './state.ts'
import { type Charged, type Fees, feesFor, NO_FEES, sharesOf, tierFor } from './tariff.ts'
import { coins, decimal, dollars, halfEven, iso, MINUTE, monthBounds, UNIT } from './units.ts'

/** What a report of a month covers: up to its end, or up to now. */
export type Period = { month: string; start: number; until: number; final: boolean }

/**
 * Fixes what a report covers. A month is final once something else has been recorded since its end. A tenant that lives
 * apart closes its months for itself alone.
 */
export function fix(state: State, month: string, asking: Tenant | null = null): Period {
  const { start, end } = monthBounds(month)
  // Nothing is dated in a month after one that came later was closed.
  if ([...state.closedMonths].some((closed) => closed >= month))
    return { month, start, until: end, final: true }
  const now = presentOf(state, asking)
  const bounded = asking?.apart ?? state
  const report = (at: number) => {
    bounded.reportedUntil = Math.max(bounded.reportedUntil, at)
  }
  if (now >= end) {
    const known = reached(state, asking)
    const final = known >= end
    if (final && asking?.apart) report(end)
    else if (final) {
      const empty = monthBefore(Math.min(...[...state.partners.values()].map(({ createdAt }) => createdAt)))
      const together = empty > month && monthBounds(empty).end <= Math.min(now, known)
      const closed = together ? empty : month
      state.closedMonths.add(closed)
      report(monthBounds(closed).end)
    }
    return { month, start, until: end, final }
  }
  const soFar = lastRecordedAt(state, asking) + 1
  // What was recorded this very instant is in it; a clock that was far ahead takes nothing along.
  const held = now < soFar && soFar - now <= 10 * MINUTE
  if (held) report(soFar)
  return { month, start, until: Math.min(end, Math.max(held ? soFar : now, start)), final: false }
}

/** The last month before anybody was there; the first there is for nobody. */
function monthBefore(at: number): string {
  if (at === Number.POSITIVE_INFINITY) return ''
  return iso(monthBounds(iso(at).slice(0, 7)).start - 1).slice(0, 7)
}

function reached(state: State, asking: Tenant | null): number {
  const { dispute, passes, audits } = state
  if (dispute) return 0
  const pass = passes.findLast(({ finished }) => finished)?.at ?? 0
  const noted = Math.max(pass, audits.at(-1) ?? 0)
  // The reports of one that lives apart say nothing of how far time has come.
  if (asking?.apart) return Math.max(noted, asking.apart.reportedUntil)
  return Math.max(noted, lastRecordedAt(state, null))
}

type Sums = { trades: number; usd: bigint; btc: bigint; fees: bigint }
export type UserLine = Sums & { id: string; fee: bigint }

export type Bill = Charged & {
  tenant: Tenant
  period: Period
  plans: number
  created: number
  outcomes: Record<Report['status'], number>
  sums: Sums
  fees: Fees
  users: UserLine[]
}

const isFill = (status: Entry['status']): boolean => status === 'filled' || status === 'partial'

const nothing = (): Sums => ({ trades: 0, usd: 0n, btc: 0n, fees: 0n })

/** A fill is a trade; a correction is none, but its amounts and its fee count. */
function enter(sums: Sums, { status, usd, btc, fee }: Entry): void {
  if (isFill(status)) sums.trades += 1
  sums.usd += usd ?? 0n
  sums.btc += btc ?? 0n
  sums.fees += fee ?? 0n
}

/** What a tenant's month comes to: of entries in its book, by when they were recorded. */
export function bill(state: State, tenant: Tenant, period: Period): Bill {
  const entries = entriesWithin(tenant.executions, period)
  const sums = nothing()
  const users = new Map<string, UserLine>()
  const plans = new Set<string>()
  const outcomes = { filled: 0, partial: 0, failed: 0, cancelled: 0 }
  for (const entry of entries) {
    const { plan } = entry.execution
    if (entry.status !== 'adjustment') outcomes[entry.status] += 1
    if (entry.usd === null) continue
    const id = plan.user.id
    const user = users.get(id) ?? { id, ...nothing(), fee: 0n }
    users.set(id, user)
    enter(sums, entry)
    enter(user, entry)
    if (isFill(entry.status)) plans.add(plan.id)
  }
  const isWithin = (at: number) => period.start <= at && at < period.until
  outcomes.cancelled += tenant.executions.filter(({ cancelledAt: at }) => at !== null && isWithin(at)).length
  const created = tenant.executions.filter(({ createdAt }) => isWithin(createdAt)).length
  const lines = [...users.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  const of = { slug: tenant.partner.slug, month: period.month, volume: sums.usd }
  const charged = { ...tierFor(state, of), tenant, period, plans: plans.size, created, outcomes, sums }
  return { ...charged, ...chargedTo(lines, charged) }
}

/** The fees of a month, and each user's share. A test environment costs nothing, and a month before its partner. */
function chargedTo(
  users: UserLine[],
  { tenant, period, tier, sums }: Pick<Bill, 'tenant' | 'period' | 'tier' | 'sums'>,
): Pick<Bill, 'fees' | 'users'> {
  const hasBegun = period.until > period.start
  const isThere = tenant.partner.createdAt < monthBounds(period.month).end
  const isBillable = tenant.environment === 'live' && hasBegun && isThere
  const fees = isBillable ? feesFor(tier, sums.usd, users.filter(({ trades }) => trades > 0).length) : NO_FEES
  const parts = users.map(({ usd, trades }) => ({ volume: usd, isActive: trades > 0 }))
  const shares = sharesOf(fees.total, parts, tier)
  for (const [at, user] of users.entries()) user.fee = shares[at] ?? 0n
  return { fees, users }
}

const average = ({ usd, btc }: Sums): string | null =>
  usd <= 0n || btc <= 0n ? null : decimal(halfEven(usd * UNIT, btc), 2)

export function summaryOf({ tenant, period, tier, isOverride, sums, fees, outcomes, ...bill }: Bill) {
  const { start, end } = monthBounds(period.month)
  return {
    partner_slug: tenant.partner.slug,
    environment: tenant.environment,
    month: period.month,
    period_start: iso(start),
    period_end: iso(end),
    currency: 'USD',
    final: period.final,
    billable: tenant.environment === 'live',
    pricing_tier: tier.name,
    pricing_tier_source: isOverride ? 'override' : 'volume',
    rate_bps: tier.bps,
    active_users: bill.users.filter(({ trades }) => trades > 0).length,
    active_plans: bill.plans,
    executions_created: bill.created,
    executions_filled: outcomes.filled,
    executions_partial: outcomes.partial,
    executions_failed: outcomes.failed,
    executions_cancelled: outcomes.cancelled,
    trade_count: sums.trades,
    volume_usd: dollars(sums.usd),
    volume_btc: coins(sums.btc),
    average_price_usd: average(sums),
    partner_fees_usd: dollars(sums.fees),
    volume_fee_usd: dollars(fees.volume),
    user_fee_usd: dollars(fees.users),
    minimum_fee_usd: dollars(fees.minimum),
    total_fee_usd: dollars(fees.total),
  }
}

const sumsJson = (sums: Sums & { fee: bigint }) => ({
  trade_count: sums.trades,
  volume_usd: dollars(sums.usd),
  volume_btc: coins(sums.btc),
  average_price_usd: average(sums),
  partner_fees_usd: dollars(sums.fees),
  fee_usd: dollars(sums.fee),
})

export const userLineOf = (line: UserLine) => ({ partner_user_id: line.id, ...sumsJson(line) })

export function totalsOf({ users }: Bill) {
  const sum = { trades: 0, usd: 0n, btc: 0n, fees: 0n, fee: 0n }
  for (const line of users) {
    sum.trades += line.trades
    sum.usd += line.usd
    sum.btc += line.btc
    sum.fees += line.fees
    sum.fee += line.fee
  }
  return sumsJson(sum)
}
