import { type WebhookRow, webhookOf } from '../rows.ts'
import type { WebhookStore } from '../store.ts'
import type { Connection } from './connection.ts'

export function createWebhookStore({ db, read, write }: Connection): WebhookStore {
  const sql = {
    find: db.prepare<[number], WebhookRow>('select * from webhooks where tenant_id = ?'),
    put: db.prepare(
      `insert or replace into webhooks (tenant_id, url, secret, status, created_at, updated_at, last_delivered_at,
         last_status_code, consecutive_failures)
       values (:tenant, :url, :secret, :status, :created_at, :updated_at, :last_delivered_at,
         :last_status_code, :consecutive_failures)`,
    ),
    delete: db.prepare('delete from webhooks where tenant_id = ?'),
  }
  const find = (tenantId: number) => {
    const row = sql.find.get(tenantId)
    return row ? webhookOf(row) : null
  }

  return {
    findWebhook: (tenant) => read(() => find(tenant.tenantId)),

    changeWebhook: (tenant, decide) =>
      write((now) => {
        const webhook = decide(find(tenant.tenantId), now)
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
        return webhook
      }),

    deleteWebhook: (tenant) => write(() => sql.delete.run(tenant.tenantId).changes > 0),
  }
}
