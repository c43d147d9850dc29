// Statements: a month's fees computed from the records, each user's share, and a second computation of the fees by the
// guide.

import {
  chooseTier,
  feeWeight,
  type Statement,
  shareOut,
  statementOf,
  type Tier,
  tiersInForce,
  tradesIn,
} from '../core/fees.ts'
import { averagePrice, formatBtc, formatPrice, formatUsd, UNITS, type Usd, ZERO_USD } from '../core/money.ts'
import { type FixedPeriod, type Period, periodOf } from '../core/month.ts'
import { type Tenant, tenantJson } from '../core/partner.ts'
import { formatInstant } from '../core/time.ts'
import type { Fault } from '../store/monitoring.ts'
import type {
  InvoiceStore,
  MinimumEnd,
  MonthStore,
  OverrideStart,
  PartnerStore,
  TierStore,
  UserLine,
} from '../store/store.ts'
import type { ColumnOf, SumColumn } from './columns.ts'
import type { Cell, Row } from './csv.ts'

/** Reads a listing page by page, each after the last row of the one before. */
export async function* pagesAfter<T>(
  limit: number,
  read: (page: { after: T | null; limit: number }) => Promise<T[]>,
): AsyncGenerator<T[]> {
  for (let after: T | null = null; ; ) {
    const page: T[] = await read({ after, limit })
    yield page
    after = page.at(-1) ?? null
    if (after === null || page.length < limit) return
  }
}

export type BillingStore = MonthStore &
  Pick<TierStore, 'readTerms'> &
  Pick<InvoiceStore, 'findInvoiceOf' | 'listInvoices'> &
  Pick<PartnerStore, 'findPartner' | 'listTenants'>

type StatementStore = Pick<BillingStore, 'readActivity' | 'readTerms'>

export type Billed = { statement: Statement; users: (UserLine & { fee: Usd })[] }

/** Reads and bills one tenant's month. `period` comes from the store's fixPeriod, so that several reports agree. */
export async function bill(store: StatementStore, tenant: Tenant, period: FixedPeriod): Promise<Billed> {
  const month: Period = periodOf(period.month)
  const { activity, users } = await store.readActivity(tenant, period)
  const { tiers, override, lastMinimum, partnerSince } = await store.readTerms(tenant, period.month)
  const chosen = chooseTier(tiersInForce(tiers, period.month), override, activity.volume)
  const begun = period.end > month.start
  const partnerExisted = begun && partnerSince !== null && partnerSince < month.end
  const statement = statementOf({
    tenant,
    period: month,
    final: period.final,
    activity,
    partnerExisted,
    lastMinimum,
    ...chosen,
  })
  const shares = shareOut(
    statement.fees.total,
    users.map((user) => feeWeight(chosen.tier, user)),
  )
  return { statement, users: users.map((user, i) => ({ ...user, fee: shares[i] ?? ZERO_USD })) }
}

export const statementJson = ({ tenant, period, tier, activity, fees, ...rest }: Statement) =>
  ({
    ...tenantJson(tenant),
    month: period.month,
    period_start: formatInstant(period.start),
    period_end: formatInstant(period.end),
    currency: 'USD' as const,
    final: rest.final,
    billable: rest.billable,
    pricing_tier: tier.name,
    pricing_tier_source: rest.tierSource,
    rate_bps: tier.rateBps,
    active_users: activity.activeUsers,
    active_plans: activity.activePlans,
    executions_created: activity.executionsCreated,
    executions_filled: activity.executionsFilled,
    executions_partial: activity.executionsPartial,
    executions_failed: activity.executionsFailed,
    executions_cancelled: activity.executionsCancelled,
    trade_count: tradesIn(activity),
    volume_usd: formatUsd(activity.volume),
    volume_btc: formatBtc(activity.btc),
    average_price_usd: averageJson(activity),
    partner_fees_usd: formatUsd(activity.partnerFees),
    volume_fee_usd: formatUsd(fees.volumeFee),
    user_fee_usd: formatUsd(fees.userFee),
    minimum_fee_usd: formatUsd(fees.minimumFee),
    total_fee_usd: formatUsd(fees.total),
  }) satisfies Record<ColumnOf<'summary'>, Cell>

export const sumsByTenant = (statements: readonly Statement[]): Row<ColumnOf<'partners'>>[] =>
  [...Map.groupBy(statements, ({ tenant }) => `${tenant.partnerSlug} ${tenant.environment}`)]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, months]) => sumJson(months))

/** A tenant's months, in their order, as one row. An active user counts once for each month. */
function sumJson(months: readonly Statement[]) {
  const [first, last] = [months[0] as Statement, months.at(-1) as Statement]
  const count = (figure: (month: Statement) => number) =>
    months.reduce((sum, month) => sum + figure(month), 0)
  const sum = <U extends bigint>(amount: (month: Statement) => U) =>
    months.reduce<bigint>((sum, month) => sum + amount(month), 0n) as U
  const volume = sum(({ activity }) => activity.volume)
  const btc = sum(({ activity }) => activity.btc)
  return {
    ...tenantJson(first.tenant),
    from_month: first.period.month,
    to_month: last.period.month,
    currency: 'USD',
    final: months.every(({ final }) => final),
    billable: first.billable,
    trade_count: count(({ activity }) => tradesIn(activity)),
    active_user_months: count(({ activity }) => activity.activeUsers),
    volume_usd: formatUsd(volume),
    volume_btc: formatBtc(btc),
    average_price_usd: averageJson({ volume, btc }),
    partner_fees_usd: formatUsd(sum(({ activity }) => activity.partnerFees)),
    volume_fee_usd: formatUsd(sum(({ fees }) => fees.volumeFee)),
    user_fee_usd: formatUsd(sum(({ fees }) => fees.userFee)),
    up_to_minimum_usd: formatUsd(sum(({ fees }) => (fees.total - fees.volumeFee - fees.userFee) as Usd)),
    total_fee_usd: formatUsd(sum(({ fees }) => fees.total)),
  } satisfies Row<ColumnOf<'partners'>>
}

export const userLineJson = ({ partnerUserId, ...line }: UserLine & { fee: Usd }) => ({
  partner_user_id: partnerUserId,
  ...sumsJson(line),
})

export const totalsJson = (users: Billed['users']) => sumsJson(totalOf(users))

type UserSums = Omit<Billed['users'][number], 'partnerUserId'>

export function totalOf(users: Billed['users']): UserSums {
  const sum = { trades: 0, volume: 0n, btc: 0n, partnerFees: 0n, fee: 0n }
  for (const user of users) {
    sum.trades += user.trades
    sum.volume += user.volume
    sum.btc += user.btc
    sum.partnerFees += user.partnerFees
    sum.fee += user.fee
  }
  return sum as UserSums
}

const sumsJson = (line: UserSums) =>
  ({
    trade_count: line.trades,
    volume_usd: formatUsd(line.volume),
    volume_btc: formatBtc(line.btc),
    average_price_usd: averageJson(line),
    partner_fees_usd: formatUsd(line.partnerFees),
    fee_usd: formatUsd(line.fee),
  }) satisfies Record<SumColumn, Cell>

function averageJson({ volume, btc }: Pick<UserLine, 'volume' | 'btc'>): string | null {
  const average = averagePrice(volume, btc)
  return average === null ? null : formatPrice(average)
}

// Listings of a month's users, read page by page: computed once, and the same for all pages.

/** How long a listing is kept after its last page was read. */
const IDLE_MS = 60_000
/** The most listings at once; a bill of 100,000 users takes some tens of megabytes. */
const LISTINGS_MAX = 4

export type Listing = Pick<Billed, 'users'> & { totals: ReturnType<typeof totalsJson> }

export type Listings = {
  find: (key: string) => Listing | null
  keep: (key: string, listing: Listing) => void
}

/** `key` names the tenant, the month, and the end of the period. */
export function createListings(): Listings {
  const listings = new Map<string, { listing: Listing; timer: NodeJS.Timeout }>()

  function drop(key: string): void {
    clearTimeout(listings.get(key)?.timer)
    listings.delete(key)
  }

  function keep(key: string, listing: Listing): void {
    drop(key)
    const [oldest] = listings.keys()
    if (oldest !== undefined && listings.size >= LISTINGS_MAX) drop(oldest)
    listings.set(key, { listing, timer: setTimeout(() => drop(key), IDLE_MS).unref() })
  }

  return {
    keep,
    find(key) {
      const found = listings.get(key)
      // A listing that is read becomes the newest again.
      if (found) keep(key, found.listing)
      return found?.listing ?? null
    },
  }
}

// The charge of a month by the billing guide, computed from the stored tiers and overrides. It does not use
// core/fees.ts, on purpose, so that a fault there is not repeated here.

/** All overrides and minimum ends, in any order. `isDue` says whether it existed in that month. */
export type Stored = {
  tiers: readonly Tier[]
  overrides: readonly OverrideStart[]
  minimumEnds: readonly MinimumEnd[]
  isDue: boolean
}

/** The tier and the amounts of a statement where they differ from what the stored tiers give. */
export function chargeFaults(statement: Statement, stored: Stored): Omit<Fault, 'subject'>[] {
  const { tier, source } = tierByTheGuide(statement, stored)
  const found: Omit<Fault, 'subject'>[] = []
  if (statement.tier.name !== tier.name || statement.tierSource !== source) {
    const volume = `a volume of ${formatUsd(statement.activity.volume)} USD`
    const message = `is charged by ${statement.tier.name} (${statement.tierSource}), ${volume} leads to ${tier.name} (${source})`
    found.push({ kind: 'tier_differs', message })
  }
  const total = stored.isDue && statement.billable ? feeByTheGuide(statement, tier, stored.minimumEnds) : 0n
  if (statement.fees.total !== total) {
    const message = `costs ${formatUsd(statement.fees.total)}, by ${tier.name} it comes to ${formatUsd(total as Usd)}`
    found.push({ kind: 'total_fee_differs', message })
  }
  return found
}

type Choice = { tier: Tier; source: 'override' | 'volume' }

function tierByTheGuide({ period, activity }: Statement, { tiers, overrides }: Stored): Choice {
  const first = tiers.map(({ fromMonth }) => fromMonth).reduce((a, b) => (a < b ? a : b))
  const month = period.month < first ? first : period.month
  const current = new Map<string, Tier>()
  const firstMonth = new Map<string, string>()
  for (const tier of tiers.filter(({ fromMonth }) => fromMonth <= month)) {
    const newest = current.get(tier.name)
    if (!newest || newest.fromMonth < tier.fromMonth) current.set(tier.name, tier)
    const begun = firstMonth.get(tier.name)
    if (begun === undefined || tier.fromMonth < begun) firstMonth.set(tier.name, tier.fromMonth)
  }
  let named: OverrideStart | null = null
  for (const one of overrides)
    if (one.fromMonth <= period.month && (named === null || one.fromMonth > named.fromMonth)) named = one
  const override = named?.tierName ? current.get(named.tierName) : undefined
  if (override) return { tier: override, source: 'override' }
  // The older tier began in an earlier month, or was set first in the same month.
  const isOlder = (one: Tier, than: Tier): boolean => {
    const [begun, other] = [firstMonth.get(one.name) ?? '', firstMonth.get(than.name) ?? '']
    return begun === other ? one.place < than.place : begun < other
  }
  // A reached tier beats an unreached one; of two reached the higher wins, else the lower; of equals the older.
  const isBetter = (one: Tier, than: Tier): boolean => {
    const [a, b] = [one.minVolume ?? 0n, than.minVolume ?? 0n]
    if (a === b) return isOlder(one, than)
    const [reachesOne, reachesOther] = [activity.volume >= a, activity.volume >= b]
    if (reachesOne !== reachesOther) return reachesOne
    return reachesOne ? a > b : a < b
  }
  let best: Tier | null = null
  for (const tier of current.values())
    if (tier.minVolume !== null && (best === null || isBetter(tier, best))) best = tier
  if (best === null) throw new Error('no stored tier has a volume')
  return { tier: best, source: 'volume' }
}

/**
 * The larger of the minimum and volume x bps / 10,000, half-even to the cent, plus the price of the active users; after
 * the last month with a minimum, only the latter.
 */
function feeByTheGuide(
  { activity, period: { month } }: Statement,
  tier: Tier,
  ends: readonly MinimumEnd[],
): bigint {
  const product = activity.volume < 0n ? 0n : activity.volume * BigInt(tier.rateBps)
  const perCent = 100n * UNITS
  const [cents, rest] = [product / perCent, product % perCent]
  const isUp = rest * 2n > perCent || (rest * 2n === perCent && cents % 2n === 1n)
  const fee = ((isUp ? cents + 1n : cents) * UNITS) / 100n + BigInt(activity.activeUsers) * tier.perActiveUser
  let said: MinimumEnd | null = null
  for (const one of ends)
    if (one.fromMonth <= month && (said === null || one.fromMonth > said.fromMonth)) said = one
  const hasEnded = said !== null && said.lastMonth !== null && said.lastMonth < month
  return hasEnded || fee > tier.monthlyMinimum ? fee : tier.monthlyMinimum
}
