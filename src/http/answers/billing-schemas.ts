// The shapes of what billing answers, and of the trades behind it.

import { z } from 'zod'
import type { SumColumn, SummaryColumn } from '../../billing/columns.ts'
import { REPORT_STATUSES } from '../../core/confirmation-report.ts'
import { MONTH_PATTERN } from '../../core/instant.ts'
import { ID_MAX, REASON_MAX } from '../../core/text-lengths.ts'
import { TIER_NAME_MAX, TIER_NAME_PATTERN } from '../../core/tier.ts'
import { PAGE_MAX } from '../paging.ts'
import {
  coinSum,
  count,
  dollarSum,
  dollars,
  environment,
  executionId,
  instant,
  nextCursor,
  partnerPlanId,
  partnerSlug,
  partnerUserId,
  prose,
  said,
  text,
} from './common-fields.ts'

const averagePrice = dollarSum('Dollars per bitcoin; null without volume.', '64250.84').nullable()
const month = z
  .string()
  .meta({ pattern: MONTH_PATTERN.source, maxLength: 7, ...said('The UTC month.', '2026-01') })

export const monthlyAnswer = z.object({
  partner_slug: partnerSlug,
  environment,
  month,
  period_start: instant('The first instant of the month.', '2026-01-01T00:00:00.000Z'),
  period_end: instant('The first instant after it.', '2026-02-01T00:00:00.000Z'),
  currency: z.literal('USD').meta(said('Of every amount.', 'USD')),
  final: z.boolean().meta(said('True once the month is over: it never changes again.', false)),
  billable: z.boolean().meta(said('False in the test environment, whose fees are 0.00.', true)),
  pricing_tier: z.string().meta({
    pattern: TIER_NAME_PATTERN.source,
    maxLength: TIER_NAME_MAX,
    ...said('The tier in force.', 'starter'),
  }),
  pricing_tier_source: z.enum(['override', 'volume']).meta(said('How the tier was chosen.', 'volume')),
  rate_bps: count('Of the volume, in hundredths of a percent.', 50),
  active_users: count('Users with a filled or partial trade.'),
  active_plans: count('Plans with a filled or partial trade.'),
  executions_created: count('Created in this month.', 3),
  executions_filled: count('Confirmed as filled in this month.', 2),
  executions_partial: count('Confirmed as partial in this month.', 0),
  executions_failed: count('Confirmed as failed in this month.', 0),
  executions_cancelled: count('Cancelled in this month.', 0),
  trade_count: count('Filled and partial ones.', 2),
  volume_usd: dollarSum('Dollars spent.', '20.00'),
  volume_btc: coinSum('Bitcoin bought.', '0.00031128'),
  average_price_usd: averagePrice,
  partner_fees_usd: dollarSum('Fees the partner reported.', '0.00'),
  volume_fee_usd: dollarSum('The rate on the volume.', '0.10'),
  user_fee_usd: dollarSum('Per active user.', '0.00'),
  minimum_fee_usd: dollarSum('The least a month costs.', '0.00'),
  total_fee_usd: dollarSum('What the month costs.', '0.10'),
} satisfies Record<SummaryColumn, z.ZodType>)

const sums = {
  trade_count: count('Filled and partial ones.', 2),
  volume_usd: dollarSum('Dollars spent.', '20.00'),
  volume_btc: coinSum('Bitcoin bought.', '0.00031128'),
  average_price_usd: averagePrice,
  partner_fees_usd: dollarSum('Fees the partner reported.', '0.00'),
  fee_usd: dollarSum("The share of the month's fee.", '0.10'),
} satisfies Record<SumColumn, z.ZodType>

export const monthlyUsersAnswer = z.object({
  partner_slug: partnerSlug,
  environment,
  month,
  users: z
    .array(z.object({ partner_user_id: partnerUserId, ...sums }))
    .max(PAGE_MAX)
    .meta({ description: 'One page, by partner_user_id.' }),
  totals: z.object(sums).meta({ description: 'Over all users of the month, not of the page.' }),
  next_cursor: nextCursor('dXNlciAxNzY5OTA0MDAwMDAwIHVzZXItMQ'),
})

/** The trades of an export, and the adjustments that correct them. */
const LINE_STATUSES = [...REPORT_STATUSES, 'adjustment'] as const

export const tradeAnswer = z.object({
  recorded_at: instant('When it was recorded; this decides its month.'),
  partner_user_id: partnerUserId,
  partner_plan_id: partnerPlanId,
  execution_id: executionId,
  partner_order_id: text('Your order.', 'order-1', ID_MAX),
  status: z
    .enum(LINE_STATUSES)
    .meta(said('An adjustment corrects the trade of the same execution by signed differences.', 'filled')),
  usd_amount: dollarSum('Dollars spent; null when nothing was bought.', '10.00').nullable(),
  btc_amount: coinSum('Bitcoin bought; null when nothing was.', '0.00015564').nullable(),
  execution_price: dollars(
    'Dollars per bitcoin, as reported; null when there is none.',
    '64250.50',
  ).nullable(),
  partner_fee_usd: dollarSum(
    'The fee you reported, if you did; of an adjustment, the difference.',
    '0.05',
  ).nullable(),
  executed_at: instant(
    'When it was filled: as you reported it, or else when your report came; null when that is not known.',
  ).nullable(),
  failure_reason: prose(
    'Why nothing was bought; of an adjustment, why it was made.',
    'insufficient funds',
    REASON_MAX,
  ).nullable(),
})

export const tradesAnswer = z.object({
  partner_slug: partnerSlug,
  environment,
  month,
  final: z.boolean().meta(said('True once the month is over: it never changes again.', false)),
  trades: z
    .array(tradeAnswer)
    .max(PAGE_MAX)
    .meta({ description: 'One page, in the order they were recorded.' }),
  next_cursor: nextCursor('MTc2NzYwMDAwMDAwMCBleGVjXzAxOWI4YjlhMmMwMDdhMWI5YzJkM2U0ZjVhNmI3YzhkIDA'),
})
