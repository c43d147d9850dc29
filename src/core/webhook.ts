// Webhook registrations, and when their failures pause them.

import type { Instant } from './instant.ts'

export const WEBHOOK_URL_MAX = 2083
/** Failures in a row after which a webhook is paused, and after which an operator is warned. */
export const FAILURES_TO_PAUSE = 10
export const FAILURES_TO_WARN = 5
/** Some of what a reason says is the receiver's: the names in its certificate, say. */
const FAILURE_REASON_MAX = 500

export type Webhook = {
  url: string
  secret: string
  status: 'active' | 'paused'
  createdAt: Instant
  updatedAt: Instant
  lastDeliveredAt: Instant | null
  lastStatusCode: number | null
  consecutiveFailures: number
  /** Of the last attempt that failed, also when later ones did not. */
  lastFailure: { at: Instant; reason: string } | null
}

const SECRET_PREFIX = 'sse_whsec_'
export const SECRET_BYTES = 32

/** A secret made of so many random bytes. All of it is the key of a signature, the prefix included. */
export const secretOf = (random: Uint8Array): string =>
  SECRET_PREFIX + Buffer.from(random).toString('base64url')

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
    lastFailure: null,
  }
}

/** Lifts a pause: the same secret, and as many failures to the next one as at the start. */
export function resume(seen: Webhook, now: Instant): Webhook {
  return seen.status === 'active'
    ? seen
    : { ...seen, status: 'active', updatedAt: now, consecutiveFailures: 0 }
}

/** Enters an attempt: a success clears the failures, too many in a row pause the webhook. */
export function noteAttempt(seen: Webhook, attempt: Attempt, now: Instant): Webhook {
  const lastStatusCode = attempt.statusCode ?? seen.lastStatusCode
  if (attempt.reason === null)
    return { ...seen, lastStatusCode, lastDeliveredAt: now, consecutiveFailures: 0 }
  const consecutiveFailures = seen.consecutiveFailures + 1
  const lastFailure = { at: now, reason: [...attempt.reason].slice(0, FAILURE_REASON_MAX).join('') }
  const failing = { ...seen, lastStatusCode, consecutiveFailures, lastFailure }
  if (consecutiveFailures < FAILURES_TO_PAUSE || seen.status === 'paused') return failing
  return { ...failing, status: 'paused', updatedAt: now }
}
