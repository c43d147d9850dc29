// An API key: the row and the value, and back. The secret has no place in either.

import { type Instant, plus } from '../../core/instant.ts'
import type { ApiKey, KeySeen } from '../../core/key.ts'
import type { PartnerStatus } from '../../core/partner.ts'
import { intact, withDigest } from '../digests.ts'
import type { NewKey } from '../keys.ts'
import { instant, instantOrNull } from './instant.ts'
import { type TenantRow, tenantOf } from './tenant.ts'

export type KeyRow = TenantRow & {
  key_id: string
  prefix: string
  last_four: string
  label: string | null
  created_at: bigint
  expires_at: bigint | null
  revoked_at: bigint | null
  last_used_at: bigint | null
}
export const keyOf = (row: KeyRow): ApiKey => ({
  keyId: row.key_id,
  tenant: tenantOf(row),
  prefix: row.prefix,
  lastFour: row.last_four,
  label: row.label,
  createdAt: instant(row.created_at),
  expiresAt: instantOrNull(row.expires_at),
  revokedAt: instantOrNull(row.revoked_at),
  lastUsedAt: instantOrNull(row.last_used_at),
})
export type SeenKeyRow = KeyRow & { key_sha256: string; partner_name: string; partner_status: string }
/** What authentication has to know of a key. Throws DamagedRow. */
export const seenKeyOf = (row: SeenKeyRow): Omit<KeySeen, 'now'> => ({
  key: keyOf(intact('api_keys', row)),
  partnerName: row.partner_name,
  partnerStatus: row.partner_status as PartnerStatus,
})
/** For a key that is added at `now`. */
export const keyParams = (key: NewKey, now: Instant) =>
  withDigest('api_keys', {
    key_id: key.keyId,
    tenant_id: key.tenant.tenantId,
    key_sha256: key.sha256,
    prefix: key.prefix,
    last_four: key.lastFour,
    label: key.label,
    created_at: now,
    expires_at: key.lifetimeMs === null ? null : plus(now, key.lifetimeMs),
  })
/** For a key that is changed, whose row was read as `row`. Throws DamagedRow. */
export const changedKeyParams = (row: KeyRow, { label, expiresAt, revokedAt }: ApiKey) =>
  withDigest('api_keys', {
    ...intact('api_keys', row),
    label,
    expires_at: expiresAt,
    revoked_at: revokedAt,
  })
