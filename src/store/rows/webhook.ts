// A webhook: the row and the value, and back.

import type { Webhook } from '../../core/webhook.ts'
import { withDigest } from '../digests.ts'
import { instant, instantOrNull } from './instant.ts'

export type WebhookRow = {
  url: string
  secret: string
  status: string
  created_at: bigint
  updated_at: bigint
  last_delivered_at: bigint | null
  last_status_code: bigint | null
  consecutive_failures: bigint
  last_failed_at: bigint | null
  last_failure_reason: string | null
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
  lastFailure:
    row.last_failed_at === null || row.last_failure_reason === null
      ? null
      : { at: instant(row.last_failed_at), reason: row.last_failure_reason },
})
export const webhookParams = (tenantId: number, webhook: Webhook) =>
  withDigest('webhooks', {
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
  })
