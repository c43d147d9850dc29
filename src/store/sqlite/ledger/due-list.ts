// What a poll is handed: three walks along one index (sql/0009_load.sql), none of which steps over an execution that
// is out under a lease.

import { LEASE_AHEAD_MAX_MS } from '../../../core/execution.ts'
import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { ExecutionRow } from '../../rows/execution.ts'
import { IS_OPEN, SELECT_EXECUTION } from '../expressions.ts'
import type { Database } from '../file/connection.ts'

/** The three ways of being due, as `unleasedAt` has them: together they are that condition. */
const WALKS = [
  'e.lease_expires_at is null',
  'e.lease_expires_at <= :now',
  `e.lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS}`,
].map((lease) => `from executions e where e.tenant_id = :tenant and ${IS_OPEN} and ${lease}`)

const joined = (walk: (from: string) => string): string => WALKS.map(walk).join(' union all ')

export function createDueList(db: Database) {
  const sql = {
    first: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION} where e.execution_id in (
         select execution_id from (
           ${joined((from) => `select * from (select created_at, execution_id ${from} order by created_at, execution_id limit :limit)`)})
         order by created_at, execution_id limit :limit)
       order by e.created_at, e.execution_id`,
    ),
    exists: WALKS.map((from) => db.prepare<object, bigint>(`select exists (select 1 ${from})`).pluck()),
    count: db
      .prepare<object, bigint>(`select sum(n) from (${joined((from) => `select count(*) as n ${from}`)})`)
      .pluck(),
  }
  const at = ({ tenantId }: Tenant, now: Instant) => ({ tenant: tenantId, now })

  return {
    isEmpty: (tenant: Tenant, now: Instant): boolean =>
      sql.exists.every((exists) => exists.get(at(tenant, now)) === 0n),

    /** The oldest of what is due, in the order of creation. */
    first: (tenant: Tenant, now: Instant, limit: number): ExecutionRow[] =>
      sql.first.all({ ...at(tenant, now), limit }),

    count: (tenant: Tenant, now: Instant): number => Number(sql.count.get(at(tenant, now))),
  }
}
