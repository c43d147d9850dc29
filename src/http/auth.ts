// Authentication: from the Authorization header to a partner and its environment.

import { admit } from '../core/admit-call.ts'
import type { Instant } from '../core/instant.ts'
import { isWellFormedKey, KEY_USED_STEP_MS, type KeySeen } from '../core/key.ts'
import { keyHash } from '../keys.ts'
import type { KeyStore } from '../store/keys.ts'
import { CHALLENGE, Refusal } from './refusal.ts'

const HEADER = /^Bearer (\S+)$/

// Made once: to collect a stack for each would cost more than all else that is done for such a call.
/** The header is missing or malformed. */
export const NO_KEY = new Refusal(401, 'Expected Authorization: Bearer <key>', CHALLENGE)
/** There is no such key. */
export const INVALID_KEY = new Refusal(401, 'Invalid API key.', CHALLENGE)

/** The key in a header, well formed or not; null when the header has none. */
export const keyIn = (header: string | null): string | null => HEADER.exec(header ?? '')?.[1] ?? null

/** Resolves a key to its partner and environment. Throws a Refusal with 401, and what `admit` throws. */
export async function authenticate(
  store: Pick<KeyStore, 'findKey'>,
  header: string | null,
): Promise<KeySeen> {
  const key = keyIn(header)
  if (key === null) throw NO_KEY
  const seen = isWellFormedKey(key) ? await store.findKey(keyHash(key)) : null
  if (seen === null) throw INVALID_KEY
  admit(seen)
  return seen
}

/** Whether the key's last-used mark is old enough to be renewed. */
export const isUseStale = ({ key }: KeySeen, now: Instant): boolean =>
  key.lastUsedAt === null || Math.abs(now - key.lastUsedAt) >= KEY_USED_STEP_MS
