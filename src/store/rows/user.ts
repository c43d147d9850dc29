// A user and its consents: the rows and the values, and back.

import type { Instant } from '../../core/instant.ts'
import type { User, UserStatus } from '../../core/user.ts'
import { intact, withDigest } from '../digests.ts'
import type { Consent } from '../users.ts'
import { instant, instantOrNull } from './instant.ts'
import { type TenantRow, tenantOf } from './tenant.ts'

export type UserRow = {
  user_id: bigint
  partner_user_id: string
  email: string | null
  auth_provider: string | null
  consent_version: string
  consent_timestamp: bigint
  status: string
  created_at: bigint
  updated_at: bigint
  erased_at: bigint | null
}
export const userOf = (row: UserRow): User => ({
  partnerUserId: row.partner_user_id,
  email: row.email,
  authProvider: row.auth_provider,
  consentVersion: row.consent_version,
  consentTimestamp: instant(row.consent_timestamp),
  status: row.status as UserStatus,
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
})
/** Of a tenant's user whose row, if there is one, was read as `row`. Throws DamagedRow. */
export const userParams = (user: User, tenantId: number, row: UserRow | undefined) =>
  withDigest('users', {
    tenant_id: tenantId,
    erased_at: row ? intact('users', row).erased_at : null,
    partner_user_id: user.partnerUserId,
    email: user.email,
    auth_provider: user.authProvider,
    consent_version: user.consentVersion,
    consent_timestamp: user.consentTimestamp,
    status: user.status,
    created_at: user.createdAt,
    updated_at: user.updatedAt,
  })
/** Of a user that is erased at `now`, whose row was read as `row`. Throws DamagedRow. */
export const erasedParams = (row: UserRow, now: Instant) =>
  withDigest('users', {
    ...intact('users', row),
    email: null,
    auth_provider: null,
    erased_at: now,
    updated_at: now,
  })
export const consentParams = (user: User, userId: bigint, now: Instant) =>
  withDigest('consents', {
    user_id: userId,
    consent_version: user.consentVersion,
    consent_timestamp: user.consentTimestamp,
    received_at: now,
  })

export type ListedUserRow = UserRow & TenantRow
export const listedUserOf = (row: ListedUserRow) => ({
  ...userOf(row),
  tenant: tenantOf(row),
  erasedAt: instantOrNull(row.erased_at),
  cursor: Number(row.user_id),
})

export type ConsentRow = { consent_version: string; consent_timestamp: bigint; received_at: bigint }
export const consentOf = (row: ConsentRow): Consent => ({
  version: row.consent_version,
  timestamp: instant(row.consent_timestamp),
  receivedAt: instant(row.received_at),
})
