// Erasures, remembered outside the database that they were made in: a database that is put back from a copy does not
// bring back what was erased (docs/decisions/file.md#erasures-are-remembered-beside-the-database).

import { createHmac } from 'node:crypto'
import type { Tenant } from '../core/partner.ts'
import { formatInstant, type Instant } from '../core/time.ts'

/** Which user, as a hash, and which erasure: each of a user is dated after the one before it. */
export type Erasure = { sha256: string; at: Instant }

/**
 * Meaningless without the database: it is keyed with the stored hash of an API key of the tenant. Every copy that has
 * the user has that hash, because linking a user takes a key.
 */
export const erasureHash = (
  keySha256: string,
  { partnerSlug, environment }: Pick<Tenant, 'partnerSlug' | 'environment'>,
  partnerUserId: string,
): string =>
  createHmac('sha256', Buffer.from(keySha256, 'hex'))
    .update(JSON.stringify([partnerSlug, environment, partnerUserId]))
    .digest('hex')

/** The latest erasure per hash. */
export function latestErasures(erasures: readonly Erasure[]): Map<string, Instant> {
  const latest = new Map<string, Instant>()
  for (const { sha256, at } of erasures) latest.set(sha256, Math.max(at, latest.get(sha256) ?? at) as Instant)
  return latest
}

// As lines of a file. One that was cut off by a crash was never answered.

export const erasureLine = ({ sha256, at }: Erasure): string => `${sha256} ${formatInstant(at)}\n`

const LINE = /^([0-9a-f]{64}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/gm

/** How many lines are damaged or cut off, so that their users are unknown. */
export const unreadErasuresIn = (text: string): number =>
  text.split('\n').filter((line) => line !== '').length - erasuresIn(text).length

export const erasuresIn = (text: string): Erasure[] =>
  [...text.matchAll(LINE)].map(([, sha256 = '', at = '']) => ({ sha256, at: Date.parse(at) as Instant }))
