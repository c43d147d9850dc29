// Webhook registrations: what one holds, and how one is registered, with a new secret.

import type { Instant } from './instant.ts'

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
  /** Of the last attempt that failed, also when later ones did not. */
  lastFailure: { at: Instant; reason: string } | null
}

const SECRET_PREFIX = 'sse_whsec_'
export const SECRET_BYTES = 32

/** A secret made of so many random bytes. All of it is the key of a signature, the prefix included. */
export const secretOf = (random: Uint8Array): string =>
  SECRET_PREFIX + Buffer.from(random).toString('base64url')

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
