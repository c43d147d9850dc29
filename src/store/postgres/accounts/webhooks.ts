// Webhooks, and handing out the wake-ups that were written for them. Every write of a webhook locks its tenant's row,
// which exists even when the webhook does not.

import type { ExecutionId } from '../../../core/execution-id.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type WebhookRow, webhookOf, webhookParams } from '../../rows/webhook.ts'
import { PUT_WEBHOOK } from '../../sql/accounts.ts'
import type { WebhookStore } from '../../webhooks.ts'
import { type Connection, callOf, ofTenant } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { addAudit } from './audit.ts'

const LOCK = query('select from tenants where tenant_id = :tenant for no key update')
const FIND = query<WebhookRow>('select * from webhooks where tenant_id = :tenant')
const PUT = query(PUT_WEBHOOK)
const DELETE = query('delete from webhooks where tenant_id = :tenant')
/**
 * Of a pass and all earlier ones, whose hands may have died. Each advance of a sandbox has a number of its own, below
 * zero.
 */
const UNCLAIMED = `claimed_at is null and tick_id <= :tick_id::bigint and (tick_id > 0 or tick_id = :tick_id)`
const LEFT = query<{ is_left: boolean }>(
  `select exists (select 1 from webhook_events where ${UNCLAIMED}) as is_left`,
)
/** When two processes claim the same one at once, the second waits for the first and then finds it claimed. */
const CLAIM = query<TenantRow & WebhookRow & { count: bigint; earliest_execution_id: string }>(
  `with unclaimed as (
     select tick_id, tenant_id from webhook_events where ${UNCLAIMED}
     order by tick_id, tenant_id for no key update),
   claimed as (
     update webhook_events v set claimed_at = :now from unclaimed
     where v.tick_id = unclaimed.tick_id and v.tenant_id = unclaimed.tenant_id
     returning v.tick_id, v.tenant_id, v.count, v.earliest_execution_id)
   select w.*, t.*, c.count, c.earliest_execution_id
   from claimed c join tenants t using (tenant_id) join webhooks w using (tenant_id)
   where w.status = 'active' order by c.tick_id, t.tenant_id`,
)

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
          tx.run(PUT, { tenant: tenant.tenantId, ...webhookParams(webhook) }),
          entry && addAudit(tx, entry, real),
        ])
        return webhook
      }, callOf(tenant)),

    claimWakeUps: (passId) =>
      connection.write(async (tx) => {
        const { real } = await tx.times
        const rows = await tx.all(CLAIM, { tick_id: passId, now: real })
        return rows.map((row) => ({
          tenant: tenantOf(row),
          webhook: webhookOf(row),
          count: Number(row.count),
          earliest: row.earliest_execution_id as ExecutionId,
        }))
      }),

    hasLeftWakeUps: async (passId) =>
      (await connection.look((tx) => tx.get(LEFT, { tick_id: passId })))?.is_left === true,

    noteAttempt: (tenant, attempted, decide) =>
      connection.write(async (tx) => {
        const [seen, { real }] = await Promise.all([lock(tx, tenant.tenantId), tx.times])
        // Every registration has a new secret: a result for an older one says nothing about this one.
        if (seen?.secret !== attempted.secret) return seen
        const webhook = decide(seen, real)
        await tx.run(PUT, { tenant: tenant.tenantId, ...webhookParams(webhook) })
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
