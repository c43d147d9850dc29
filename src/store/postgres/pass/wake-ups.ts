// Wake-ups, written in the transaction of the executions they announce.

import type { Instant } from '../../../core/instant.ts'
import type { Fired } from '../../passes.ts'
import { wakeUpsOf } from '../../wake-ups.ts'
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
