// Webhooks, and the wake-ups that are sent to them.

import type { Instant } from '../core/instant.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { WakeUp } from '../core/wake-up.ts'
import type { Webhook } from '../core/webhook.ts'
import type { AuditEntry } from './audit.ts'

export interface WebhookStore {
  findWebhook(tenant: Tenant): Promise<Webhook | null>
  /** With an entry of the audit log where it is an operator's change and not the partner's. */
  changeWebhook(
    tenant: Caller,
    decide: (seen: Webhook | null, now: Instant) => Webhook,
    audit?: AuditEntry,
  ): Promise<Webhook>
  /** Whether there was one to delete. */
  deleteWebhook(tenant: Caller): Promise<boolean>
  /**
   * Hands out the wake-ups a pass wrote, each once and never again, with the registrations to send them to; with them
   * those that passes before it have left, where `hasLeftWakeUps` tells of them. Those of other passes are not handed out.
   */
  claimWakeUps(passId: number): Promise<(WakeUp & { webhook: Webhook })[]>
  /** Whether a pass, or one before it, has left wake-ups that nobody has claimed. False where a crash leaves none to others. */
  hasLeftWakeUps(passId: number): Promise<boolean>
  /** Enters how an attempt ended, unless the webhook was replaced meanwhile. Answers the webhook as it now is. */
  noteAttempt(
    tenant: Tenant,
    attempted: Webhook,
    decide: (seen: Webhook, now: Instant) => Webhook,
  ): Promise<Webhook | null>
}
