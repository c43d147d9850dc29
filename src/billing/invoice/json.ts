// An invoice as JSON, for programs.

import { formatInstant } from '../../core/instant.ts'
import { formatBtc, formatUsd } from '../../core/money.ts'
import { feeLines, tierReason } from './fee-lines.ts'
import { dateOf, fillsOf, type Invoice, numberOf, type Party, termsOf } from './figures.ts'

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
    issuer: parties && { ...partyJson(parties.issuer), notes: termsOf(invoice) },
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
