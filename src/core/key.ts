// API keys: issued, ended, and checked at every call. The whole key exists only in the answer that issues it, and
// cannot be recovered from what is stored.

import type { Environment, PartnerStatus, Tenant } from './partner.ts'
import { Problem, usage } from './problem.ts'
import { TEXT_MAX } from './text.ts'
import { earlier, HOUR_MS, type Instant, plus } from './time.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const SECRET_LENGTH = 40
const CHECKSUM_LENGTH = 6
const KEY_PATTERN = new RegExp(
  `^sse_(test|live)_([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`,
)
/** The largest byte below which `byte % 62` favours no character. */
const FAIR_BYTE_MAX = 247
/** How old a key's last-used mark may grow before a request renews it: long, so that most reads write nothing. */
export const KEY_USED_STEP_MS = HOUR_MS

export type ApiKey = {
  keyId: string
  tenant: Tenant
  prefix: string
  lastFour: string
  label: string | null
  createdAt: Instant
  expiresAt: Instant | null
  revokedAt: Instant | null
  lastUsedAt: Instant | null
}

export type KeyLife = Pick<ApiKey, 'expiresAt' | 'revokedAt'>
/** The facts that authentication needs about a key and its partner, and the time of the check. */
export type KeyFacts = { key: ApiKey; partnerName: string; partnerStatus: PartnerStatus; now: Instant }

/**
 * When a key is changed, and whether it was rotated before. `now` is never before the end of a reported month, and
 * decides which keys have ended. `clock` is the machine's time, and dates the key: a reported bound in the future would
 * move the key's end.
 */
export type KeyTime = { now: Instant; clock: Instant; isRotated: boolean }

/** 40 random base62 characters and a checksum, which reveals a typing error. `random` draws from a CSPRNG. */
export function makeKey(environment: Environment, random: (bytes: number) => Uint8Array): string {
  let secret = ''
  while (secret.length < SECRET_LENGTH) {
    for (const byte of random(SECRET_LENGTH))
      if (byte <= FAIR_BYTE_MAX && secret.length < SECRET_LENGTH) secret += BASE62[byte % 62]
  }
  const body = `sse_${environment}_${secret}`
  return body + checksum(body)
}

/** Whether a text is a key this service could have issued. */
export function isWellFormedKey(text: string): boolean {
  const parts = KEY_PATTERN.exec(text)
  return parts !== null && checksum(text.slice(0, -CHECKSUM_LENGTH)) === parts[3]
}

/** A revoked key is unusable, even if its revocation lies ahead of a clock that was set back. */
export const isUsable = ({ revokedAt, expiresAt }: KeyLife, now: Instant): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt > now)

/** The terms of a new key: its tenant, its label, and its lifetime; null for no end. */
export type KeyTerms = { tenant: Tenant; label: string | null; lifetimeMs: number | null }

export function keyLabel(given: string | undefined): string | null {
  if (given && [...given].length > TEXT_MAX) throw usage(`--label takes at most ${TEXT_MAX} characters.`)
  return given ?? null
}

/** The part of a key that may be shown: the prefix that names its environment, and its last four characters. */
export function visibleParts(key: string): { prefix: string; lastFour: string } {
  return { prefix: key.slice(0, 'sse_test_'.length), lastFour: key.slice(-4) }
}

function checksum(text: string): string {
  let rest = crc32(text)
  let out = ''
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    out = BASE62[rest % 62] + out
    rest = Math.floor(rest / 62)
  }
  return out
}

/** CRC-32 (ISO-HDLC) of an ASCII text. Core imports no `node:`, and a key is 49 characters: no table needed. */
function crc32(text: string): number {
  let crc = 0xffffffff
  for (let i = 0; i < text.length; i++) {
    crc ^= text.charCodeAt(i)
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  }
  return (crc ^ 0xffffffff) >>> 0
}

/**
 * Replaces a key: the old one ends after the overlap, or earlier if it would have anyway. Its successor has the same
 * tenant, label and lifetime. A second successor is refused: its lifetime would be the shortened one of the old key.
 * Throws key_ended.
 */
export function rotate(
  key: ApiKey,
  overlapMs: number,
  { now, clock, isRotated }: KeyTime,
): { key: ApiKey; successor: KeyTerms } {
  if (!isUsable(key, now))
    throw new Problem('key_ended', `Key ${key.keyId} is revoked or expired; issue a new one with key create.`)
  const { tenant, label, createdAt, expiresAt } = key
  if (isRotated) {
    const create = `tranche key create ${tenant.partnerSlug} --env ${tenant.environment}`
    throw new Problem(
      'key_ended',
      `Key ${key.keyId} has a successor, which \`tranche key list ${tenant.partnerSlug}\` shows. If nobody has its secret any more, issue another with \`${create}\`.`,
    )
  }
  const end = plus(clock, overlapMs)
  return {
    key: { ...key, expiresAt: expiresAt === null ? end : earlier(expiresAt, end) },
    successor: { tenant, label, lifetimeMs: expiresAt === null ? null : expiresAt - createdAt },
  }
}

/** Ends a key at once. A revoked key does not change. */
export const revoke = (key: ApiKey, { clock }: KeyTime): ApiKey => ({
  ...key,
  revokedAt: key.revokedAt ?? clock,
})

type Admitted = { key: KeyLife; partnerStatus: PartnerStatus; now: Instant }

/** Refuses a call whose key has ended or whose partner is disabled. Throws key_invalid and partner_disabled. */
export function admit(facts: Admitted | null): asserts facts is Admitted {
  if (!facts || !isUsable(facts.key, facts.now)) throw new Problem('key_invalid', 'Invalid API key.')
  if (facts.partnerStatus !== 'active') throw new Problem('partner_disabled', 'Partner is not active.')
}
