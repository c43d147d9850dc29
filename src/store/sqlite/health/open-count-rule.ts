// The rule of the ledger that only a file has: the counts of open executions are what the executions come to.

import type { Rule } from '../../sql/check-rules.ts'
import { IS_OPEN } from '../../sql/open-due-and-stuck.ts'
import { TENANT_NAME } from '../../sql/which-tenants.ts'

/** A poll relies on it: an execution that is not counted would never be handed out. */
export const OPEN_COUNT: Rule = {
  kind: 'open_count',
  sql: `select ${TENANT_NAME} as place, null as start, coalesce(c.n, 0) as counted, coalesce(x.n, 0) as expected
    from open_counts c
    full join (
      select e.tenant_id, coalesce(e.lease_expires_at, 0) as lease_expires_at, count(*) as n from executions e
      where ${IS_OPEN} group by 1, 2) x using (tenant_id, lease_expires_at)
    join tenants t using (tenant_id)
    where coalesce(c.n, 0) <> coalesce(x.n, 0)`,
  message: (row) =>
    `counts ${row.counted} open executions whose lease ends at one instant, and has ${row.expected}`,
}
