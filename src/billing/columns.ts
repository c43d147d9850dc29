// The columns of the reports, which are the members of the billing answers too. Frozen: the
// checksums of closed months are filed. A new column is a new version of the report, under a name of its own.

import type { CsvColumn } from './csv.ts'

export const SUMMARY_COLUMNS = [
  'partner_slug',
  'environment',
  'month',
  'period_start',
  'period_end',
  'currency',
  'final',
  'billable',
  'pricing_tier',
  'pricing_tier_source',
  'rate_bps',
  'active_users',
  'active_plans',
  'executions_created',
  'executions_filled',
  'executions_partial',
  'executions_failed',
  'executions_cancelled',
  'trade_count',
  'volume_usd',
  'volume_btc',
  'average_price_usd',
  'partner_fees_usd',
  'volume_fee_usd',
  'user_fee_usd',
  'minimum_fee_usd',
  'total_fee_usd',
] as const
export type SummaryColumn = (typeof SUMMARY_COLUMNS)[number]

/** What a user's trades of a month come to, and those of all users. */
export const SUM_COLUMNS = [
  'trade_count',
  'volume_usd',
  'volume_btc',
  'average_price_usd',
  'partner_fees_usd',
  'fee_usd',
] as const
export type SumColumn = (typeof SUM_COLUMNS)[number]

export const USER_COLUMNS = [
  'month',
  'partner_slug',
  'environment',
  'partner_user_id',
  ...SUM_COLUMNS,
] as const
export type UserColumn = (typeof USER_COLUMNS)[number]

export const TRADE_COLUMNS = [
  'recorded_at',
  'partner_slug',
  'environment',
  'partner_user_id',
  'partner_plan_id',
  'execution_id',
  'partner_order_id',
  'status',
  'usd_amount',
  'btc_amount',
  'execution_price',
  'partner_fee_usd',
  'executed_at',
  'failure_reason',
] as const
export type TradeColumn = (typeof TRADE_COLUMNS)[number]

export const ADJUSTMENT_COLUMNS = [
  'recorded_at',
  'partner_slug',
  'environment',
  'partner_user_id',
  'partner_plan_id',
  'execution_id',
  'partner_order_id',
  'adjustment',
  'usd_difference',
  'btc_difference',
  'reason',
  'original_recorded_at',
  'original_status',
  'original_order_id',
  'original_usd_amount',
  'original_btc_amount',
] as const
export type AdjustmentColumn = (typeof ADJUSTMENT_COLUMNS)[number]

/** Columns that carry what a partner or its users chose to call things. */
const FOREIGN: ReadonlySet<string> = new Set<SummaryColumn | TradeColumn | AdjustmentColumn>([
  'partner_user_id',
  'partner_plan_id',
  'partner_order_id',
  'execution_id',
  'failure_reason',
  'partner_slug',
  'pricing_tier',
  'reason',
  'original_order_id',
])

export const columnsOf = (names: readonly string[]): CsvColumn[] =>
  names.map((name) => ({ name, ...(FOREIGN.has(name) ? { foreign: true } : { plain: true }) }))
