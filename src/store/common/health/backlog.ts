// What each tenant has open and due, and what that comes to in each environment.

import { earlier, type Instant } from '../../../core/instant.ts'
import type { Environment } from '../../../core/partner.ts'
import type { Backlog, MonitoringStore } from '../../monitoring.ts'
import { instantOrNull } from '../../rows/instant.ts'
import type { Reader, Sql } from '../reader.ts'

export type OpenRow = {
  tenant_id: bigint
  environment: Environment
  open: bigint
  due: bigint
  oldest_at: bigint | null
}

export const openOf = (rows: readonly OpenRow[]): Map<number, Backlog & { environment: Environment }> =>
  new Map(
    rows.map(({ tenant_id, environment, open, due, oldest_at }) => [
      Number(tenant_id),
      { environment, open: Number(open), due: Number(due), oldestDueAt: instantOrNull(oldest_at) },
    ]),
  )

/** `text` is how a store asks what every tenant has open and due at `:now`. */
export const backlogReader =
  (reader: Reader, text: Sql<OpenRow>): MonitoringStore['readBacklog'] =>
  async (now: Instant) => {
    const none = (): Backlog => ({ open: 0, due: 0, oldestDueAt: null })
    const backlog = { test: none(), live: none() }
    for (const tenant of openOf(await reader.all(text, { now })).values()) {
      const { open, due, oldestDueAt } = tenant
      const sum = backlog[tenant.environment]
      sum.open += open
      sum.due += due
      if (oldestDueAt !== null) sum.oldestDueAt = earlier(oldestDueAt, sum.oldestDueAt ?? oldestDueAt)
    }
    return backlog
  }
