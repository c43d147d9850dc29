// Wake-ups: written in the transaction of the executions they announce, and handed out once to be sent.

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Instant } from '../../../core/instant.ts'
import { intact } from '../../digests.ts'
import type { Fired } from '../../passes.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type WebhookRow, webhookOf } from '../../rows/webhook.ts'
import { type WakeUpStore, wakeUpsOf } from '../../wake-ups.ts'
import type { Connection, Database } from '../file/connection.ts'

export type WriteWakeUps = (passId: number, fired: readonly Fired[], now: Instant) => void

export function createWakeUpWriter(db: Database): WriteWakeUps {
  // One event for each tenant and pass, however many pages it took; none without an active webhook.
  const write = db.prepare(
    `insert into webhook_events (tick_id, tenant_id, count, earliest_execution_id, created_at)
     select :tick_id, tenant_id, :count, :earliest, :now from webhooks
     where tenant_id = :tenant and status = 'active'
     on conflict do update set count = count + excluded.count`,
  )
  return (passId, fired, now) => {
    for (const { tenant, count, earliest } of wakeUpsOf(fired)) {
      write.run({ tick_id: passId, tenant: tenant.tenantId, count, earliest, now })
    }
  }
}

export function createWakeUpStore({ db, write }: Connection): WakeUpStore {
  const claim = db.prepare<object, { tenant_id: bigint; count: bigint; earliest_execution_id: string }>(
    `update webhook_events set claimed_at = :now where tick_id = :tick_id and claimed_at is null
     returning tenant_id, count, earliest_execution_id`,
  )
  const active = db.prepare<[bigint], TenantRow & WebhookRow>(
    `select w.*, t.partner_slug, t.environment from webhooks w join tenants t using (tenant_id)
     where tenant_id = ? and w.status = 'active'`,
  )
  return {
    claimWakeUps: (passId) =>
      write((now) =>
        claim.all({ tick_id: passId, now }).flatMap((row) => {
          const seen = active.get(row.tenant_id)
          if (!seen) return []
          const webhook = webhookOf(intact('webhooks', seen))
          const earliest = row.earliest_execution_id as ExecutionId
          return [{ tenant: tenantOf(seen), webhook, count: Number(row.count), earliest }]
        }),
      ),

    // A pass belongs to one process: wake-ups that it had not sent when it died would come too late.
    hasLeftWakeUps: async () => false,
  }
}
