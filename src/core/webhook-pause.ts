// When failures in a row pause a webhook, and how the pause is lifted.

import type { Instant } from './instant.ts'
import { FAILURE_REASON_MAX } from './text-lengths.ts'
import type { Webhook } from './webhook.ts'

/** Failures in a row after which a webhook is paused. */
export const FAILURES_TO_PAUSE = 10

/** How an attempt ended. `statusCode` is null when no answer came; `reason` is null when it counts as delivered. */
export type Attempt = { statusCode: number | null; reason: string | null }

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

/** Lifts a pause: the same secret, and as many failures to the next one as at the start. */
export function resume(seen: Webhook, now: Instant): Webhook {
  return seen.status === 'active'
    ? seen
    : { ...seen, status: 'active', updatedAt: now, consecutiveFailures: 0 }
}
