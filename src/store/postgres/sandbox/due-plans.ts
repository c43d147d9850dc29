// Which plans of a sandbox a pass must look at: they are checked one by one.

import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import type { DueRanges } from '../../passes.ts'
import { instantOrNull } from '../../rows/instant.ts'
import type { StopSearch } from '../../sandboxes.ts'
import { isDueAt, nextStop } from '../../sql/sandbox-due-plans.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'

const DUE = query<{ plan_id: bigint }>(
  `select p.plan_id from plans p join schedules s on s.plan_id = p.plan_id
   where p.tenant_id = :tenant and ${isDueAt(':now::bigint')} order by p.plan_id`,
)
const STOP = query<{ at: bigint | null }>(nextStop('least'))

/** The due plans of every sandbox, each by its own time when the real one is `:now`. */
export const ALL_SANDBOX_DUE = `
  select p.plan_id from sandboxes b join plans p on p.tenant_id = b.tenant_id join schedules s on s.plan_id = p.plan_id
  where ${isDueAt('greatest(:now::bigint + b.offset_ms, b.reported_until)')}`

/** The plans of one sandbox that are due at an instant of its own time. */
export const listSandboxDue = (
  connection: Connection,
  { tenantId }: Tenant,
  { now, livePrice, leadMs }: DueRanges,
): Promise<number[]> =>
  connection.look(async (tx) => {
    const rows = await tx.all(DUE, { tenant: tenantId, now, lead: leadMs, price: livePrice })
    return rows.map(({ plan_id }) => Number(plan_id))
  })

export const findNextStop = (
  connection: Connection,
  { tenantId }: Tenant,
  { after, leadMs, togetherMs }: StopSearch,
): Promise<Instant | null> =>
  connection.look(async (tx) => {
    const row = await tx.get(STOP, { tenant: tenantId, after, lead: leadMs, together: togetherMs })
    return instantOrNull(row?.at ?? null)
  })
