// Which plans of a sandbox a pass must look at. Their instants are in their tenant's time, so the ranges along the
// indexes of the scheduler, which are in real time, do not find them all. The plans of a sandbox are checked one by
// one, which takes a third of a microsecond each, and without sandboxes there is nothing to check.

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { DueRanges } from '../../passes.ts'
import { instantOrNull } from '../../rows/instant.ts'
import type { StopSearch } from '../../sandboxes.ts'
import { isDueAt, nextStop } from '../../sql/sandbox-due-plans.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from './tenant-time.ts'

export type SandboxDue = ReturnType<typeof createSandboxDue>

export function createSandboxDue({ db, clock, read }: Connection, time: TenantTime) {
  const sql = {
    due: db
      .prepare<object, bigint>(
        `select p.plan_id from plans p join schedules s on s.plan_id = p.plan_id
         where p.tenant_id = :tenant and ${isDueAt(':now')} order by p.plan_id`,
      )
      .pluck(),
    nextStop: db.prepare<object, bigint | null>(nextStop('min')).pluck(),
  }
  const dueAt = (tenantId: number, { now, livePrice, leadMs }: DueRanges): number[] =>
    sql.due.all({ tenant: tenantId, now, lead: leadMs, price: livePrice }).map(Number)

  return {
    /** The plans of one sandbox that are due at an instant of its own time. */
    of: (tenant: Tenant, due: DueRanges): Promise<number[]> => read(() => dueAt(tenant.tenantId, due)),

    /** The due plans of every sandbox, each at its present time. */
    all: (due: DueRanges): Promise<number[]> =>
      read(() => time.sandboxes(clock()).flatMap(({ tenantId, now }) => dueAt(tenantId, { ...due, now }))),

    nextStop: ({ tenantId }: Tenant, { after, leadMs, togetherMs }: StopSearch): Promise<Instant | null> =>
      read(() => {
        const of = { tenant: tenantId, after, lead: leadMs, together: togetherMs }
        return instantOrNull(sql.nextStop.get(of) ?? null)
      }),
  }
}
