// What a live screen shows beside the counts: the latest passes, the latest executions.

import type { ExecutionStatus } from '../../../core/execution.ts'
import type { Usd } from '../../../core/money.ts'
import type { Environment } from '../../../core/partner.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import type { StatusStore } from '../../status.ts'
import type { Connection } from '../file/connection.ts'

type PassRow = { at: bigint; finished_at: bigint | null; plans_evaluated: bigint; executions_created: bigint }
type LatestRow = {
  partner_slug: string
  environment: Environment
  partner_plan_id: string
  amount_usd: bigint
  status: ExecutionStatus
  created_at: bigint
}

export function createRecent({ db, read }: Connection): StatusStore['readRecent'] {
  const sql = {
    passes: db.prepare<[number], PassRow>('select * from ticks order by tick_id desc limit ?'),
    // Ids grow with time, so the latest are at the end of the table.
    latest: db.prepare<[number], LatestRow>(
      `select t.partner_slug, t.environment, p.partner_plan_id, e.amount_usd, e.status, e.created_at
       from (select * from executions order by execution_id desc limit ?) e
       join plans p on p.plan_id = e.plan_id join tenants t on t.tenant_id = e.tenant_id
       order by e.execution_id desc`,
    ),
  }
  return (limit) =>
    read(() => {
      return {
        passes: sql.passes
          .all(limit.passes)
          .reverse()
          .map((row) => ({
            at: instant(row.at),
            finishedAt: instantOrNull(row.finished_at),
            plansEvaluated: Number(row.plans_evaluated),
            executionsCreated: Number(row.executions_created),
          })),
        executions: sql.latest.all(limit.executions).map((row) => ({
          tenant: `${row.partner_slug} ${row.environment}`,
          partnerPlanId: row.partner_plan_id,
          amount: row.amount_usd as Usd,
          status: row.status,
          createdAt: instant(row.created_at),
        })),
      }
    })
}
