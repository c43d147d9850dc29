// Webhooks, and the wake-ups that are sent to them.

import type { Instant } from '../core/instant.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { WakeUp } from '../core/wake-up.ts'
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
  /**
   * Hands out the wake-ups that a pass wrote, each exactly once, with the registrations to send them to. Where
   * `hasLeftWakeUps` reports that earlier passes have left some, these are included; those of other passes are not.
   */
  claimWakeUps(passId: number): Promise<(WakeUp & { webhook: Webhook })[]>
  /**
   * Whether a pass, or an earlier one, has left wake-ups that nobody has claimed. False in a store where a crash leaves
   * none to others.
   */
  hasLeftWakeUps(passId: number): Promise<boolean>
  /** Records how an attempt ended, unless the webhook was replaced meanwhile. Returns the webhook as it is now. */
  noteAttempt(
    tenant: Tenant,
    attempted: Webhook,
    decide: (seen: Webhook, now: Instant) => Webhook,
  ): Promise<Webhook | null>
}
