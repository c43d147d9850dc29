// Wake-ups: written in the transaction of the executions they announce, and handed out once to be sent.

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Instant } from '../../../core/instant.ts'
import type { Fired } from '../../passes.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type WebhookRow, webhookOf } from '../../rows/webhook.ts'
import { type WakeUpStore, wakeUpsOf } from '../../wake-ups.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { arraysOf, rowsIn } from '../server/rows-in.ts'
import { query } from '../server/statement.ts'

const WAKE_UPS = { tenant_id: 'bigint', count: 'bigint', earliest: 'text' } as const
// One event for each tenant and pass, however many pages and hands it took; none without an active webhook. Several
// hands may fire for one tenant, and ids do not ascend from one page to the next. The tenants are in the order of
// locks.
const WRITE = query(
  `insert into webhook_events (tick_id, tenant_id, count, earliest_execution_id, created_at)
   select :tick_id::bigint, n.tenant_id, n.count, n.earliest, :now::bigint
   from ${rowsIn(WAKE_UPS, 'n')} join webhooks w on w.tenant_id = n.tenant_id
   where w.status = 'active' order by n.tenant_id
   on conflict (tick_id, tenant_id) do update set count = webhook_events.count + excluded.count,
     earliest_execution_id = least(webhook_events.earliest_execution_id, excluded.earliest_execution_id)`,
)

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

/** The last statement of its transaction, because the tenants' other pages wait from here until its commit. */
export async function writeWakeUps(
  tx: Tx,
  passId: number,
  fired: readonly Fired[],
  now: Instant,
): Promise<void> {
  const wakeUps = wakeUpsOf(fired).map(({ tenant, ...rest }) => ({ tenant_id: tenant.tenantId, ...rest }))
  if (wakeUps.length === 0) return
  await tx.run(WRITE, { ...arraysOf(WAKE_UPS, wakeUps), tick_id: passId, now })
}

export const createWakeUpStore = (connection: Connection): WakeUpStore => ({
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
})
