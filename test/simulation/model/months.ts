// The model's months: what they come to, what they cost, and how the cost is shared.

import { isFill } from './executions.ts'
import type { Execution, State, Tenant, Tier } from './state.ts'
import { presentOf } from './state.ts'
import { CENT, coins, decimal, dollars, halfEven, iso, MINUTE, monthBounds, UNIT } from './units.ts'

/** What a report of a month covers: up to its end, or up to now. */
export type Period = { month: string; start: number; until: number; final: boolean }

/** Fixes what a report covers. A month is final once something else has been recorded since its end. */
export function fix(state: State, month: string): Period {
  const { start, end } = monthBounds(month)
  // Nothing is dated in a month after one that came later was closed.
  if ([...state.closedMonths].some((closed) => closed >= month))
    return { month, start, until: end, final: true }
  const now = presentOf(state)
  const report = (at: number) => {
    state.reportedUntil = Math.max(state.reportedUntil, at)
  }
  if (now >= end) {
    const known = reached(state)
    const final = known >= end
    if (final) {
      const empty = monthBefore(Math.min(...[...state.partners.values()].map(({ createdAt }) => createdAt)))
      const together = empty > month && monthBounds(empty).end <= Math.min(now, known)
      const closed = together ? empty : month
      state.closedMonths.add(closed)
      report(monthBounds(closed).end)
    }
    return { month, start, until: end, final }
  }
  const soFar = (state.lastRecordedAt ?? 0) + 1
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

function reached({ dispute, passes, audits, lastRecordedAt }: State): number {
  if (dispute) return 0
  const pass = passes.findLast(({ finished }) => finished)?.at ?? 0
  return Math.max(pass, audits.at(-1) ?? 0, lastRecordedAt ?? 0)
}

type Sums = { trades: number; usd: bigint; btc: bigint; fees: bigint }
export type UserLine = Sums & { id: string; fee: bigint }

export type Bill = {
  tenant: Tenant
  period: Period
  tier: Tier
  isOverride: boolean
  plans: number
  created: number
  outcomes: Record<string, number>
  sums: Sums
  fees: { volume: bigint; users: bigint; minimum: bigint; total: bigint }
  users: UserLine[]
}

export function bill(state: State, tenant: Tenant, period: Period): Bill {
  const within = (at: number | null) => at !== null && period.start <= at && at < period.until
  const sums: Sums = { trades: 0, usd: 0n, btc: 0n, fees: 0n }
  const lines = new Map<string, UserLine>()
  const plans = new Set<string>()
  const outcomes: Record<string, number> = { filled: 0, partial: 0, failed: 0, cancelled: 0 }
  let created = 0
  const enter = ({ plan }: Execution, part: Sums) => {
    const id = plan.user.id
    const line = lines.get(id) ?? { id, trades: 0, usd: 0n, btc: 0n, fees: 0n, fee: 0n }
    lines.set(id, line)
    for (const one of [sums, line]) {
      one.trades += part.trades
      one.usd += part.usd
      one.btc += part.btc
      one.fees += part.fees
    }
  }
  for (const execution of tenant.executions) {
    const { trade, plan } = execution
    if (within(execution.createdAt)) created += 1
    if (within(execution.cancelledAt)) outcomes.cancelled = (outcomes.cancelled ?? 0) + 1
    if (trade && within(trade.recordedAt)) {
      const { report } = trade
      outcomes[report.status] = (outcomes[report.status] ?? 0) + 1
      if (isFill(report)) {
        plans.add(plan.id)
        enter(execution, { trades: 1, usd: report.usd, btc: report.btc, fees: report.fee ?? 0n })
      }
    }
    for (const { recordedAt, usd, btc, fee } of execution.adjustments) {
      if (within(recordedAt)) enter(execution, { trades: 0, usd, btc, fees: fee ?? 0n })
    }
  }
  const users = [...lines.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  const active = users.filter(({ trades }) => trades > 0).length
  const { tier, isOverride } = tierOf(state, tenant, { month: period.month, volume: sums.usd })
  const existed = period.until > period.start && tenant.partner.createdAt < monthBounds(period.month).end
  const charged = tenant.environment === 'live' && existed
  const fees = charged ? feesOf(tier, sums.usd, active) : { volume: 0n, users: 0n, minimum: 0n, total: 0n }
  share(fees.total, users, tier)
  return { tenant, period, tier, isOverride, plans: plans.size, created, outcomes, sums, fees, users }
}

function feesOf(tier: Tier, usd: bigint, active: number): Bill['fees'] {
  const base = usd > 0n ? usd : 0n
  const volume = halfEven(base * BigInt(tier.bps), 10_000n * CENT) * CENT
  const users = BigInt(active) * tier.perUser
  const sum = volume + users
  return { volume, users, minimum: tier.minimum, total: sum > tier.minimum ? sum : tier.minimum }
}

/** By largest remainder, in cents; among equals the first user has it. */
function share(total: bigint, users: UserLine[], tier: Tier): void {
  if (users.length === 0) return
  const weigh = ({ usd, trades }: UserLine) =>
    (usd > 0n ? usd : 0n) * BigInt(tier.bps) + (trades > 0 ? tier.perUser * 10_000n : 0n)
  let weights = users.map(weigh)
  if (weights.every((weight) => weight === 0n)) weights = users.map(() => 1n)
  const all = weights.reduce((a, b) => a + b)
  const cents = total / CENT
  const rests: { line: UserLine; rest: bigint }[] = []
  let left = cents
  users.forEach((line, i) => {
    const exact = cents * (weights[i] ?? 0n)
    line.fee = (exact / all) * CENT
    left -= exact / all
    rests.push({ line, rest: exact % all })
  })
  rests.sort((a, b) => (a.rest < b.rest ? 1 : a.rest > b.rest ? -1 : 0))
  for (const { line } of rests.slice(0, Number(left))) line.fee += CENT
}

/** The override of the month, else the highest tier the volume reaches. */
function tierOf(state: State, tenant: Tenant, { month, volume }: { month: string; volume: bigint }) {
  const byMonth = (a: { from: string }, b: { from: string }) => (a.from < b.from ? -1 : 1)
  const inForce: { tier: Tier; since: string }[] = []
  for (const name of new Set(state.tiers.map((tier) => tier.name))) {
    const versions = state.tiers.filter((tier) => tier.name === name && tier.from <= month).sort(byMonth)
    const [first, last] = [versions[0], versions.at(-1)]
    if (first && last) inForce.push({ tier: last, since: first.from })
  }
  const override = state.overrides
    .filter(({ slug, from }) => slug === tenant.partner.slug && from <= month)
    .sort(byMonth)
    .at(-1)?.tier
  const named = inForce.find(({ tier }) => tier.name === override)
  if (named) return { tier: named.tier, isOverride: true }
  // Of two that begin at the same volume, the one that was there first.
  const age = ({ tier, since }: (typeof inForce)[number]) => `${since} ${tier.name}`
  const oldest = (begin: bigint | undefined) =>
    inForce.filter(({ tier }) => tier.minVolume === begin).sort((a, b) => (age(a) < age(b) ? -1 : 1))[0]
  const begins = inForce.flatMap(({ tier }) => tier.minVolume ?? []).sort((a, b) => (a < b ? -1 : 1))
  const best = oldest(begins.findLast((begin) => begin <= volume) ?? begins[0])
  if (!best) throw new Error('there is always a tier')
  return { tier: best.tier, isOverride: false }
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
    executions_filled: outcomes.filled ?? 0,
    executions_partial: outcomes.partial ?? 0,
    executions_failed: outcomes.failed ?? 0,
    executions_cancelled: outcomes.cancelled ?? 0,
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
