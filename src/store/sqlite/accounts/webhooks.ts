import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { Webhook } from '../../../core/webhook.ts'
import { type TenantRow, tenantOf, type WebhookRow, webhookOf } from '../../rows.ts'
import type { WebhookStore } from '../../store.ts'
import type { Connection } from '../file/connection.ts'

export function createWebhookStore({ db, read, write }: Connection): WebhookStore {
  const sql = {
    find: db.prepare<[number], WebhookRow>('select * from webhooks where tenant_id = ?'),
    put: db.prepare(
      `insert or replace into webhooks (tenant_id, url, secret, status, created_at, updated_at, last_delivered_at,
         last_status_code, consecutive_failures)
       values (:tenant, :url, :secret, :status, :created_at, :updated_at, :last_delivered_at,
         :last_status_code, :consecutive_failures)`,
    ),
    claim: db.prepare<object, { tenant_id: bigint; count: bigint; earliest_execution_id: string }>(
      `update webhook_events set claimed_at = :now where tick_id = :tick_id and claimed_at is null
       returning tenant_id, count, earliest_execution_id`,
    ),
    tenant: db.prepare<[bigint], TenantRow>('select * from tenants where tenant_id = ?'),
    delete: db.prepare('delete from webhooks where tenant_id = ?'),
  }
  const find = (tenantId: number) => {
    const row = sql.find.get(tenantId)
    return row ? webhookOf(row) : null
  }

  const put = (tenant: Tenant, webhook: Webhook): void => {
    sql.put.run({
      tenant: tenant.tenantId,
      url: webhook.url,
      secret: webhook.secret,
      status: webhook.status,
      created_at: webhook.createdAt,
      updated_at: webhook.updatedAt,
      last_delivered_at: webhook.lastDeliveredAt,
      last_status_code: webhook.lastStatusCode,
      consecutive_failures: webhook.consecutiveFailures,
    })
  }

  return {
    findWebhook: (tenant) => read(() => find(tenant.tenantId)),

    changeWebhook: (tenant, decide) =>
      write((now) => {
        const webhook = decide(find(tenant.tenantId), now)
        put(tenant, webhook)
        return webhook
      }),

    claimWakeUps: (passId) =>
      write((now) =>
        sql.claim.all({ tick_id: passId, now }).flatMap((row) => {
          const tenant = tenantOf(sql.tenant.get(row.tenant_id) as TenantRow)
          const webhook = find(tenant.tenantId)
          if (webhook?.status !== 'active') return []
          return [
            { tenant, webhook, count: Number(row.count), earliest: row.earliest_execution_id as ExecutionId },
          ]
        }),
      ),

    noteAttempt: (tenant, attempted, decide) =>
      write((now) => {
        const seen = find(tenant.tenantId)
        // The secret is new with every registration: a result for an older one says nothing of this one.
        if (seen?.secret !== attempted.secret) return seen
        const webhook = decide(seen, now)
        put(tenant, webhook)
        return webhook
      }),

    deleteWebhook: (tenant) => write(() => sql.delete.run(tenant.tenantId).changes > 0),
  }
}
