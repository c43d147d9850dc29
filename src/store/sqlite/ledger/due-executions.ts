// What a poll is handed. Executions that are open lie in one index by the end of their lease (sql/0009_load.sql), and
// how many end when is counted as it changes (sql/0010_open_counts.sql): what is out under a lease is never stepped
// over, and what is left for the next poll is not counted one by one.

import type { Instant } from '../../../core/instant.ts'
import { LEASE_AHEAD_MAX_MS } from '../../../core/lease.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { ExecutionRow } from '../../rows/execution.ts'
import { SELECT_EXECUTION } from '../../sql/executions.ts'
import { IS_OPEN } from '../../sql/open-due-and-stuck.ts'
import type { Database } from '../file/connection.ts'

/** `unleasedAt` for a row of open_counts, where 0 stands for never delivered: that lease is over at any time. */
const IS_DUE = `tenant_id = :tenant and (lease_expires_at <= :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})`

/** After every execution. */
const END = { created_at: 2n ** 62n, execution_id: '' }

export function createDueList(db: Database) {
  const sql = {
    count: db.prepare<object, bigint>(`select coalesce(sum(n), 0) from open_counts where ${IS_DUE}`).pluck(),
    leases: db
      .prepare<object, bigint>(
        `select lease_expires_at from open_counts where ${IS_DUE} and n > 0 order by lease_expires_at`,
      )
      .pluck(),
    underLease: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION}
       where e.tenant_id = :tenant and ${IS_OPEN} and e.lease_expires_at is nullif(:lease, 0)
         and (e.created_at, e.execution_id) < (:created_at, :execution_id)
       order by e.created_at, e.execution_id limit :limit`,
    ),
  }
  const at = ({ tenantId }: Tenant, now: Instant) => ({ tenant: tenantId, now })

  return {
    /** How many are due. */
    count: (tenant: Tenant, now: Instant): number => Number(sql.count.get(at(tenant, now))),

    /** The oldest of what is due, in the order of creation. */
    first(tenant: Tenant, now: Instant, limit: number): ExecutionRow[] {
      let found: ExecutionRow[] = []
      for (const lease of sql.leases.all(at(tenant, now))) {
        // Leases follow the order of creation, because polls did: most hold nothing older than what has been found by
        // then.
        const { created_at, execution_id } = found[limit - 1] ?? END
        const older = sql.underLease.all({ tenant: tenant.tenantId, lease, created_at, execution_id, limit })
        if (older.length > 0) found = [...found, ...older].sort(byCreation).slice(0, limit)
      }
      return found
    },
  }
}

function byCreation(a: ExecutionRow, b: ExecutionRow): number {
  if (a.created_at !== b.created_at) return a.created_at < b.created_at ? -1 : 1
  return a.execution_id < b.execution_id ? -1 : 1
}
