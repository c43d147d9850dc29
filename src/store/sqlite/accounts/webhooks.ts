// Webhooks, and handing out the wake-ups that were written for them.

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { Webhook } from '../../../core/webhook.ts'
import { type WebhookRow, webhookOf, webhookParams } from '../../rows/webhook.ts'
import { PUT_WEBHOOK } from '../../sql/accounts.ts'
import type { WebhookStore } from '../../webhooks.ts'
import type { Connection } from '../file/connection.ts'
import type { AuditLog } from './audit.ts'
import { tenantsById } from './tenants.ts'

export function createWebhookStore({ db, read, write }: Connection, audit: AuditLog): WebhookStore {
  const sql = {
    find: db.prepare<[number], WebhookRow>('select * from webhooks where tenant_id = ?'),
    put: db.prepare(PUT_WEBHOOK),
    claim: db.prepare<object, { tenant_id: bigint; count: bigint; earliest_execution_id: string }>(
      `update webhook_events set claimed_at = :now where tick_id = :tick_id and claimed_at is null
       returning tenant_id, count, earliest_execution_id`,
    ),
    delete: db.prepare('delete from webhooks where tenant_id = ?'),
  }
  const tenantById = tenantsById(db)
  const find = (tenantId: number) => {
    const row = sql.find.get(tenantId)
    return row ? webhookOf(row) : null
  }

  const put = (tenant: Tenant, webhook: Webhook): void => {
    sql.put.run({ tenant: tenant.tenantId, ...webhookParams(webhook) })
  }

  return {
    findWebhook: (tenant) => read(() => find(tenant.tenantId)),

    changeWebhook: (tenant, decide, entry) =>
      write((now) => {
        const webhook = decide(find(tenant.tenantId), now)
        put(tenant, webhook)
        if (entry) audit.add(entry, now)
        return webhook
      }),

    claimWakeUps: (passId) =>
      write((now) =>
        sql.claim.all({ tick_id: passId, now }).flatMap((row) => {
          const tenant = tenantById(Number(row.tenant_id))
          const webhook = find(tenant.tenantId)
          if (webhook?.status !== 'active') return []
          return [
            { tenant, webhook, count: Number(row.count), earliest: row.earliest_execution_id as ExecutionId },
          ]
        }),
      ),

    // A pass belongs to one process: wake-ups that it had not sent when it died would come too late.
    hasLeftWakeUps: async () => false,

    noteAttempt: (tenant, attempted, decide) =>
      write((now) => {
        const seen = find(tenant.tenantId)
        // Every registration has a new secret: a result for an older one says nothing about this one.
        if (seen?.secret !== attempted.secret) return seen
        const webhook = decide(seen, now)
        put(tenant, webhook)
        return webhook
      }),

    deleteWebhook: (tenant) => write(() => sql.delete.run(tenant.tenantId).changes > 0),
  }
}
