// Webhooks, and how the attempts to reach them ended.

import type { Instant } from '../core/instant.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { Webhook } from '../core/webhook.ts'
import type { AuditEntry } from './audit.ts'

export interface WebhookStore {
  findWebhook(tenant: Tenant): Promise<Webhook | null>
  /** Given an audit entry when the change is an operator's and not the partner's. */
  changeWebhook(
    tenant: Caller,
    decide: (seen: Webhook | null, now: Instant) => Webhook,
    audit?: AuditEntry,
  ): Promise<Webhook>
  /** Returns whether there was one to delete. */
  deleteWebhook(tenant: Caller): Promise<boolean>
  /** Records how an attempt ended, unless the webhook was replaced meanwhile. Returns the webhook as it is now. */
  noteAttempt(
    tenant: Tenant,
    attempted: Webhook,
    decide: (seen: Webhook, now: Instant) => Webhook,
  ): Promise<Webhook | null>
}
