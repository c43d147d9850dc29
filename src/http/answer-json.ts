// The API's answers about users, plans, executions and webhooks, as JSON; commands print some of them. They are apart
// from the routes and the schemas, so that a command does not load what checks requests. Billing answers rows of its
// reports (src/billing/), and the sandbox its results (src/cli/service/sandbox-desk.ts).

import { type Execution, idempotencyKey } from '../core/execution.ts'
import { formatUsd } from '../core/money.ts'
import { type Tenant, tenantJson } from '../core/partner.ts'
import { nextStep, type PlanState, type PlanTerms } from '../core/plan.ts'
import { assert } from '../core/problem.ts'
import { formatInstant, formatInstantOrNull } from '../core/time.ts'
import type { User } from '../core/user.ts'
import { type Delivered, EVENT_NAME, isTest, type Webhook } from '../core/webhook.ts'
import { leftOf, type Window } from '../core/window.ts'
import type { Consent } from '../store/store.ts'
import type {
  ConsentJson,
  DeliveryJson,
  DueJson,
  ExecutionJson,
  PlanJson,
  PlanStateJson,
  UserJson,
  WebhookJson,
} from './answer-schemas.ts'

export const userJson = (user: User): UserJson => ({
  partner_user_id: user.partnerUserId,
  email: user.email,
  auth_provider: user.authProvider,
  // A user exists only with consent.
  consent_accepted: true,
  consent_version: user.consentVersion,
  consent_timestamp: formatInstant(user.consentTimestamp),
  status: user.status,
  created_at: formatInstant(user.createdAt),
  updated_at: formatInstant(user.updatedAt),
})

export const consentJson = ({ version, timestamp, receivedAt }: Consent): ConsentJson => ({
  version,
  timestamp: formatInstant(timestamp),
  received_at: formatInstant(receivedAt),
})

export const planJson = (plan: PlanTerms): PlanJson => ({
  partner_user_id: plan.partnerUserId,
  partner_plan_id: plan.partnerPlanId,
  amount_usd: formatUsd(plan.amount),
  frequency: plan.frequency,
  smart_timing_enabled: plan.smartTimingEnabled,
  start_date: formatInstant(plan.startDate),
  status: plan.status,
  created_at: formatInstant(plan.createdAt),
  updated_at: formatInstant(plan.updatedAt),
})

export function planStateJson(plan: PlanState): PlanStateJson {
  const { step, at } = nextStep(plan)
  return {
    ...planJson(plan),
    window: plan.window && windowJson(plan.window),
    next_step: step,
    next_step_at: formatInstantOrNull(at),
  }
}

export const windowJson = (window: Window): NonNullable<PlanStateJson['window']> => ({
  window_start: formatInstant(window.start),
  window_end: formatInstant(window.end),
  budget_usd: formatUsd(window.budget),
  reserved_usd: formatUsd(window.reserved),
  spent_usd: formatUsd(window.spent),
  excess_usd: formatUsd(window.excess),
  left_usd: formatUsd(leftOf(window)),
})

/** Without the status, which a poll does not give. */
export function executionJson(tenant: Tenant, execution: Execution): Omit<ExecutionJson, 'status'> {
  return {
    execution_id: execution.executionId,
    partner_slug: tenant.partnerSlug,
    partner_user_id: execution.partnerUserId,
    partner_plan_id: execution.partnerPlanId,
    side: 'buy',
    asset: 'BTC',
    spend_currency: 'USD',
    amount_usd: formatUsd(execution.amount),
    reason: 'smart_timing',
    idempotency_key: idempotencyKey(execution, formatInstant),
    created_at: formatInstant(execution.createdAt),
    lease_expires_at: formatInstantOrNull(execution.leaseExpiresAt),
    delivered_count: execution.deliveredCount,
  }
}

/** For an execution that a poll has just delivered. */
export function dueJson(tenant: Tenant, execution: Execution): DueJson {
  const json = executionJson(tenant, execution)
  assert(json.lease_expires_at !== null, 'what is delivered is leased')
  return { ...json, lease_expires_at: json.lease_expires_at }
}

export const webhookJson = (tenant: Tenant, webhook: Webhook | null): WebhookJson => ({
  ...tenantJson(tenant),
  url: webhook?.url ?? null,
  status: webhook?.status ?? null,
  created_at: webhook ? formatInstant(webhook.createdAt) : null,
  updated_at: webhook ? formatInstant(webhook.updatedAt) : null,
  last_delivered_at: formatInstantOrNull(webhook?.lastDeliveredAt ?? null),
  last_status_code: webhook?.lastStatusCode ?? null,
  consecutive_failures: webhook?.consecutiveFailures ?? null,
  // Additions to the contract. Without a failure, an answer has exactly the contract's fields.
  ...(webhook?.lastFailure && {
    last_failed_at: formatInstant(webhook.lastFailure.at),
    last_failure_reason: webhook.lastFailure.reason,
  }),
})

export const deliveryJson = (sent: Delivered): DeliveryJson => ({
  ended_at: formatInstant(sent.endedAt),
  event: EVENT_NAME,
  test: isTest(sent),
  count: sent.count,
  earliest_execution_id: sent.earliest,
  origin: sent.origin,
  delivered: sent.reason === null,
  status_code: sent.statusCode,
  failure_reason: sent.reason,
  duration_ms: sent.durationMs,
})
