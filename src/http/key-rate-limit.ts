// The rate limit: how many requests a second each key may make.

import type { Instant } from '../core/instant.ts'
import { Refusal } from './refusal.ts'

/** A token bucket per key: `perSecond` requests a second, and as many at once. Throws a Refusal: 429. */
export function createRateLimit(perSecond: number): (keyId: string, now: Instant) => void {
  const buckets = new Map<string, { tokens: number; at: Instant }>()
  return (keyId, now) => {
    const bucket = buckets.get(keyId) ?? { tokens: perSecond, at: now }
    const elapsed = Math.max(0, now - bucket.at) / 1000
    const tokens = Math.min(perSecond, bucket.tokens + elapsed * perSecond)
    if (tokens < 1) {
      buckets.set(keyId, { tokens, at: now })
      const wait = Math.max(1, Math.ceil((1 - tokens) / perSecond))
      throw new Refusal(429, 'Too many requests.', { 'retry-after': String(wait) })
    }
    buckets.set(keyId, { tokens: tokens - 1, at: now })
  }
}
