// Authentication: from the Authorization header to a partner and its environment.

import type { Instant } from '../core/instant.ts'
import { isUsable, isWellFormedKey, KEY_USED_STEP_MS, type KeySeen } from '../core/key.ts'
import { keyHash } from '../keys.ts'
import type { KeyStore } from '../store/keys.ts'
import { Refusal } from './refusal.ts'

const HEADER = /^Bearer (\S+)$/
const CHALLENGE = { 'www-authenticate': 'Bearer' }

/** Resolves a key to its partner and environment. Throws a Refusal: 401 or 403. */
export async function authenticate(
  store: Pick<KeyStore, 'findKey'>,
  header: string | null,
): Promise<KeySeen> {
  const key = HEADER.exec(header ?? '')?.[1]
  if (key === undefined) throw new Refusal(401, 'Expected Authorization: Bearer <key>', CHALLENGE)
  const seen = isWellFormedKey(key) ? await store.findKey(keyHash(key)) : null
  if (!seen || !isUsable(seen.key, seen.now)) throw new Refusal(401, 'Invalid API key.', CHALLENGE)
  if (seen.partnerStatus !== 'active') throw new Refusal(403, 'Partner is not active.')
  return seen
}

/** Whether the key's last-used mark is old enough to be renewed. */
export const isUseStale = ({ key }: KeySeen, now: Instant): boolean =>
  key.lastUsedAt === null || Math.abs(now - key.lastUsedAt) >= KEY_USED_STEP_MS
