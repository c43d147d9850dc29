// The model's webhooks: one for each tenant, paused after ten failures in a row.

import { ANY_TEXT, type Expected, ok } from './answer.ts'
import { presentOf, type State, type Tenant } from './state.ts'
import { isoOrNull } from './units.ts'

export type Attempt = { statusCode: number | null; failure: string | null }

const json = ({ partner, environment, webhook }: Tenant) => ({
  partner_slug: partner.slug,
  environment,
  url: webhook?.url ?? null,
  status: webhook?.status ?? null,
  created_at: isoOrNull(webhook?.createdAt ?? null),
  updated_at: isoOrNull(webhook?.updatedAt ?? null),
  last_delivered_at: isoOrNull(webhook?.lastDeliveredAt ?? null),
  last_status_code: webhook?.lastStatusCode ?? null,
  consecutive_failures: webhook?.failures ?? null,
  ...(webhook?.lastFailure && {
    last_failed_at: isoOrNull(webhook.lastFailure.at),
    last_failure_reason: webhook.lastFailure.reason,
  }),
})

export function postWebhook(state: State, tenant: Tenant, url: string): Expected {
  const now = presentOf(state, tenant)
  state.registrations += 1
  tenant.webhook = {
    url,
    registration: state.registrations,
    status: 'active',
    createdAt: tenant.webhook?.createdAt ?? now,
    updatedAt: now,
    lastDeliveredAt: null,
    lastStatusCode: null,
    failures: 0,
    lastFailure: null,
  }
  return ok({ ...json(tenant), secret: ANY_TEXT })
}

export const getWebhook = (tenant: Tenant): Expected => ok(json(tenant))

export function deleteWebhook(tenant: Tenant): Expected {
  const { partner, environment, webhook } = tenant
  tenant.webhook = null
  return ok({ ok: true, partner_slug: partner.slug, environment, deleted: webhook !== null })
}

/** Enters how a wake-up went; one for an earlier registration says nothing of this one. */
export function note(state: State, tenant: Tenant, registration: number, attempt: Attempt): void {
  const { webhook } = tenant
  if (webhook?.registration !== registration) return
  const now = presentOf(state, tenant)
  webhook.lastStatusCode = attempt.statusCode ?? webhook.lastStatusCode
  if (attempt.failure === null) {
    webhook.lastDeliveredAt = now
    webhook.failures = 0
    return
  }
  webhook.failures += 1
  webhook.lastFailure = { at: now, reason: attempt.failure }
  if (webhook.failures < 10 || webhook.status === 'paused') return
  webhook.status = 'paused'
  webhook.updatedAt = now
}
