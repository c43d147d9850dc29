// What monitoring asks in SQLite's own SQL: it uses the counts that are kept in a file (sql/0010_open_counts.sql and
// 0011_findings.sql), and hints where SQLite would plan badly.

import { LEASE_AHEAD_MAX_MS } from '../../../core/lease.ts'
import type { OpenRow } from '../../common/health/backlog.ts'
import { type OpsSql, TRANCHE } from '../../common/health/ops-page.ts'
import { lateFills, type PartnerSql, partnersPage } from '../../common/health/partners-seen.ts'
import { firstAwake } from '../../common/health/scheduler-lateness.ts'
import { sql } from '../../common/reader.ts'
import { IS_OPEN, OWN_NOW } from '../../sql/open-due-and-stuck.ts'

/** `unleasedAt` for a row of open_counts, where 0 stands for never delivered: that lease is over at any time. */
const IS_DUE = `(c.lease_expires_at <= ${OWN_NOW} or c.lease_expires_at > ${OWN_NOW} + ${LEASE_AHEAD_MAX_MS})`

/** A step along an index for each end of a lease, however many executions wait. */
export const OPEN_BY_TENANT = sql<OpenRow>(
  `select c.tenant_id, t.environment, sum(c.n) as open, sum(case when ${IS_DUE} then c.n else 0 end) as due,
     min(case when ${IS_DUE} then (
       select e.created_at from executions e
       where e.tenant_id = c.tenant_id and ${IS_OPEN} and e.lease_expires_at is nullif(c.lease_expires_at, 0)
       order by e.created_at limit 1) end) as oldest_at
   from open_counts c join tenants t using (tenant_id) left join sandboxes s using (tenant_id)
   where c.n > 0 group by c.tenant_id`,
)

// "Not indexed" makes SQLite walk along the primary key. With the index of awake plans, it would read and sort them
// all.
export const FIRST_AWAKE = firstAwake('schedules s not indexed')

const ordersOf = (outcome: string): string =>
  `(select sum(o.${outcome}) from outcomes o where o.tenant_id = t.tenant_id and o.hour > :hour)`

export const PARTNER_SQL: PartnerSql = {
  open: OPEN_BY_TENANT,
  page: partnersPage({ filled: ordersOf('filled'), failed: ordersOf('failed') }),
  lateFills: lateFills('executions indexed by executions_unkept'),
}

export const OPS_SQL: OpsSql = {
  // Tenant by tenant, so that nothing of a test environment is ever read. The latest N of all are among the latest N of
  // each of the N tenants that fired last.
  latest: sql(
    `select ${TRANCHE}
     from (select tenant_id, (select max(created_at) from executions x where x.tenant_id = l.tenant_id) as fired_at
           from tenants l where environment = 'live' order by fired_at desc limit :limit) n
       cross join executions e join plans p using (plan_id) join tenants t on t.tenant_id = n.tenant_id
     where e.execution_id in (select execution_id from executions x where x.tenant_id = n.tenant_id
                              order by created_at desc, execution_id desc limit :limit)
     order by e.created_at desc, e.execution_id desc limit :limit`,
  ),
  // SQLite takes the other columns from the row that has the maximum.
  prices: sql('select max(at) as at, price from prices where at >= :since group by at / :step order by at'),
}
