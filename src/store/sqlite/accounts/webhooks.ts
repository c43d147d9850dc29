// Webhooks: registrations, and how the attempts to reach them ended.

import type { Tenant } from '../../../core/partner.ts'
import type { Webhook } from '../../../core/webhook.ts'
import { intact } from '../../digests.ts'
import { type WebhookRow, webhookOf, webhookParams } from '../../rows/webhook.ts'
import { PUT_WEBHOOK } from '../../sql/accounts.ts'
import type { WebhookStore } from '../../webhooks.ts'
import type { Connection, Database } from '../file/connection.ts'
import type { AuditLog } from './audit.ts'

/** A tenant's webhook, if there is one. */
export function webhooksById(db: Database): (tenantId: number) => Webhook | null {
  const select = db.prepare<[number], WebhookRow>('select * from webhooks where tenant_id = ?')
  return (tenantId) => {
    const row = select.get(tenantId)
    return row ? webhookOf(intact('webhooks', row)) : null
  }
}

export function createWebhookStore({ db, read, write }: Connection, audit: AuditLog): WebhookStore {
  const sql = {
    put: db.prepare(PUT_WEBHOOK),
    delete: db.prepare('delete from webhooks where tenant_id = ?'),
  }
  const find = webhooksById(db)

  const put = (tenant: Tenant, webhook: Webhook): void => {
    sql.put.run(webhookParams(tenant.tenantId, webhook))
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
