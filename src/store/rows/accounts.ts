// Rows and values of partners, tenants, keys, users, tiers, webhooks and the audit log.

import type { ExecutionId } from '../../core/execution.ts'
import type { Tier } from '../../core/fees.ts'
import type { ApiKey, KeyFacts } from '../../core/key.ts'
import type { Usd } from '../../core/money.ts'
import type { Environment, Partner, PartnerStatus, Tenant } from '../../core/partner.ts'
import { type Instant, plus } from '../../core/time.ts'
import type { User, UserStatus } from '../../core/user.ts'
import type { Delivered, Webhook } from '../../core/webhook.ts'
import { instant, instantOrNull } from '../statement.ts'
import type { AuditEntry, Consent, ListedAuditEntry, NewKey } from '../store.ts'
import type { NewRow, RowOf } from '../tables.ts'

export const partnerOf = (row: RowOf<'partners'>): Partner => ({
  partnerSlug: row.partner_slug,
  name: row.name,
  status: row.status as PartnerStatus,
  minTranche: row.min_tranche as Usd,
  held: row.held === 1n,
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
})
export const partnerParams = (partner: Partner): NewRow<'partners'> => ({
  partner_slug: partner.partnerSlug,
  name: partner.name,
  status: partner.status,
  min_tranche: partner.minTranche,
  held: partner.held ? 1 : 0,
  created_at: partner.createdAt,
  updated_at: partner.updatedAt,
})

export type TenantRow = RowOf<'tenants'>
export const tenantOf = (row: TenantRow): Tenant => ({
  tenantId: Number(row.tenant_id),
  partnerSlug: row.partner_slug,
  environment: row.environment as Environment,
})

type KeyRow = TenantRow & Omit<RowOf<'api_keys'>, 'key_sha256'>
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
type SeenKeyRow = KeyRow & { key_sha256: string; partner_name: string; partner_status: string }
/** The facts that authentication needs about a key, and the hash of its secret. */
export const seenKeyOf = (row: SeenKeyRow): Omit<KeyFacts, 'now'> & { sha256: string } => ({
  sha256: row.key_sha256,
  key: keyOf(row),
  partnerName: row.partner_name,
  partnerStatus: row.partner_status as PartnerStatus,
})
/** For a key that is added at `now`. */
export const keyParams = (key: NewKey, now: Instant) =>
  ({
    key_id: key.keyId,
    tenant_id: key.tenant.tenantId,
    key_sha256: key.sha256,
    prefix: key.prefix,
    last_four: key.lastFour,
    label: key.label,
    created_at: now,
    expires_at: key.lifetimeMs === null ? null : plus(now, key.lifetimeMs),
  }) satisfies NewRow<'api_keys'>
/** For a key that is changed. */
export const changedKeyParams = ({ keyId, label, expiresAt, revokedAt }: ApiKey) => ({
  key_id: keyId,
  label,
  expires_at: expiresAt,
  revoked_at: revokedAt,
})

export type UserRow = Omit<RowOf<'users'>, 'tenant_id'>
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
/** For a tenant's user; `row` is the stored row, if there is one. */
export const userParams = (user: User, tenantId: number, row: UserRow | undefined) =>
  ({
    tenant_id: tenantId,
    partner_user_id: user.partnerUserId,
    email: user.email,
    auth_provider: user.authProvider,
    consent_version: user.consentVersion,
    consent_timestamp: user.consentTimestamp,
    status: user.status,
    created_at: user.createdAt,
    updated_at: user.updatedAt,
    erased_at: row ? row.erased_at : null,
  }) satisfies NewRow<'users'> & Pick<UserRow, 'erased_at'>
export const consentParams = (user: User, userId: bigint, now: Instant) =>
  ({
    user_id: userId,
    consent_version: user.consentVersion,
    consent_timestamp: user.consentTimestamp,
    received_at: now,
  }) satisfies NewRow<'consents'>

export const listedUserOf = (row: UserRow & TenantRow) => ({
  ...userOf(row),
  tenant: tenantOf(row),
  erasedAt: instantOrNull(row.erased_at),
  cursor: Number(row.user_id),
})

export const consentOf = (row: RowOf<'consents'>): Consent => ({
  version: row.consent_version,
  timestamp: instant(row.consent_timestamp),
  receivedAt: instant(row.received_at),
})

export const tierOf = (row: RowOf<'tiers'>): Tier => ({
  name: row.name,
  fromMonth: row.from_month,
  place: Number(row.place),
  minVolume: row.min_volume_usd as Usd | null,
  rateBps: Number(row.rate_bps),
  perActiveUser: row.per_active_user_usd as Usd,
  monthlyMinimum: row.monthly_minimum_usd as Usd,
})
export const tierParams = (tier: Tier) =>
  ({
    name: tier.name,
    from_month: tier.fromMonth,
    place: tier.place,
    min_volume_usd: tier.minVolume,
    rate_bps: tier.rateBps,
    per_active_user_usd: tier.perActiveUser,
    monthly_minimum_usd: tier.monthlyMinimum,
  }) satisfies NewRow<'tiers'>

export type WebhookRow = Omit<RowOf<'webhooks'>, 'tenant_id'>
export const webhookOf = (row: WebhookRow): Webhook => ({
  url: row.url,
  secret: row.secret,
  status: row.status as Webhook['status'],
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
  lastDeliveredAt: instantOrNull(row.last_delivered_at),
  lastStatusCode: row.last_status_code === null ? null : Number(row.last_status_code),
  consecutiveFailures: Number(row.consecutive_failures),
  lastFailure:
    row.last_failed_at === null || row.last_failure_reason === null
      ? null
      : { at: instant(row.last_failed_at), reason: row.last_failure_reason },
})
export const webhookParams = (tenantId: number, webhook: Webhook) =>
  ({
    tenant_id: tenantId,
    url: webhook.url,
    secret: webhook.secret,
    status: webhook.status,
    created_at: webhook.createdAt,
    updated_at: webhook.updatedAt,
    last_delivered_at: webhook.lastDeliveredAt,
    last_status_code: webhook.lastStatusCode,
    consecutive_failures: webhook.consecutiveFailures,
    last_failed_at: webhook.lastFailure?.at ?? null,
    last_failure_reason: webhook.lastFailure?.reason ?? null,
  }) satisfies NewRow<'webhooks'>

export const deliveryOf = (row: RowOf<'webhook_deliveries'>): Delivered => ({
  endedAt: instant(row.ended_at),
  count: Number(row.count),
  earliest: row.earliest_execution_id as ExecutionId,
  origin: row.origin,
  statusCode: row.status_code === null ? null : Number(row.status_code),
  reason: row.failure_reason,
  durationMs: Number(row.duration_ms),
})
/** For a statement that numbers the tenant's deliveries. */
export const deliveryParams = (
  sent: Delivered,
): Omit<NewRow<'webhook_deliveries'>, 'tenant_id' | 'number'> => ({
  ended_at: sent.endedAt,
  count: sent.count,
  earliest_execution_id: sent.earliest,
  origin: sent.origin,
  status_code: sent.statusCode,
  failure_reason: sent.reason,
  duration_ms: sent.durationMs,
})

type AuditRow = RowOf<'audit'> & { partner_slug: string | null }
export const auditEntryOf = (row: AuditRow): ListedAuditEntry => ({
  auditId: Number(row.audit_id),
  at: instant(row.at),
  osUser: row.os_user,
  action: row.action,
  subject: row.subject,
  detail: detailIn(row.detail),
  partnerSlug: row.partner_slug,
})
/** A damaged entry must not hide the others. */
function detailIn(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch {
    return { damaged: text }
  }
}
export const auditParams = ({ osUser, action, subject, detail }: AuditEntry, now: Instant) =>
  ({ at: now, os_user: osUser, action, subject, detail: JSON.stringify(detail) }) satisfies NewRow<'audit'>
