// An API key: the row and the value. The secret has no place in either.

import type { ApiKey } from '../../core/key.ts'
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
