// Webhook registrations: one for each tenant, a wake-up only.

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
}

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
