// The shapes of answers, on zod: handlers are typed by them, and the API description is made from them. Code that only
// writes such an answer imports just the types, and loads nothing.

import { z } from 'zod'
import type { ColumnOf, SumColumn } from '../billing/columns.ts'
import { REPORT_STATUSES } from '../core/confirmation.ts'
import { DUE_PAGE_MAX, EXECUTION_STATUSES, TRIGGERS } from '../core/execution.ts'
import { TIER_NAME_MAX, TIER_NAME_PATTERN } from '../core/fees.ts'
import { NEXT_STEPS, PLAN_STATUSES } from '../core/plan.ts'
import { EMAIL_MAX, FAILURE_REASON_MAX, ID_MAX, REASON_MAX } from '../core/text.ts'
import { MONTH_PATTERN } from '../core/time.ts'
import { CONSENTS_SHOWN, type UserStatus } from '../core/user.ts'
import {
  DELIVERIES_KEPT,
  EVENT_NAME,
  FAILURES_TO_PAUSE,
  WEBHOOK_URL_MAX,
  type Webhook,
} from '../core/webhook.ts'
import { FREQUENCIES } from '../core/window.ts'
import {
  always,
  checkedText,
  choice,
  coinSum,
  count,
  createdAt,
  describeAnswer,
  dollarSum,
  dollars,
  executionId,
  flag,
  instant,
  nextCursor,
  ok,
  PAGE_MAX,
  partnerPlanId,
  partnerUserId,
  prose,
  tenantFields,
  updatedAt,
  written,
} from './fields.ts'

const listOf = <T extends z.ZodType>(item: T, max: number, description: string) =>
  z.array(item).max(max).meta({ description })

const USER_STATUSES = ['linked', 'disabled'] as const satisfies readonly UserStatus[]
const WEBHOOK_STATUSES = ['active', 'paused'] as const satisfies readonly Webhook['status'][]

export const userAnswer = z.object({
  partner_user_id: partnerUserId,
  email: checkedText('Contact or relay address.', 'user@example.com', EMAIL_MAX).nullable(),
  auth_provider: checkedText('Where the user signs in.', 'apple').nullable(),
  consent_accepted: always(true, 'A user exists only with consent.'),
  consent_version: checkedText('The consent text that was accepted last.', '2026-01'),
  consent_timestamp: instant('When it was accepted, as sent.', '2026-01-05T09:30:00.000Z'),
  status: choice(USER_STATUSES, 'Plans of a disabled user do not fire.', 'linked'),
  created_at: createdAt,
  updated_at: updatedAt,
})

export const userChangedAnswer = userAnswer.extend({
  plans_paused: count('Only on a disable: how many plans it paused.').optional(),
  executions_cancelled: count('Only on a disable: how many executions it cancelled.', 0).optional(),
})

export const usersAnswer = z.object({
  ...tenantFields,
  users: listOf(userAnswer, PAGE_MAX, 'One page, by partner_user_id.'),
  next_cursor: nextCursor('bGlua2VkIHVzZXItMQ'),
})

const consentAnswer = z.object({
  version: checkedText('The consent text that was accepted.', '2026-01'),
  timestamp: instant('When it was accepted, as sent.', '2026-01-05T09:30:00.000Z'),
  received_at: instant('When you sent it first.', '2026-01-05T09:30:02.000Z'),
})

export const userStateAnswer = userAnswer.extend({
  consents: listOf(
    consentAnswer,
    CONSENTS_SHOWN,
    `Every consent you ever sent, oldest first; of more than ${CONSENTS_SHOWN}, the newest.`,
  ),
})

export const planAnswer = z.object({
  partner_user_id: partnerUserId,
  partner_plan_id: partnerPlanId,
  amount_usd: dollars('Dollars per buying window.', '60.00'),
  frequency: choice(FREQUENCIES, 'The length of a buying window.', 'daily'),
  smart_timing_enabled: flag('When false, the plan produces no executions.', true),
  start_date: instant('The earliest time at which a window may begin.'),
  status: choice(PLAN_STATUSES, 'A cancelled plan stays cancelled.', 'active'),
  created_at: createdAt,
  updated_at: updatedAt,
})

const windowAnswer = z.object({
  window_start: instant('When it began, or begins.'),
  window_end: instant('The first instant after it.', '2026-01-06T00:00:00.000Z'),
  budget_usd: dollars('The most it may spend.', '60.00'),
  reserved_usd: dollars('Reserved for its open executions.', '0.00'),
  spent_usd: dollars('Spent of the budget by its trades.'),
  excess_usd: dollars("Bought beyond the budget, by an operator's decision.", '0.00'),
  left_usd: dollars('Neither reserved nor spent.', '50.00'),
})

export const planStateAnswer = planAnswer.extend({
  window: windowAnswer
    .nullable()
    .meta({ description: 'The current buying window; null when there is none.' }),
  next_step: choice(
    NEXT_STEPS,
    'What has to happen before it buys again. Yours: confirm an open execution (poll for it if you have not), ' +
      "link_user, activate, enable_smart_timing. The operator's: release_hold. The scheduler's: buy, next_window. " +
      'None for a cancelled plan.',
    'buy',
  ),
  next_step_at: instant(
    'When the scheduler looks at the plan at the latest; a price can make it buy earlier. Never in the past: what is ' +
      "overdue comes with the scheduler's next tick. Null for the steps of others.",
    '2026-01-05T06:00:00.000Z',
  ).nullable(),
})

export const plansAnswer = z.object({
  ...tenantFields,
  plans: listOf(planStateAnswer, PAGE_MAX, 'One page, by partner_plan_id.'),
  next_cursor: nextCursor('cGxhbiBwbGFuLTE'),
})

/** The id of a plan, an instant, and a count of ten digits at most. */
const IDEMPOTENCY_KEY_MAX = ID_MAX + 1 + 24 + 1 + 10

const dueAnswer = z.object({
  execution_id: executionId,
  partner_slug: tenantFields.partner_slug,
  partner_user_id: partnerUserId,
  partner_plan_id: partnerPlanId,
  side: always('buy', 'The only side there is.'),
  asset: always('BTC', 'The asset to buy.'),
  spend_currency: always('USD', 'The currency to spend.'),
  amount_usd: dollars('The most to spend on this tranche.'),
  reason: always('smart_timing', 'The only reason there is.'),
  idempotency_key: checkedText(
    'Plan id, window start and tranche index. The same at every delivery; unique within its environment, while test and live may have equal ones.',
    'plan-1:2026-01-05T00:00:00.000Z:0',
    IDEMPOTENCY_KEY_MAX,
  ),
  created_at: createdAt,
  lease_expires_at: instant('Unconfirmed by then, it is delivered again.', '2026-01-05T00:05:00.000Z'),
  delivered_count: z.int().min(1).meta(describeAnswer('1 on the first delivery.', 1)),
})

export const duePageAnswer = z.array(dueAnswer).max(DUE_PAGE_MAX)

const executionAnswer = dueAnswer.extend({
  lease_expires_at: instant('Null until it is delivered.', '2026-01-05T00:05:00.000Z').nullable(),
  delivered_count: count('0 until it is delivered.'),
  status: choice(
    EXECUTION_STATUSES,
    'Buy only what a poll has delivered to you, whatever this says.',
    'sent',
  ),
})

export const executionsAnswer = z.object({
  ...tenantFields,
  as_of: instant('When this was read, by the clock of your environment.', '2026-01-05T00:06:00.000Z'),
  executions: listOf(executionAnswer, PAGE_MAX, 'One page, oldest first.'),
  next_cursor: nextCursor('MTc2NzU3MTIwMDAwMCBleGVjXzAxOWI4YjlhMmMwMDdhMWI5YzJkM2U0ZjVhNmI3Yzhk'),
})

export const confirmedAnswer = z.object({
  ok,
  execution_id: executionId,
  status: choice(REPORT_STATUSES, 'The recorded outcome.', 'filled'),
  partner_order_id: checkedText('The recorded order.', 'order-1', ID_MAX),
  replayed: always(true, 'Present when this was recorded before.').optional(),
})

const statusCode = (description: string) =>
  z.int().min(100).max(999).nullable().meta(describeAnswer(description, 204))

export const webhookAnswer = z.object({
  ...tenantFields,
  url: z
    .string()
    .meta({ format: 'uri', maxLength: WEBHOOK_URL_MAX })
    .nullable()
    .meta(describeAnswer('Null when none is registered.', 'https://partner.example/tranche')),
  status: z
    .enum(WEBHOOK_STATUSES)
    .nullable()
    .meta(describeAnswer(`Paused after ${FAILURES_TO_PAUSE} failures in a row.`, 'active')),
  created_at: createdAt.nullable(),
  updated_at: updatedAt.nullable(),
  last_delivered_at: instant('The last delivery answered with a 2xx.').nullable(),
  last_status_code: statusCode('The last status the receiver answered.'),
  consecutive_failures: z
    .int()
    .min(0)
    .nullable()
    .meta(describeAnswer('Starts again at 0 after a success.', 0)),
  last_failed_at: instant(
    'The last delivery that failed, also when later ones did not; absent without one.',
  ).optional(),
  last_failure_reason: prose(
    'Why it failed; absent without such a delivery.',
    'HTTP 503',
    FAILURE_REASON_MAX,
  ).optional(),
})

export const webhookRegisteredAnswer = webhookAnswer.extend({
  secret: written(
    { pattern: '^sse_whsec_[A-Za-z0-9_-]{43}$', maxLength: 54 },
    'Signs the wake-ups. Shown this once.',
    'sse_whsec_JkLh0cQ2vT5xYz8aB1dE4fG7hI0jK3lM6nO9pQ2rS5t',
  ),
})

export const webhookDeletedAnswer = z.object({
  ok,
  ...tenantFields,
  deleted: flag('False when there was none.', true),
})

const deliveryAnswer = z.object({
  ended_at: instant('When the attempt ended.'),
  event: always(EVENT_NAME, 'The only event there is.'),
  test: flag('Whether it was a test, which announces nothing.', false),
  count: count('How many executions it announced; 0 for a test.', 3),
  earliest_execution_id: executionId.meta({ description: 'The first of them; all zeros for a test.' }),
  origin: written(
    { format: 'uri', maxLength: WEBHOOK_URL_MAX },
    'Where it was sent; without the path, which may hold a secret.',
    'https://partner.example',
  ),
  delivered: flag('Whether the receiver answered with a 2xx.', true),
  status_code: statusCode('The status it answered; null without an answer.'),
  failure_reason: prose(
    'Why it failed; null when it was delivered.',
    'HTTP 503',
    FAILURE_REASON_MAX,
  ).nullable(),
  duration_ms: count('How long it took, in milliseconds.', 84),
})

export const deliveriesAnswer = z.object({
  ...tenantFields,
  deliveries: listOf(deliveryAnswer, DELIVERIES_KEPT, `The newest ${DELIVERIES_KEPT}, the newest first.`),
})

export const testedAnswer = z.object({ ...tenantFields, ...deliveryAnswer.shape })

export const sandboxAnswer = z.object({
  ...tenantFields,
  now: instant('The time of your test environment.', '2026-01-12T09:30:00.000Z'),
  offset_ms: count('How far it is ahead of real time, in milliseconds.', 604_800_000),
  offset: written({ pattern: '^[0-9a-z ]+$', maxLength: 64 }, 'The same, for a person to read.', '7 d'),
  advancing_to: instant(
    'Where an advance that is under way is going; null when there is none.',
    '2026-02-04T09:30:00.000Z',
  ).nullable(),
})

const wokenFields = {
  webhooks_sent: count('Wake-ups that were delivered.', 0),
  webhooks_failed: count('Wake-ups that were not.', 0),
}

export const advancedAnswer = z.object({
  ...tenantFields,
  done: flag(
    'False when it takes longer than a call should: it continues, and GET /sandbox shows how far it is. The counts ' +
      'are then absent.',
    true,
  ),
  from: instant('The time before it.', '2026-01-05T09:30:00.000Z'),
  to: instant('The time after it, also where it stopped on the way.', '2026-01-12T09:30:00.000Z'),
  offset_ms: count('How far the clock is then ahead of real time, in milliseconds.', 604_800_000),
  price_usd: dollars('The price meanwhile; null when none is known.', '64000.00').nullable().optional(),
  passes: count('How often the scheduler looked at the plans.', 169).optional(),
  executions_created: count('Tranches that fired.', 42).optional(),
  windows_rolled: count('Windows that ended and were followed by the next.', 7).optional(),
  leases_expired: count('Leases of unconfirmed executions that ended on the way.', 0).optional(),
  webhooks_sent: wokenFields.webhooks_sent.optional(),
  webhooks_failed: wokenFields.webhooks_failed.optional(),
})

export const firedAnswer = z.object({
  ...tenantFields,
  partner_plan_id: partnerPlanId,
  execution_id: executionId,
  amount_usd: dollars('The most to spend on the tranche.'),
  trigger: choice(TRIGGERS, 'Why it fired.', 'slot_start'),
  tranche_index: count('Its number in the window, from 0 on.', 0),
  ...wokenFields,
})

export const wipedAnswer = z.object({
  ...tenantFields,
  users: count('Users that are gone.'),
  plans: count('Plans that are gone.'),
  windows: count('Windows that are gone.', 7),
  executions: count('Executions that are gone.', 42),
  trades: count('Trades that are gone.', 40),
})

export type ConsentJson = z.output<typeof consentAnswer>
export type DeliveryJson = z.output<typeof deliveryAnswer>
export type UserJson = z.output<typeof userAnswer>
export type PlanJson = z.output<typeof planAnswer>
export type PlanStateJson = z.output<typeof planStateAnswer>
export type ExecutionJson = z.output<typeof executionAnswer>
export type DueJson = z.output<typeof dueAnswer>
export type ConfirmedJson = z.output<typeof confirmedAnswer>
export type WebhookJson = z.output<typeof webhookAnswer>
export type SandboxJson = z.output<typeof sandboxAnswer>
export type AdvancedJson = z.output<typeof advancedAnswer>
export type FiredJson = z.output<typeof firedAnswer>
export type WipedJson = z.output<typeof wipedAnswer>

const averagePrice = dollarSum('Dollars per bitcoin; null without volume.', '64250.84').nullable()
const month = written({ pattern: MONTH_PATTERN.source, maxLength: 7 }, 'The UTC month.', '2026-01')

export const monthlyAnswer = z.object({
  ...tenantFields,
  month,
  period_start: instant('The first instant of the month.', '2026-01-01T00:00:00.000Z'),
  period_end: instant('The first instant after it.', '2026-02-01T00:00:00.000Z'),
  currency: always('USD', 'Of every amount.'),
  final: flag('True once the month is over: it never changes again.', false),
  billable: flag('False in the test environment, whose fees are 0.00.', true),
  pricing_tier: written(
    { pattern: TIER_NAME_PATTERN.source, maxLength: TIER_NAME_MAX },
    'The tier in force.',
    'starter',
  ),
  pricing_tier_source: choice(['override', 'volume'], 'How the tier was chosen.', 'volume'),
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
  total_fee_usd: dollarSum('The fee of the month.', '0.10'),
} satisfies Record<ColumnOf<'summary'>, z.ZodType>)

const sums = {
  trade_count: count('Filled and partial ones.', 2),
  volume_usd: dollarSum('Dollars spent.', '20.00'),
  volume_btc: coinSum('Bitcoin bought.', '0.00031128'),
  average_price_usd: averagePrice,
  partner_fees_usd: dollarSum('Fees the partner reported.', '0.00'),
  fee_usd: dollarSum("The share of the month's fee.", '0.10'),
} satisfies Record<SumColumn, z.ZodType>

export const monthlyUsersAnswer = z.object({
  ...tenantFields,
  month,
  users: listOf(
    z.object({ partner_user_id: partnerUserId, ...sums }),
    PAGE_MAX,
    'One page, by partner_user_id.',
  ),
  totals: z.object(sums).meta({ description: 'Over all users of the month, not of the page.' }),
  next_cursor: nextCursor('dXNlciAxNzY5OTA0MDAwMDAwIHVzZXItMQ'),
})

/** The trades of an export, and the adjustments that correct them. */
const LINE_STATUSES = [...REPORT_STATUSES, 'adjustment'] as const

const tradeFields = {
  recorded_at: instant('When it was recorded; this decides its month.'),
  partner_user_id: partnerUserId,
  partner_plan_id: partnerPlanId,
  execution_id: executionId,
  partner_order_id: checkedText('Your order.', 'order-1', ID_MAX),
  status: choice(
    LINE_STATUSES,
    'An adjustment corrects the trade of the same execution by signed differences.',
    'filled',
  ),
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
} satisfies Record<Exclude<ColumnOf<'trades'>, 'partner_slug' | 'environment'>, z.ZodType>
export const tradeAnswer = z.object(tradeFields)

export const tradesAnswer = z.object({
  ...tenantFields,
  month,
  final: flag('True once the month is over: it never changes again.', false),
  trades: listOf(tradeAnswer, PAGE_MAX, 'One page, in the order they were recorded.'),
  next_cursor: nextCursor('MTc2NzYwMDAwMDAwMCBleGVjXzAxOWI4YjlhMmMwMDdhMWI5YzJkM2U0ZjVhNmI3YzhkIDA'),
})
