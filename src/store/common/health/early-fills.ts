// Fills whose time lies before their execution was there: as they were recorded, and as they were refused and kept.

import { EARLY_FILL_DAYS, EARLY_FILL_MS, EARLY_FILLS_MAX } from '../../../core/alarm-thresholds.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import { DAY_MS, type Instant } from '../../../core/instant.ts'
import type { Environment } from '../../../core/partner.ts'
import type { EarlyFillSeen } from '../../../core/vitals.ts'
import { instant } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type Reader, sql } from '../reader.ts'

type Row = TenantRow & { execution_id: string; executed_at: bigint; created_at: bigint }

const of = (table: string, receivedAt: string): string =>
  `select x.tenant_id, x.execution_id, x.executed_at, e.created_at, x.${receivedAt} as at
   from ${table} x join executions e on e.execution_id = x.execution_id
   where x.executed_at < e.created_at - ${EARLY_FILL_MS} and x.${receivedAt} >= :since`

/** A failure bought nothing, and neither did what was adjusted to nothing: there is nothing left to ask the partner. */
const IS_BOUGHT = `exists (
  select 1 from trades b where b.execution_id = x.execution_id and coalesce(b.usd_amount, 0) + (
    select coalesce(sum(a.usd_amount), 0) from adjustments a where a.execution_id = b.execution_id) > 0)`

// Nothing is recorded before its execution is created. So the index trades_executed_before, of the trades that were
// executed so long before they were recorded, has them all. Of the other two tables, few rows are of these days.
const EARLY = sql<Row>(
  `select t.*, y.execution_id, y.executed_at, y.created_at from (
     ${of('trades', 'recorded_at')} and x.executed_at < x.recorded_at - ${EARLY_FILL_MS} and ${IS_BOUGHT}
     union all ${of('adjustments', 'recorded_at')} and ${IS_BOUGHT}
     union all ${of('late_reports', 'received_at')} and x.decided_at is null) y
   join tenants t on t.tenant_id = y.tenant_id
   where t.environment = :environment
     and t.tenant_id not in (select tenant_id from sandboxes where offset_ms > 0)
   order by y.at desc, y.execution_id desc limit ${EARLY_FILLS_MAX}`,
)

/** Those of the last days. A sandbox that is ahead has none: its executions are dated in a time that no venue has. */
export const earlyFillsReader =
  (reader: Reader) =>
  async (environment: Environment, now: Instant): Promise<EarlyFillSeen[]> =>
    (await reader.all(EARLY, { environment, since: now - EARLY_FILL_DAYS * DAY_MS })).map((row) => ({
      tenant: tenantOf(row),
      executionId: row.execution_id as ExecutionId,
      executedAt: instant(row.executed_at),
      createdAt: instant(row.created_at),
    }))
