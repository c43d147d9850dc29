// Wake-ups, written in the transaction of the executions they announce.

import type { Instant } from '../../../core/instant.ts'
import type { Fired } from '../../passes.ts'
import { wakeUpsOf } from '../../wake-ups.ts'
import type { Database } from '../file/connection.ts'

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
