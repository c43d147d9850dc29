// What time it is for a tenant, sandbox offsets included. Every tenant lives in real time except the test tenants that
// are listed in `sandboxes`, whose time is the real one plus their offset. Whatever is stored of a tenant's users,
// plans, windows, executions and trades is dated in that tenant's time.

import type { Tenant } from '../../core/partner.ts'
import { type Instant, later, plus } from '../../core/time.ts'
import type { Connection } from './file/connection.ts'

export type TenantTime = ReturnType<typeof createTenantTime>

type Shift = { tenant_id: bigint; offset_ms: bigint; reported_until: bigint }

export function createTenantTime({ db, write }: Pick<Connection, 'db' | 'write'>) {
  const sql = {
    shift: db.prepare<[number], Shift>('select * from sandboxes where tenant_id = ?'),
    shifts: db.prepare<[], Shift>('select * from sandboxes order by tenant_id'),
  }
  const shifted = (shift: Shift, real: Instant): Instant =>
    later(plus(real, Number(shift.offset_ms)), Number(shift.reported_until) as Instant)

  const time = {
    /** The tenant's time when the real one is `real`. */
    of(tenantId: number, real: Instant): Instant {
      const shift = sql.shift.get(tenantId)
      return shift ? shifted(shift, real) : real
    },

    /** A write whose `now` is the tenant's own, in that tenant's lane. */
    write: <T>(tenant: Tenant, work: (now: Instant) => T): Promise<T> =>
      write((real) => work(time.of(tenant.tenantId, real)), tenant.tenantId),

    isSandbox: (tenantId: number): boolean => sql.shift.get(tenantId) !== undefined,

    /** The tenants that live in a time of their own, and what it is. */
    sandboxes: (real: Instant): { tenantId: number; offsetMs: number; now: Instant }[] =>
      sql.shifts.all().map((shift) => ({
        tenantId: Number(shift.tenant_id),
        offsetMs: Number(shift.offset_ms),
        now: shifted(shift, real),
      })),

    /** The time of every tenant when the real one is `real`. */
    ofTenants(real: Instant): (tenantId: number) => Instant {
      const own = new Map(time.sandboxes(real).map(({ tenantId, now }) => [tenantId, now]))
      return (tenantId) => own.get(tenantId) ?? real
    },
  }
  return time
}
