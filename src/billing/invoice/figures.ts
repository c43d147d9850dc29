// An invoice: one partner's live month with everything that explains its total. It is drawn from what never changes once
// the month is over, and from the names and addresses it is given.

import type { Statement } from '../../core/fees.ts'
import { formatInstant, plus, utcDate } from '../../core/instant.ts'
import { formatBtc, formatExact, formatUsd, type Usd } from '../../core/money.ts'
import type { FixedPeriod } from '../../core/report-period.ts'

/** Whoever sends an invoice, or gets it: lines as they are printed. */
export type Party = { name: string; address: readonly string[]; taxId: string | null }
export type Parties = { issuer: Party & { notes: readonly string[] }; partner: Party }

/** The trades export that the invoice rests on: how to make it again, and what it must come to. */
export type Evidence = { command: string; rows: number; sha256: string }

export type Invoice = {
  statement: Statement
  /** What the statement covers: of a month that is not over, its figures so far. */
  period: FixedPeriod
  /** Null where no settings name them. */
  parties: Parties | null
  /** What the adjustments of the month add up to; the rest of the volume is fills. */
  adjusted: { count: number; usd: Usd }
  /** Null while the month can change: what is exported now is not what it will be. */
  evidence: Evidence | null
}

export type FeeLine = { item: string; arithmetic: string; amount: Usd }

/** Stable: the same whenever the invoice is made, and of no other. */
export const numberOf = ({ tenant, period }: Statement): string => `${tenant.partnerSlug}-${period.month}`

/** The day after the period: the first on which the invoice can be final. */
export const dateOf = ({ period }: Statement): string => utcDate(period.end)

export const lastDayOf = ({ period }: Statement): string => utcDate(plus(period.end, -1))
export const firstDayOf = ({ period }: Statement): string => utcDate(period.start)

/** The volume of the month without its adjustments. */
export const fillsOf = ({ statement, adjusted }: Invoice): Usd =>
  (statement.activity.volume - adjusted.usd) as Usd

/** What the total is made of: the amounts of the lines add up to it. */
export function feeLines({ tier, activity, fees }: Statement): FeeLine[] {
  const { volume, activeUsers } = activity
  const lines: FeeLine[] = [
    {
      item: 'Volume fee',
      arithmetic: volumeArithmetic(volume, tier.rateBps, fees.volumeFee),
      amount: fees.volumeFee,
    },
    {
      item: 'User fee',
      arithmetic: `${activeUsers} active ${activeUsers === 1 ? 'user' : 'users'} x ${formatUsd(tier.perActiveUser)}`,
      amount: fees.userFee,
    },
  ]
  const sum = fees.volumeFee + fees.userFee
  if (fees.total === sum) return lines
  const arithmetic = `${formatUsd(fees.minimumFee)} - (${formatUsd(fees.volumeFee)} + ${formatUsd(fees.userFee)})`
  return [...lines, { item: 'Up to the monthly minimum', arithmetic, amount: (fees.total - sum) as Usd }]
}

/** A dollar has eight places, a basis point four. */
const PRODUCT_PLACES = 12

function volumeArithmetic(volume: Usd, bps: number, fee: Usd): string {
  if (volume < 0n) return `${formatUsd(volume)} is below zero and charged as 0.00; nothing is carried over`
  const exact = formatExact(volume * BigInt(bps), PRODUCT_PLACES)
  const rounded = exact === formatUsd(fee) ? '' : ', rounded half-even to the cent'
  return `${formatUsd(volume)} x ${bps} / 10,000 = ${exact}${rounded}`
}

/** Why the month is charged by this tier. */
export function tierReason({ tenant, tier, tierSource, activity }: Statement): string {
  if (tierSource === 'override') return `set for ${tenant.partnerSlug}, whatever its volume`
  const volume = `the volume of ${formatUsd(activity.volume)}`
  return activity.volume >= tier.minVolume
    ? `${volume} reaches its ${formatUsd(tier.minVolume)} and no higher tier`
    : `${volume} reaches no tier, and this is the lowest`
}

/** The invoice for programs, without its adjustments, which follow one by one. */
export function invoiceJson(invoice: Invoice) {
  const { statement, period, parties, adjusted, evidence } = invoice
  const { tenant, tier, activity, fees } = statement
  return {
    invoice_number: numberOf(statement),
    partner_slug: tenant.partnerSlug,
    month: period.month,
    period_start: formatInstant(statement.period.start),
    period_end: formatInstant(statement.period.end),
    invoice_date: dateOf(statement),
    currency: 'USD' as const,
    final: period.final,
    covers_until: formatInstant(period.end),
    issuer: parties && { ...partyJson(parties.issuer), notes: parties.issuer.notes },
    partner: parties && partyJson(parties.partner),
    pricing_tier: tier.name,
    pricing_tier_source: statement.tierSource,
    pricing_tier_reason: tierReason(statement),
    rate_bps: tier.rateBps,
    per_active_user_usd: formatUsd(tier.perActiveUser),
    minimum_fee_usd: formatUsd(tier.monthlyMinimum),
    active_users: activity.activeUsers,
    trade_count: activity.executionsFilled + activity.executionsPartial,
    fills_usd: formatUsd(fillsOf(invoice)),
    adjustment_count: adjusted.count,
    adjustments_usd: formatUsd(adjusted.usd),
    volume_usd: formatUsd(activity.volume),
    volume_btc: formatBtc(activity.btc),
    lines: feeLines(statement).map(({ item, arithmetic, amount }) => ({
      item,
      arithmetic,
      amount_usd: formatUsd(amount),
    })),
    total_fee_usd: formatUsd(fees.total),
    trades_export: evidence,
  }
}

const partyJson = ({ name, address, taxId }: Party) => ({ name, address, tax_id: taxId })
