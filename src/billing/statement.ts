// Drawing up a month: from what the store recorded to the statement and each user's share of it.

import { feeWeight, shareOut } from '../core/fee-shares.ts'
import { type Statement, statementOf } from '../core/fees.ts'
import { formatInstant } from '../core/instant.ts'
import { averagePrice, formatBtc, formatPrice, formatUsd, type Usd, ZERO_USD } from '../core/money.ts'
import { type Period, periodOf } from '../core/month.ts'
import type { Tenant } from '../core/partner.ts'
import type { FixedPeriod } from '../core/report-period.ts'
import { chooseTier, tiersInForce } from '../core/tier.ts'
import type { MonthStore, UserLine } from '../store/months.ts'
import type { PartnerStore } from '../store/partners.ts'
import type { TierStore } from '../store/tiers.ts'
import type { SumColumn, SummaryColumn } from './columns.ts'
import type { Cell } from './csv.ts'

export type BillingStore = MonthStore &
  Pick<TierStore, 'readTerms'> &
  Pick<PartnerStore, 'findPartner' | 'listTenants'>

/** What is read for one statement: of one tenant alone. */
type StatementStore = Pick<BillingStore, 'readActivity' | 'readTerms'>

export type Billed = { statement: Statement; users: (UserLine & { fee: Usd })[] }

/** Reads and bills one tenant's month. `period` comes from the store's fixPeriod, so that several reports agree. */
export async function bill(store: StatementStore, tenant: Tenant, period: FixedPeriod): Promise<Billed> {
  const own: Period = periodOf(period.month)
  const { activity, users } = await store.readActivity(tenant, period)
  const { tiers, override, partnerSince } = await store.readTerms(tenant, period.month)
  const chosen = chooseTier(tiersInForce(tiers, period.month), override, activity.volume)
  const begun = period.end > own.start
  const partnerExisted = begun && partnerSince !== null && partnerSince < own.end
  const statement = statementOf({
    tenant,
    period: own,
    final: period.final,
    activity,
    partnerExisted,
    ...chosen,
  })
  const shares = shareOut(
    statement.fees.total,
    users.map((user) => feeWeight(chosen.tier, user)),
  )
  return { statement, users: users.map((user, i) => ({ ...user, fee: shares[i] ?? ZERO_USD })) }
}

/** The monthly object of the API, and a row of the summary. */
export const statementJson = ({ tenant, period, tier, activity, fees, ...rest }: Statement) =>
  ({
    partner_slug: tenant.partnerSlug,
    environment: tenant.environment,
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
    trade_count: activity.executionsFilled + activity.executionsPartial,
    volume_usd: formatUsd(activity.volume),
    volume_btc: formatBtc(activity.btc),
    average_price_usd: averageJson(activity),
    partner_fees_usd: formatUsd(activity.partnerFees),
    volume_fee_usd: formatUsd(fees.volumeFee),
    user_fee_usd: formatUsd(fees.userFee),
    minimum_fee_usd: formatUsd(fees.minimumFee),
    total_fee_usd: formatUsd(fees.total),
  }) satisfies Record<SummaryColumn, Cell>

export const userLineJson = ({ partnerUserId, ...line }: UserLine & { fee: Usd }) => ({
  partner_user_id: partnerUserId,
  ...sumsJson(line),
})

/** The sums over all users of a month. */
export function totalsJson(users: Billed['users']) {
  const sum = { trades: 0, volume: 0n, btc: 0n, partnerFees: 0n, fee: 0n }
  for (const user of users) {
    sum.trades += user.trades
    sum.volume += user.volume
    sum.btc += user.btc
    sum.partnerFees += user.partnerFees
    sum.fee += user.fee
  }
  return sumsJson(sum as Omit<Billed['users'][number], 'partnerUserId'>)
}

const sumsJson = (line: Omit<Billed['users'][number], 'partnerUserId'>) =>
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
