// What monitoring asks in PostgreSQL's own SQL. No counts are kept there: what is open, and what became of orders, is
// counted along indexes.

import { HOUR_MS } from '../../../core/instant.ts'
import type { OpenRow } from '../../common/health/backlog.ts'
import { type OpsSql, TRANCHE } from '../../common/health/ops-page.ts'
import { lateFills, type PartnerSql, partnersPage } from '../../common/health/partners-seen.ts'
import { firstAwake } from '../../common/health/scheduler-lateness.ts'
import { sql } from '../../common/reader.ts'
import { IS_OPEN, OWN_NOW, unleasedAt } from '../../sql/open-due-and-stuck.ts'

const IS_DUE = unleasedAt(OWN_NOW)

export const OPEN_BY_TENANT = sql<OpenRow>(
  `select e.tenant_id, t.environment, count(*) as open, count(*) filter (where ${IS_DUE}) as due,
     min(e.created_at) filter (where ${IS_DUE}) as oldest_at
   from executions e join tenants t on t.tenant_id = e.tenant_id left join sandboxes s on s.tenant_id = e.tenant_id
   where ${IS_OPEN} group by e.tenant_id, t.environment`,
)

export const FIRST_AWAKE = firstAwake('schedules s')

export const PARTNER_SQL: PartnerSql = {
  open: OPEN_BY_TENANT,
  page: partnersPage({
    filled: 'o.filled',
    failed: 'o.failed',
    from: `cross join lateral (
      select count(d.usd_amount) as filled, count(*) - count(d.usd_amount) as failed from trades d
      where d.tenant_id = t.tenant_id and d.recorded_at >= (:hour::bigint + 1) * ${HOUR_MS}) o`,
  }),
  lateFills: lateFills('executions'),
}

export const OPS_SQL: OpsSql = {
  // Tenant by tenant, so that nothing of a test environment is ever read. The latest N of all are among the latest N of
  // each of the N tenants that fired last.
  latest: sql(
    `select ${TRANCHE}
     from (select l.tenant_id, (select max(x.created_at) from executions x where x.tenant_id = l.tenant_id) as fired_at
           from tenants l where l.environment = 'live' order by fired_at desc nulls last limit :limit) n
       cross join lateral (select x.* from executions x where x.tenant_id = n.tenant_id
                           order by x.created_at desc, x.execution_id desc limit :limit) e
       join plans p on p.plan_id = e.plan_id join tenants t on t.tenant_id = n.tenant_id
     order by e.created_at desc, e.execution_id desc limit :limit`,
  ),
  prices: sql(
    `select distinct on (at / :step::bigint) at, price from prices where at >= :since
     order by at / :step::bigint, at desc`,
  ),
}
