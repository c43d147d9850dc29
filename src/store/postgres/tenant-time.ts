// What time it is for a tenant, sandbox offsets included. Every tenant lives in real time except the test tenants that
// are listed in `sandboxes`, whose time is the real one plus their offset.

import { type Instant, later, plus } from '../../core/time.ts'
import { NOW_SQL, type Tx } from './server/pipeline.ts'
import { query } from './server/statement.ts'

type SandboxTime = { tenantId: number; offsetMs: number; now: Instant }
type Shift = { tenant_id: bigint; offset_ms: bigint; reported_until: bigint }

const SHIFT = query<Shift>('select * from sandboxes where tenant_id = :tenant')
const SHIFTS = query<Shift>('select * from sandboxes order by tenant_id')

/** What its clock says and what time it is for `:tenant`, in one row: `clock` and `now`. With the parameter `clock`. */
export const TENANT_NOW_SQL = `
  select c.clock,
    case when s.tenant_id is null then c.real else greatest(c.real + s.offset_ms, s.reported_until) end as now
  from (select ${NOW_SQL} as clock, greatest(${NOW_SQL}, (select at from reported_until)) as real) c
    left join sandboxes s on s.tenant_id = :tenant`

const shifted = (shift: Shift, real: Instant): Instant =>
  later(plus(real, Number(shift.offset_ms)), Number(shift.reported_until) as Instant)

/** The tenant's time when the real one is `real`, for reads. A write asks its gate instead. */
export async function timeOf(tx: Tx, tenantId: number, real: Instant): Promise<Instant> {
  const shift = await tx.get(SHIFT, { tenant: tenantId })
  return shift ? shifted(shift, real) : real
}

export const isSandbox = async (tx: Tx, tenantId: number): Promise<boolean> =>
  (await tx.get(SHIFT, { tenant: tenantId })) !== undefined

/** The tenants that live in a time of their own, and what it is. */
export const sandboxTimes = async (tx: Tx, real: Instant): Promise<SandboxTime[]> =>
  (await tx.all(SHIFTS)).map((shift) => ({
    tenantId: Number(shift.tenant_id),
    offsetMs: Number(shift.offset_ms),
    now: shifted(shift, real),
  }))
