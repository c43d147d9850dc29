// The end of an API key: rotation, which gives it a successor, and revocation.

import { earlier, plus } from './instant.ts'
import { type ApiKey, isUsable, type KeyTerms, type KeyTime } from './key.ts'
import { Problem } from './problem.ts'

/**
 * Replaces a key: the old one ends when the overlap does, or earlier if it would have anyway. Its successor has the
 * same tenant, label and length of life. A second successor would take its length of life from what the overlap left of
 * the first, and end soon as well. Throws key_ended.
 */
export function rotate(
  seen: ApiKey,
  overlapMs: number,
  { now, clock, isRotated }: KeyTime,
): { key: ApiKey; successor: KeyTerms } {
  if (!isUsable(seen, now)) {
    throw new Problem(
      'key_ended',
      `Key ${seen.keyId} is revoked or expired; issue a new one with key create.`,
    )
  }
  const { tenant, label, createdAt, expiresAt } = seen
  if (isRotated) {
    const create = `tranche key create ${tenant.partnerSlug} --env ${tenant.environment}`
    throw new Problem(
      'key_ended',
      `Key ${seen.keyId} has a successor, which \`tranche key list ${tenant.partnerSlug}\` shows. If nobody has its secret any more, issue another with \`${create}\`.`,
    )
  }
  const end = plus(clock, overlapMs)
  return {
    key: { ...seen, expiresAt: expiresAt === null ? end : earlier(expiresAt, end) },
    successor: { tenant, label, lifetimeMs: expiresAt === null ? null : expiresAt - createdAt },
  }
}

/** Ends a key at once. One that is revoked already stays as it is. */
export const revoke = (seen: ApiKey, { clock }: KeyTime): ApiKey => ({
  ...seen,
  revokedAt: seen.revokedAt ?? clock,
})
