// Authentication: from the Authorization header to a partner and its environment.

import { admit, isUsable, isWellFormedKey, KEY_USED_STEP_MS, type KeyFacts } from '../core/key.ts'
import { formatInstantOrNull, type Instant } from '../core/time.ts'
import { keyHash } from '../keys.ts'
import type { Log } from '../log.ts'
import type { KeyStore } from '../store/store.ts'
import { Refusal } from './error-codes.ts'

const HEADER = /^Bearer (\S+)$/

// Created once: collecting a stack for each would cost more than everything else such a call needs.
const NO_KEY = new Refusal('key_malformed', 'Expected Authorization: Bearer <key>')
const INVALID_KEY = new Refusal('key_invalid', 'Invalid API key.')

type Finding = { store: Pick<KeyStore, 'findKey'>; admit: Admit; atOnce?: boolean }

/** Resolves a key to its partner and environment. Throws a Refusal with 401, and what `admit` throws. */
export async function authenticate(
  header: string | null,
  { store, admit, atOnce = false }: Finding,
): Promise<KeyFacts> {
  const [, key] = HEADER.exec(header ?? '') ?? []
  if (key === undefined) throw NO_KEY
  const facts = isWellFormedKey(key) ? await store.findKey(keyHash(key), { atOnce }) : null
  if (facts === null) throw INVALID_KEY
  admit(facts)
  return facts
}

export type Admit = (caller: KeyFacts) => void

/** How often a key that has ended is logged: its sender decides how often it is used. */
const ENDED_KEY_EVERY_MS = 60_000

/** Admits calls, and logs those with a key that has ended, because its partner will ask about them. */
export function createAdmission(log: Log): Admit {
  const lines = new Map<string, { at: Instant; unsaid: number }>()
  return (caller) => {
    const { key, now } = caller
    if (!isUsable(key, now)) note(key, now)
    admit(caller)
  }

  function note({ keyId, tenant, revokedAt, expiresAt }: KeyFacts['key'], now: Instant): void {
    const line = lines.get(keyId)
    if (line && Math.abs(now - line.at) < ENDED_KEY_EVERY_MS) {
      line.unsaid += 1
      return
    }
    lines.set(keyId, { at: now, unsaid: 0 })
    const { partnerSlug: partner_slug, environment } = tenant
    const ended = revokedAt ?? expiresAt
    const what = { key_id: keyId, partner_slug, environment, ended_at: formatInstantOrNull(ended) }
    const how = revokedAt === null ? 'has expired' : 'is revoked'
    log.warn({ ...what, calls: 1 + (line?.unsaid ?? 0) }, `a call with a key that ${how}`)
  }
}

/** Whether the key's last-used mark is old enough to be renewed. */
export const isUseStale = ({ key }: KeyFacts, now: Instant): boolean =>
  key.lastUsedAt === null || Math.abs(now - key.lastUsedAt) >= KEY_USED_STEP_MS

/** After the use of a key could not be recorded, how long to wait before trying again. */
const NOTE_AGAIN_MS = 60_000

/** Records the use of a key beside the call, not before its answer: a read must not wait for a write lock. */
export function createUseNotes(log: Log): (store: Pick<KeyStore, 'markKeyUsed'>, caller: KeyFacts) => void {
  /** The keys whose last use is being written: one write for each, however many calls come meanwhile. */
  const beingNoted = new Set<string>()
  return (store, { key: { keyId, tenant } }) => {
    if (beingNoted.has(keyId)) return
    beingNoted.add(keyId)
    store
      .markKeyUsed(tenant, keyId)
      .then(() => beingNoted.delete(keyId))
      .catch((error) => {
        log.warn({ key_id: keyId, error: String(error) }, 'key use not noted')
        setTimeout(() => beingNoted.delete(keyId), NOTE_AGAIN_MS).unref()
      })
  }
}
