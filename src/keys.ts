// API keys as text: shown once, and recognised by their hash.

import { hash } from 'node:crypto'
import { type KeyTerms, makeKey, visibleParts } from './core/key.ts'
import type { Machine } from './machine.ts'
import type { NewKey } from './store/store.ts'

/** Makes a key: `secret` for its owner, `record` for the store. */
export function issueKey(
  terms: KeyTerms,
  { random }: Pick<Machine, 'random'>,
): { secret: string; record: NewKey } {
  const secret = makeKey(terms.tenant.environment, random)
  const keyId = `key_${Buffer.from(random(8)).toString('hex')}`
  return { secret, record: { keyId, sha256: keyHash(secret), ...visibleParts(secret), ...terms } }
}

/** The hash under which a key is stored. With 238 random bits it needs no salt and no slow hash. */
export const keyHash = (key: string): string => hash('sha256', key)
