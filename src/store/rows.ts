// Rows to values: partners, keys, users, plans, webhooks. Snake case, integers of SQL and nullable column groups
// stop here; what belongs to the ledger is in ledger-rows.ts.

import type { Frequency } from '../core/frequency.ts'
import type { Instant } from '../core/instant.ts'
import type { ApiKey } from '../core/key.ts'
import type { Usd } from '../core/money.ts'
import type { Environment, Partner, PartnerStatus, Tenant } from '../core/partner.ts'
import type { Plan, PlanStatus } from '../core/plan.ts'
import type { User, UserStatus } from '../core/user.ts'
import type { Webhook } from '../core/webhook.ts'

export const instant = (value: bigint): Instant => Number(value) as Instant
export const instantOrNull = (value: bigint | null): Instant | null =>
  value === null ? null : instant(value)

export type TenantRow = { tenant_id: bigint; partner_slug: string; environment: string }
export const tenantOf = (row: TenantRow): Tenant => ({
  tenantId: Number(row.tenant_id),
  partnerSlug: row.partner_slug,
  environment: row.environment as Environment,
})

export type PartnerRow = {
  partner_slug: string
  name: string
  status: string
  min_tranche: bigint
  held: bigint
  created_at: bigint
  updated_at: bigint
}
export const partnerOf = (row: PartnerRow): Partner => ({
  partnerSlug: row.partner_slug,
  name: row.name,
  status: row.status as PartnerStatus,
  minTranche: row.min_tranche as Usd,
  held: row.held === 1n,
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
})

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

export type PlanRow = {
  plan_id: bigint
  partner_user_id: string
  partner_plan_id: string
  amount_usd: bigint
  frequency: string
  smart_timing_enabled: bigint
  start_date: bigint
  status: string
  created_at: bigint
  updated_at: bigint
}
export const planOf = (row: PlanRow): Plan => ({
  planId: Number(row.plan_id),
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  amount: row.amount_usd as Usd,
  frequency: row.frequency as Frequency,
  smartTimingEnabled: row.smart_timing_enabled === 1n,
  startDate: instant(row.start_date),
  status: row.status as PlanStatus,
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
})

export type WebhookRow = {
  url: string
  secret: string
  status: string
  created_at: bigint
  updated_at: bigint
  last_delivered_at: bigint | null
  last_status_code: bigint | null
  consecutive_failures: bigint
}
export const webhookOf = (row: WebhookRow): Webhook => ({
  url: row.url,
  secret: row.secret,
  status: row.status as Webhook['status'],
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
  lastDeliveredAt: instantOrNull(row.last_delivered_at),
  lastStatusCode: row.last_status_code === null ? null : Number(row.last_status_code),
  consecutiveFailures: Number(row.consecutive_failures),
})
