// Webhook registrations and the one event they carry: a wake-up for each tenant, never an instruction.

import type { ExecutionId } from './execution-id.ts'
import type { Instant } from './instant.ts'
import type { Tenant } from './partner.ts'

export const WEBHOOK_URL_MAX = 2083
export const EVENT_NAME = 'executions.available'
/** Failures in a row after which a webhook is paused, and after which an operator is warned. */
export const FAILURES_TO_PAUSE = 10
export const FAILURES_TO_WARN = 5

export type Webhook = {
  url: string
  secret: string
  status: 'active' | 'paused'
  createdAt: Instant
  updatedAt: Instant
  lastDeliveredAt: Instant | null
  lastStatusCode: number | null
  consecutiveFailures: number
}

/** A wake-up to send: whose, how many executions the pass created for them, and the first of them. */
export type WakeUp = { tenant: Tenant; count: number; earliest: ExecutionId }

/** How an attempt ended. `statusCode` is null when no answer came; `reason` is null when it counts as delivered. */
export type Attempt = { statusCode: number | null; reason: string | null }

/** Registers a webhook or replaces the one there: a new secret, counters at zero, the first registration's date. */
export function register(seen: Webhook | null, url: string, secret: string, now: Instant): Webhook {
  return {
    url,
    secret,
    status: 'active',
    createdAt: seen?.createdAt ?? now,
    updatedAt: now,
    lastDeliveredAt: null,
    lastStatusCode: null,
    consecutiveFailures: 0,
  }
}

/** Enters an attempt: a success clears the failures, too many in a row pause the webhook. */
export function noteAttempt(seen: Webhook, attempt: Attempt, now: Instant): Webhook {
  const lastStatusCode = attempt.statusCode ?? seen.lastStatusCode
  if (attempt.reason === null)
    return { ...seen, lastStatusCode, lastDeliveredAt: now, consecutiveFailures: 0 }
  const consecutiveFailures = seen.consecutiveFailures + 1
  if (consecutiveFailures < FAILURES_TO_PAUSE || seen.status === 'paused') {
    return { ...seen, lastStatusCode, consecutiveFailures }
  }
  return { ...seen, lastStatusCode, consecutiveFailures, status: 'paused', updatedAt: now }
}

/** The fields of a wake-up in the order they are sent in. */
export const PAYLOAD_FIELDS: readonly string[] = [
  'event',
  'partner_slug',
  'environment',
  'count',
  'earliest_execution_id',
]

/** The body of a wake-up. */
export const payloadOf = ({ tenant, count, earliest }: WakeUp): string =>
  JSON.stringify({
    event: EVENT_NAME,
    partner_slug: tenant.partnerSlug,
    environment: tenant.environment,
    count,
    earliest_execution_id: earliest,
  })
