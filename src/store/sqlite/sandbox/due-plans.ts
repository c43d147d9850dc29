// Which plans of a sandbox a pass must look at. Their instants are in their tenant's time, so the ranges along the
// indexes of the scheduler, which are in real time, do not find them all. A sandbox is small: its plans are checked one
// by one, and without sandboxes there is nothing to check.

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { DueRanges } from '../../passes.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { isDueAt, NEXT_STOP } from '../../sql/sandbox-due-plans.ts'
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
    nextStop: db.prepare<object, bigint | null>(NEXT_STOP).pluck(),
  }
  const dueAt = (tenantId: number, { now, livePrice, leadMs }: DueRanges): number[] =>
    sql.due.all({ tenant: tenantId, now, lead: leadMs, price: livePrice }).map(Number)

  return {
    /** The plans of one sandbox that are due at an instant of its own time. */
    of: (tenant: Tenant, due: DueRanges): Promise<number[]> => read(() => dueAt(tenant.tenantId, due)),

    /** The due plans of every sandbox, each at its present time. */
    all: (due: DueRanges): Promise<number[]> =>
      read(() => time.sandboxes(clock()).flatMap(({ tenantId, now }) => dueAt(tenantId, { ...due, now }))),

    nextStop: (tenant: Tenant, after: Instant, leadMs: number): Promise<Instant | null> =>
      read(() => instantOrNull(sql.nextStop.get({ tenant: tenant.tenantId, after, lead: leadMs }) ?? null)),
  }
}
