// Authentication: the Authorization header to a tenant, and the optional throttle per key.

import { createHash } from 'node:crypto'
import type { Instant } from '../core/instant.ts'
import { isUsable, isWellFormedKey, KEY_USED_STEP_MS, type KeySeen } from '../core/key.ts'
import type { KeyStore } from '../store/keys.ts'
import { Refusal } from './refusal.ts'

const HEADER = /^Bearer (\S+)$/
const CHALLENGE = { 'www-authenticate': 'Bearer' }

/** Resolves a key to its partner and environment. Throws a Refusal: 401 or 403. */
export async function authenticate(
  store: Pick<KeyStore, 'findKey'>,
  header: string | null,
  now: Instant,
): Promise<KeySeen> {
  const key = HEADER.exec(header ?? '')?.[1]
  if (key === undefined) throw new Refusal(401, 'Expected Authorization: Bearer <key>', CHALLENGE)
  const seen = isWellFormedKey(key) ? await store.findKey(keyHash(key)) : null
  if (!seen || !isUsable(seen.key, now)) throw new Refusal(401, 'Invalid API key.', CHALLENGE)
  if (seen.partnerStatus !== 'active') throw new Refusal(403, 'Partner is not active.')
  return seen
}

/** What is kept of a key. Its 238 random bits need no salt and no slow hash. */
export const keyHash = (key: string): string => createHash('sha256').update(key).digest('hex')

/** Whether the key's last-used mark is old enough to be renewed. */
export const isUseStale = ({ key }: KeySeen, now: Instant): boolean =>
  key.lastUsedAt === null || Math.abs(now - key.lastUsedAt) >= KEY_USED_STEP_MS

/** A token bucket per key: `perSecond` requests a second, as many at once. Throws a Refusal: 429. */
export function createThrottle(perSecond: number): (keyId: string, now: Instant) => void {
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
