// Webhooks: registration, with a new secret, the pause after failures, and the one event they are sent.

import type { ExecutionId } from './execution.ts'
import { type Tenant, tenantJson } from './partner.ts'
import { FAILURE_REASON_MAX } from './text.ts'
import { type Instant, MINUTE_MS } from './time.ts'

export const WEBHOOK_URL_MAX = 2083

export type Webhook = {
  url: string
  secret: string
  status: 'active' | 'paused'
  createdAt: Instant
  updatedAt: Instant
  lastDeliveredAt: Instant | null
  lastStatusCode: number | null
  consecutiveFailures: number
  /** The last failed attempt, even if later ones succeeded. */
  lastFailure: { at: Instant; reason: string } | null
}

export const SECRET_PREFIX = 'sse_whsec_'
export const SECRET_BYTES = 32

/** A secret made of random bytes. The whole text, prefix included, is the key of the signature. */
export const secretOf = (random: Uint8Array): string =>
  SECRET_PREFIX + random.toBase64({ alphabet: 'base64url', omitPadding: true })

/** Registers a webhook: a new secret, counters at zero, the date of the first registration. */
export function register(current: Webhook | null, url: string, secret: string, now: Instant): Webhook {
  return {
    url,
    secret,
    status: 'active',
    createdAt: current?.createdAt ?? now,
    updatedAt: now,
    lastDeliveredAt: null,
    lastStatusCode: null,
    consecutiveFailures: 0,
    lastFailure: null,
  }
}

// When repeated failures pause a webhook, and how the pause ends.

export const FAILURES_TO_PAUSE = 10

/** How an attempt ended. `statusCode` is null when no answer came; `reason` is null after a success. */
export type Attempt = { statusCode: number | null; reason: string | null; durationMs: number }

const shortened = (reason: string): string => [...reason].slice(0, FAILURE_REASON_MAX).join('')

/** Records an attempt: a success clears the failures, and too many in a row pause the webhook. */
export function noteAttempt(current: Webhook, attempt: Attempt, now: Instant): Webhook {
  const lastStatusCode = attempt.statusCode ?? current.lastStatusCode
  if (attempt.reason === null)
    return { ...current, lastStatusCode, lastDeliveredAt: now, consecutiveFailures: 0 }
  const consecutiveFailures = current.consecutiveFailures + 1
  const lastFailure = { at: now, reason: shortened(attempt.reason) }
  const failing = { ...current, lastStatusCode, consecutiveFailures, lastFailure }
  if (consecutiveFailures < FAILURES_TO_PAUSE || current.status === 'paused') return failing
  return { ...failing, status: 'paused', updatedAt: now }
}

/** Lifts a pause: the secret stays, and the count of failures starts at zero again. */
export function resume(current: Webhook, now: Instant): Webhook {
  return current.status === 'active'
    ? current
    : { ...current, status: 'active', updatedAt: now, consecutiveFailures: 0 }
}

// The one event of webhooks: a wake-up for a tenant, never an instruction.

export const EVENT_NAME = 'executions.available'

/** The content of a wake-up: its tenant, how many executions the pass created for it, and the first of them. */
export type Announcement = {
  tenant: Pick<Tenant, 'partnerSlug' | 'environment'>
  count: number
  earliest: ExecutionId
}
export type WakeUp = Announcement & { tenant: Tenant }

export const PAYLOAD_FIELDS: readonly string[] = [
  'event',
  'partner_slug',
  'environment',
  'count',
  'earliest_execution_id',
]

export const payloadOf = ({ tenant, count, earliest }: Announcement): string =>
  JSON.stringify({
    event: EVENT_NAME,
    ...tenantJson(tenant),
    count,
    earliest_execution_id: earliest,
  })

/** The execution id in a test wake-up, which announces none. */
export const NO_EXECUTION = `exec_${'0'.repeat(32)}` as ExecutionId

/** A test wake-up: it has the usual form, but there is nothing to poll for. */
export const testOf = (tenant: Tenant): WakeUp => ({ tenant, count: 0, earliest: NO_EXECUTION })

/** A real wake-up always announces executions. */
export const isTest = ({ count }: Pick<Announcement, 'count'>): boolean => count === 0

export const DELIVERIES_KEPT = 100

export type Delivered = Attempt &
  Pick<Announcement, 'count' | 'earliest'> & {
    endedAt: Instant
    /** The scheme, host and port of its address: the rest may hold a secret. */
    origin: string
  }

export const deliveredAt = (
  { count, earliest, webhook }: Pick<Announcement, 'count' | 'earliest'> & { webhook: { url: string } },
  attempt: Attempt,
  now: Instant,
): Delivered => ({
  endedAt: now,
  count,
  earliest,
  origin: new URL(webhook.url).origin,
  statusCode: attempt.statusCode,
  reason: attempt.reason === null ? null : shortened(attempt.reason),
  durationMs: attempt.durationMs,
})

// Limits of tests: their answers tell whether something listens at an address, and how it fails.

export const TESTS_PER_MINUTE = 5

/** How long the next test must wait after those that ended at `tests`, the newest first. */
export function waitForTest(tests: readonly Instant[], now: Instant): number {
  const oldest = tests[TESTS_PER_MINUTE - 1]
  // A test in the future was recorded before the clock was set back.
  if (oldest === undefined || oldest > now) return 0
  return Math.max(0, oldest + MINUTE_MS - now)
}
