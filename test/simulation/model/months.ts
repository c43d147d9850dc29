// The model's months: when they are over, and their totals.

import { isFill } from './ledger.ts'
import {
  CENT,
  coins,
  decimal,
  dollars,
  type Execution,
  halfEven,
  iso,
  isoOrNull,
  lastRecordedAt,
  MINUTE,
  monthBounds,
  presentOf,
  type Report,
  type State,
  type Tenant,
  type Tier,
  UNIT,
} from './state.ts'

/** The period of a month's report: up to its end, or up to now. */
type Period = { month: string; start: number; until: number; final: boolean }

/**
 * Fixes the period of a report. A month is final once something else has been recorded since its end. A tenant with a
 * time of its own closes its months for itself alone.
 */
export function fix(state: State, month: string, asking: Tenant | null = null): Period {
  const { start, end } = monthBounds(month)
  // Nothing is dated in a month after a later one was closed.
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
  // It includes records of this very instant; a clock that was far ahead changes nothing.
  const held = now < soFar && soFar - now <= 10 * MINUTE
  if (held) report(soFar)
  return { month, start, until: Math.min(end, Math.max(held ? soFar : now, start)), final: false }
}

/** The last month before anybody was there; the earliest possible one without partners. */
function monthBefore(at: number): string {
  if (at === Number.POSITIVE_INFINITY) return ''
  return iso(monthBounds(iso(at).slice(0, 7)).start - 1).slice(0, 7)
}

function reached(state: State, asking: Tenant | null): number {
  const { dispute, passes, audits } = state
  if (dispute) return 0
  const pass = passes.findLast(({ finished }) => finished)?.at ?? 0
  const noted = Math.max(pass, audits.at(-1) ?? 0)
  // The reports of a tenant with its own time do not show how far time has advanced.
  if (asking?.apart) return Math.max(noted, asking.apart.reportedUntil)
  return Math.max(noted, lastRecordedAt(state, null))
}

type Sums = { trades: number; usd: bigint; btc: bigint; fees: bigint }
type UserLine = Sums & { id: string; fee: bigint }

type Bill = Charged & {
  tenant: Tenant
  period: Period
  plans: number
  created: number
  outcomes: Record<Report['status'], number>
  sums: Sums
  fees: Fees
  users: UserLine[]
}

const isTrade = (status: Entry['status']): boolean => status === 'filled' || status === 'partial'

const nothing = (): Sums => ({ trades: 0, usd: 0n, btc: 0n, fees: 0n })

/** A fill is a trade; a correction is none, but its amounts and its fee count. */
function enter(sums: Sums, { status, usd, btc, fee }: Entry): void {
  if (isTrade(status)) sums.trades += 1
  sums.usd += usd ?? 0n
  sums.btc += btc ?? 0n
  sums.fees += fee ?? 0n
}

/** The totals of a tenant's month, from the entries in its book, by their recording times. */
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
    if (isTrade(entry.status)) plans.add(plan.id)
  }
  const isWithin = (at: number) => period.start <= at && at < period.until
  outcomes.cancelled += tenant.executions.filter(({ cancelledAt: at }) => at !== null && isWithin(at)).length
  const created = tenant.executions.filter(({ createdAt }) => isWithin(createdAt)).length
  const lines = [...users.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  const of = { slug: tenant.partner.slug, month: period.month, volume: sums.usd }
  const charged = { ...tierFor(state, of), tenant, period, plans: plans.size, created, outcomes, sums }
  return { ...charged, ...chargedTo(state, lines, charged) }
}

/** The fees of a month, and each user's share. A test environment is free, and so is a month before its partner. */
function chargedTo(
  state: State,
  users: UserLine[],
  { tenant, period, tier, sums }: Pick<Bill, 'tenant' | 'period' | 'tier' | 'sums'>,
): Pick<Bill, 'fees' | 'users'> {
  const hasBegun = period.until > period.start
  const isThere = tenant.partner.createdAt < monthBounds(period.month).end
  const isBillable = tenant.environment === 'live' && hasBegun && isThere
  const active = users.filter(({ trades }) => trades > 0).length
  const last = lastMinimumOf(state, tenant.partner.slug, period.month)
  const owed = last === null || period.month <= last ? tier : { ...tier, minimum: 0n }
  const fees = isBillable ? feesFor(owed, sums.usd, active) : NO_FEES
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
    ...ownerJson(tenant),
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

// The model's book: every accepted confirmation and every correction of one. Months, reports and exports are made of
// its entries alone.

/** A purchase, a failure, or an addition to a purchase: amounts are null where nothing was bought. */
type Entry = {
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

/** The book's entries of an execution. */
function entriesOf(execution: Execution): Entry[] {
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

/** Half-open: an entry at the very end belongs to the next span. */
type Span = { start: number; until: number }

/** The entries recorded in a span, whatever day they are about, in the order of recording. */
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

/** An entry as the exports and the API show it, without its owner. */
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

/** The owner of an entry. */
export const ownerJson = ({ partner, environment }: Pick<Tenant, 'partner' | 'environment'>) => ({
  partner_slug: partner.slug,
  environment,
})

// The cost of a month in the model: its tier, the fee, and each user's share of it.

type Charged = { tier: Tier; isOverride: boolean }

/** A partner's tier in a month of so much volume: the promised one, or else the one that the volume reaches. */
function tierFor(
  state: State,
  { slug, month, volume }: { slug: string; month: string; volume: bigint },
): Charged {
  const promised = newest(ofPartner(state.overrides, slug), month)
  const override = promised?.tier ? versionOf(state, promised.tier, month) : undefined
  if (override) return { tier: override, isOverride: true }
  return { tier: byVolume(state, month, volume), isOverride: false }
}

/** The last month in which a partner owes a minimum, as known in a month; null while no end has been set. */
export const lastMinimumOf = ({ minimumEnds }: State, slug: string, month: string): string | null =>
  newest(ofPartner(minimumEnds, slug), month)?.last ?? null

const ofPartner = <T extends { slug: string }>(versions: readonly T[], slug: string): T[] =>
  versions.filter((one) => one.slug === slug)

/** The version in force in a month: the one that begins last before the month's end. */
const newest = <T extends { from: string }>(versions: readonly T[], month: string): T | undefined =>
  versions.reduce<T | undefined>(
    (best, one) => (one.from <= month && (!best || one.from > best.from) ? one : best),
    undefined,
  )

const versionsOf = ({ tiers }: State, name: string): Tier[] => tiers.filter((tier) => tier.name === name)

const versionOf = (state: State, name: string, month: string): Tier | undefined =>
  newest(versionsOf(state, name), month)

/** The highest tier that the volume reaches; if none, the lowest. Of equal ones the oldest. */
function byVolume(state: State, month: string, volume: bigint): Tier {
  type Step = { tier: Tier; from: bigint }
  const steps = oldestFirst(state).flatMap((name): Step[] => {
    const tier = versionOf(state, name, month)
    // A tier without a volume is never reached by volume.
    return tier && tier.minVolume !== null ? [{ tier, from: tier.minVolume }] : []
  })
  let lowest: Step | null = null
  let reached: Step | null = null
  // The older ones come first, so that only a strictly better one replaces them.
  for (const step of steps) {
    if (!lowest || step.from < lowest.from) lowest = step
    if (step.from <= volume && (!reached || step.from > reached.from)) reached = step
  }
  const applied = reached ?? lowest
  if (!applied) throw new Error('no tier is left to be charged by')
  return applied.tier
}

/** The names of all tiers: by the month that they begin in, and within a month in the order of their creation. */
function oldestFirst({ tiers }: State): string[] {
  const begins = new Map<string, string>()
  const places = new Map<string, number>()
  for (const { name, from, place } of tiers) {
    places.set(name, place)
    const known = begins.get(name)
    if (known === undefined || from < known) begins.set(name, from)
  }
  const byAge = [...begins].map(([name, since]) => ({ name, since, place: places.get(name) ?? 0 }))
  byAge.sort((a, b) => (a.since === b.since ? a.place - b.place : a.since < b.since ? -1 : 1))
  return byAge.map(({ name }) => name)
}

type Fees = { volume: bigint; users: bigint; minimum: bigint; total: bigint }

const NO_FEES: Fees = { volume: 0n, users: 0n, minimum: 0n, total: 0n }

/** Rounded once, on the whole volume; a negative volume costs nothing, and refunds nothing. */
function feesFor({ bps, perUser, minimum }: Tier, volume: bigint, activeUsers: number): Fees {
  const charged = volume > 0n ? volume : 0n
  const ofVolume = CENT * halfEven(charged * BigInt(bps), 10_000n * CENT)
  const ofUsers = perUser * BigInt(activeUsers)
  const both = ofVolume + ofUsers
  return { volume: ofVolume, users: ofUsers, minimum, total: both < minimum ? minimum : both }
}

/** A user's part in a month: dollars, and whether it has a fill of its own. */
type Part = { volume: bigint; isActive: boolean }

/**
 * Splits a total in whole cents, in proportion to the unrounded cost of each user alone; the rest goes cent by cent to
 * the largest remainders, of equal ones to the first. Where nobody would cost anything, all shares are equal.
 */
function sharesOf(total: bigint, parts: readonly Part[], { bps, perUser }: Tier): bigint[] {
  const costs = parts.map(
    ({ volume, isActive }) => (volume > 0n ? volume * BigInt(bps) : 0n) + (isActive ? perUser * 10_000n : 0n),
  )
  const sum = costs.reduce((a, b) => a + b, 0n)
  const weights = sum === 0n ? costs.map(() => 1n) : costs
  const whole = sum === 0n ? BigInt(parts.length) : sum
  const cents = total / CENT
  const shares = weights.map((weight) => ({
    cents: (cents * weight) / whole,
    rest: (cents * weight) % whole,
  }))
  let leftOver = cents - shares.reduce((given, share) => given + share.cents, 0n)
  const byRest = [...shares.keys()].sort((a, b) => compare(shares[b]?.rest ?? 0n, shares[a]?.rest ?? 0n))
  for (const place of byRest) {
    const share = shares[place]
    if (leftOver === 0n || !share) break
    share.cents += 1n
    leftOver -= 1n
  }
  return shares.map((share) => share.cents * CENT)
}

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0)

// The model's exports, byte for byte.

export type ReportKind = 'summary' | 'users' | 'trades'

/** Cells of text that a partner or its users chose. */
const FOREIGN = [
  ...['partner_slug', 'partner_user_id', 'partner_plan_id', 'execution_id'],
  ...['partner_order_id', 'failure_reason', 'pricing_tier'],
]

const HEADERS: Record<ReportKind, string> = {
  summary:
    'partner_slug,environment,month,period_start,period_end,currency,final,billable,pricing_tier,' +
    'pricing_tier_source,rate_bps,active_users,active_plans,executions_created,executions_filled,' +
    'executions_partial,executions_failed,executions_cancelled,trade_count,volume_usd,volume_btc,' +
    'average_price_usd,partner_fees_usd,volume_fee_usd,user_fee_usd,minimum_fee_usd,total_fee_usd',
  users:
    'month,partner_slug,environment,partner_user_id,trade_count,volume_usd,volume_btc,average_price_usd,' +
    'partner_fees_usd,fee_usd',
  trades:
    'recorded_at,partner_slug,environment,partner_user_id,partner_plan_id,execution_id,partner_order_id,' +
    'status,usd_amount,btc_amount,execution_price,partner_fee_usd,executed_at,failure_reason',
}

type Row = Record<string, string | number | boolean | null>

export function csv(state: State, month: string, kind: ReportKind): string {
  const period = fix(state, month)
  const rows = kind === 'trades' ? tradeRows(state, period) : billedRows(state, period, kind)
  const names = HEADERS[kind].split(',')
  const lines = rows.map((row) => names.map((name) => cell(name, row[name] ?? '')).join(','))
  return [HEADERS[kind], ...lines].map((line) => `${line}\r\n`).join('')
}

function cell(name: string, value: string | number | boolean): string {
  const text = String(value)
  const safe = FOREIGN.includes(name) && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** The tenants of a month, by partner and environment: without partners that came later. */
function tenantsOf(state: State, { month }: Period): Tenant[] {
  const { end } = monthBounds(month)
  const there = [...state.tenants.values()].filter(({ partner }) => partner.createdAt < end)
  const key = ({ partner, environment }: Tenant) => `${partner.slug}\0${environment}`
  return there.sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

function billedRows(state: State, period: Period, kind: 'summary' | 'users'): Row[] {
  return tenantsOf(state, period).flatMap((tenant): Row[] => {
    const billed = bill(state, tenant, period)
    if (kind === 'summary') return [summaryOf(billed)]
    const whose = { month: period.month, ...ownerJson(tenant) }
    return billed.users.map((line) => ({ ...whose, ...userLineOf(line) }))
  })
}

const tradeRows = (state: State, period: Period): Row[] =>
  entriesWithin(state.executions, period).map((entry) => ({
    ...ownerJson(entry.execution.tenant),
    ...entryJson(entry),
  }))
