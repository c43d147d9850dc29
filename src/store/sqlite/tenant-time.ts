// What time it is for a tenant, sandbox offsets included. Every tenant lives in real time except the test tenants that
// are listed in `sandboxes`, whose time is the real one plus their offset. Whatever is stored of a tenant's users,
// plans, windows, executions and trades is dated in that tenant's time.

import type { Tenant } from '../../core/partner.ts'
import { type Instant, later, plus } from '../../core/time.ts'
import { instantOrNull } from '../reader.ts'
import { IN_REAL_TIME } from '../sql/accounts.ts'
import type { Connection } from './file/connection.ts'

export type TenantTime = ReturnType<typeof createTenantTime>

type Shift = { tenant_id: bigint; offset_ms: bigint; reported_until: bigint }

/** When a tenant's latest trade or adjustment was recorded: nothing billed to it may be dated before that. */
const latestOf = (tenant: string): string =>
  `(select max(at) from (select max(recorded_at) as at from trades where tenant_id = ${tenant}
     union all select max(recorded_at) from adjustments where tenant_id = ${tenant}))`

export function createTenantTime({ db, write }: Pick<Connection, 'db' | 'write'>) {
  const sql = {
    shift: db.prepare<[number], Shift>('select * from sandboxes where tenant_id = ?'),
    shifts: db.prepare<[], Shift>('select * from sandboxes order by tenant_id'),
    anyShift: db.prepare<[], bigint>('select exists (select 1 from sandboxes)').pluck(),
    latest: db
      .prepare<[], bigint | null>(
        `select max(at) from (select max(recorded_at) as at from trades
           union all select max(recorded_at) from adjustments)`,
      )
      .pluck(),
    // One step along an index for each tenant and table.
    latestOf: db.prepare<object, bigint | null>(`select ${latestOf(':tenant')}`).pluck(),
    latestInRealTime: db
      .prepare<[], bigint | null>(
        `select max(${latestOf('tenants.tenant_id')}) from tenants where ${IN_REAL_TIME}`,
      )
      .pluck(),
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

    /**
     * The latest recorded_at among the tenants that share a time with this one. A sandbox is alone: what it has
     * recorded lies in the future of all others and must not pull them there.
     */
    latestRecordedAt(tenantId: number | null): Instant | null {
      if (sql.anyShift.get() === 0n) return instantOrNull(sql.latest.get() ?? null)
      const alone = tenantId !== null && time.isSandbox(tenantId)
      return instantOrNull(
        (alone ? sql.latestOf.get({ tenant: tenantId }) : sql.latestInRealTime.get()) ?? null,
      )
    },
  }
  return time
}
