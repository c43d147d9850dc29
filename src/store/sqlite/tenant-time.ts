// What time it is for a tenant, sandbox offsets included. Every tenant lives in real time except the test tenants that
// are listed in `sandboxes`, whose time is the real one plus their offset. Whatever is stored of a tenant's users,
// plans, windows, executions and trades is dated in that tenant's time.

import type { Tenant } from '../../core/partner.ts'
import { type Instant, later, plus } from '../../core/time.ts'
import { instant } from '../statement.ts'
import type { Connection, Database } from './file/connection.ts'

export type TenantTime = ReturnType<typeof createTenantTime>

type Shift = { tenant_id: bigint; offset_ms: bigint; reported_until: bigint }

export function createTenantTime({ db, write }: Pick<Connection, 'db' | 'write'>) {
  const sql = {
    shift: db.prepare<[number], Shift>('select * from sandboxes where tenant_id = ?'),
    shifts: db.prepare<[], Shift>('select * from sandboxes'),
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

    /** The time of every tenant when the real one is `real`. */
    ofTenants(real: Instant): (tenantId: number) => Instant {
      const own = new Map(sql.shifts.all().map((shift) => [Number(shift.tenant_id), shifted(shift, real)]))
      return (tenantId) => own.get(tenantId) ?? real
    },
  }
  return time
}

/** The end of what has been reported: no write is dated before it again. */
export function reportedUntil(db: Database): () => Instant {
  const select = db.prepare<[], { one: bigint; at: bigint }>('select * from reported_until')
  return () => {
    const row = select.get()
    return instant(row ? row.at : 0n)
  }
}
