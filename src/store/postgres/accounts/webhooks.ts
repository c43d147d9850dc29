// Webhooks: registrations, and how the attempts to reach them ended. Every write of a webhook locks its tenant's row,
// which exists even when the webhook does not.

import { type WebhookRow, webhookOf, webhookParams } from '../../rows/webhook.ts'
import { PUT_WEBHOOK } from '../../sql/accounts.ts'
import { callOf, ofTenant } from '../../transaction.ts'
import type { WebhookStore } from '../../webhooks.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { addAudit } from './audit.ts'

const LOCK = query('select from tenants where tenant_id = :tenant for no key update')
const FIND = query<WebhookRow>('select * from webhooks where tenant_id = :tenant')
const PUT = query(PUT_WEBHOOK)
const DELETE = query('delete from webhooks where tenant_id = :tenant')

async function find(tx: Tx, tenantId: number) {
  const row = await tx.get(FIND, { tenant: tenantId })
  return row ? webhookOf(row) : null
}

/** A tenant's webhook, if there is one, and the right to change it. */
async function lock(tx: Tx, tenantId: number) {
  const [, webhook] = await Promise.all([tx.run(LOCK, { tenant: tenantId }), find(tx, tenantId)])
  return webhook
}

export function createWebhookStore(connection: Connection): WebhookStore {
  return {
    findWebhook: (tenant) => connection.look((tx) => find(tx, tenant.tenantId), callOf(tenant)),

    changeWebhook: (tenant, decide, entry) =>
      connection.write(async (tx) => {
        const [seen, { real }] = await Promise.all([lock(tx, tenant.tenantId), tx.times])
        const webhook = decide(seen, real)
        await Promise.all([
          tx.run(PUT, webhookParams(tenant.tenantId, webhook)),
          entry && addAudit(tx, entry, real),
        ])
        return webhook
      }, callOf(tenant)),

    noteAttempt: (tenant, attempted, decide) =>
      connection.write(async (tx) => {
        const [seen, { real }] = await Promise.all([lock(tx, tenant.tenantId), tx.times])
        // Every registration has a new secret: a result for an older one says nothing about this one.
        if (seen?.secret !== attempted.secret) return seen
        const webhook = decide(seen, real)
        await tx.run(PUT, webhookParams(tenant.tenantId, webhook))
        return webhook
      }, ofTenant(tenant)),

    deleteWebhook: (tenant) =>
      connection.write(async (tx) => {
        const of = { tenant: tenant.tenantId }
        const [, deleted] = await Promise.all([tx.run(LOCK, of), tx.run(DELETE, of)])
        return deleted > 0
      }, callOf(tenant)),
  }
}
