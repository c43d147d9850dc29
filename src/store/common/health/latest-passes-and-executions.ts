// What a live screen shows beside the counts: the latest passes, the latest executions.

import type { ExecutionStatus } from '../../../core/execution.ts'
import type { Usd } from '../../../core/money.ts'
import type { Environment } from '../../../core/partner.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import type { StatusStore } from '../../status.ts'
import { ask, type Reader, sql } from '../reader.ts'

type PassRow = { at: bigint; finished_at: bigint | null; plans_evaluated: bigint; executions_created: bigint }
type LatestRow = {
  partner_slug: string
  environment: Environment
  partner_plan_id: string
  amount_usd: bigint
  status: ExecutionStatus
  created_at: bigint
}

const PASSES = sql<PassRow>(
  'select at, finished_at, plans_evaluated, executions_created from ticks order by tick_id desc limit :limit',
)
// Ids grow with time, so the latest are at the end of the table.
const LATEST = sql<LatestRow>(
  `select t.partner_slug, t.environment, p.partner_plan_id, e.amount_usd, e.status, e.created_at
   from (select * from executions order by execution_id desc limit :limit) e
   join plans p on p.plan_id = e.plan_id join tenants t on t.tenant_id = e.tenant_id
   order by e.execution_id desc`,
)

export const recentReader =
  (reader: Reader): StatusStore['readRecent'] =>
  async (limit) => {
    const [passes, executions] = await reader.together<[PassRow, LatestRow]>(
      ask(PASSES, { limit: limit.passes }),
      ask(LATEST, { limit: limit.executions }),
    )
    return {
      passes: passes.reverse().map((row) => ({
        at: instant(row.at),
        finishedAt: instantOrNull(row.finished_at),
        plansEvaluated: Number(row.plans_evaluated),
        executionsCreated: Number(row.executions_created),
      })),
      executions: executions.map((row) => ({
        tenant: `${row.partner_slug} ${row.environment}`,
        partnerPlanId: row.partner_plan_id,
        amount: row.amount_usd as Usd,
        status: row.status,
        createdAt: instant(row.created_at),
      })),
    }
  }
