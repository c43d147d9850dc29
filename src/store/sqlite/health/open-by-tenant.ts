// What each tenant has open and due, from the counts that are kept of it (sql/0010_open_counts.sql): a step along an
// index for each end of a lease, however many executions wait.

import { LEASE_AHEAD_MAX_MS } from '../../../core/execution.ts'
import type { Instant } from '../../../core/instant.ts'
import type { Environment } from '../../../core/partner.ts'
import type { Backlog } from '../../monitoring.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { IS_OPEN } from '../../sql/expressions.ts'
import type { Connection } from '../file/connection.ts'

type Row = {
  tenant_id: bigint
  environment: Environment
  open: bigint
  due: bigint
  oldest_at: bigint | null
}
export type OpenByTenant = Map<number, Backlog & { environment: Environment }>

const OWN_NOW = '(:now + coalesce(s.offset_ms, 0))'
/** `unleasedAt` for a row of open_counts, where 0 stands for never delivered: that lease is over at any time. */
const IS_DUE = `(c.lease_expires_at <= ${OWN_NOW} or c.lease_expires_at > ${OWN_NOW} + ${LEASE_AHEAD_MAX_MS})`

/** To be called inside a read. */
export function createOpenByTenant({ db }: Pick<Connection, 'db'>): (now: Instant) => OpenByTenant {
  const sql = db.prepare<object, Row>(
    `select c.tenant_id, t.environment, sum(c.n) as open, sum(case when ${IS_DUE} then c.n else 0 end) as due,
       min(case when ${IS_DUE} then (
         select e.created_at from executions e
         where e.tenant_id = c.tenant_id and ${IS_OPEN} and e.lease_expires_at is nullif(c.lease_expires_at, 0)
         order by e.created_at limit 1) end) as oldest_at
     from open_counts c join tenants t using (tenant_id) left join sandboxes s using (tenant_id)
     where c.n > 0 group by c.tenant_id`,
  )
  return (now) =>
    new Map(
      sql
        .all({ now })
        .map(({ tenant_id, environment, open, due, oldest_at }) => [
          Number(tenant_id),
          { environment, open: Number(open), due: Number(due), oldestDueAt: instantOrNull(oldest_at) },
        ]),
    )
}
