// What the metrics read besides counts: the passes since a given one, and webhooks by their state.

import type { MonitoringStore, WebhookCount } from '../../monitoring.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { type Reader, sql } from '../reader.ts'

type PassRow = { tick_id: bigint; at: bigint; finished_at: bigint | null }
const PASSES_AFTER = sql<PassRow>(
  'select tick_id, at, finished_at from ticks where tick_id > :after order by tick_id',
)
/** One row a tenant at most: few. */
const WEBHOOKS = sql<Omit<WebhookCount, 'count'> & { count: bigint }>(
  `select t.environment, h.status,
     case when h.consecutive_failures > 0 then 'failed' when h.last_delivered_at is not null then 'delivered' end
       as last,
     count(*) as count
   from webhooks h join tenants t on t.tenant_id = h.tenant_id group by 1, 2, 3`,
)

export const metricsReader = (
  reader: Reader,
): Pick<MonitoringStore, 'listPassesAfter' | 'countWebhooks'> => ({
  listPassesAfter: async (passId) =>
    (await reader.all(PASSES_AFTER, { after: passId })).map((row) => ({
      passId: Number(row.tick_id),
      at: instant(row.at),
      finishedAt: instantOrNull(row.finished_at),
    })),

  countWebhooks: async () =>
    (await reader.all(WEBHOOKS)).map((row) => ({ ...row, count: Number(row.count) })),
})
