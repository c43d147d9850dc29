// The rows that a write of the ledger depends on, locked in the order of ../server/locks.ts. Each table has a statement
// of its own, by ascending ids. The reading is done by later statements, which see what was committed meanwhile.

import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

const OF_PLANS = 'plan_id = any(:plan_ids::bigint[])'
const PLANS = query(`select from plans where ${OF_PLANS} order by plan_id for no key update`)
const SCHEDULES = query(`select from schedules where ${OF_PLANS} order by plan_id for no key update`)
const CURRENT_WINDOWS = query(
  `select from windows where ${OF_PLANS} and closed_at is null order by window_id for no key update`,
)

// An execution keeps its plan and its window forever. The plus keeps the planner to the ids that are asked for.
const asked = (column: string): string =>
  `(select ${column} from executions where execution_id = any(:execution_ids::text[]) and +tenant_id = :tenant)`
const THEIR_SCHEDULES = query(
  `select from schedules where plan_id in ${asked('plan_id')} order by plan_id for no key update`,
)
const THEIR_WINDOWS = query(
  `select from windows where window_id in ${asked('window_id')} order by window_id for no key update`,
)
const EXECUTIONS = query(
  `select from executions where execution_id = any(:execution_ids::text[]) and +tenant_id = :tenant
   order by execution_id for no key update`,
)

/** Locks executions of a tenant with the windows and schedules that they change. */
export async function lockExecutions(
  tx: Tx,
  tenantId: number,
  executionIds: readonly string[],
): Promise<void> {
  const asked = { tenant: tenantId, execution_ids: executionIds }
  await Promise.all([tx.run(THEIR_SCHEDULES, asked), tx.run(THEIR_WINDOWS, asked), tx.run(EXECUTIONS, asked)])
}

/** Locks the schedules of plans that are locked, or that need not be. */
export const lockSchedules = (tx: Tx, planIds: readonly number[]): Promise<unknown> =>
  tx.run(SCHEDULES, { plan_ids: planIds })

/** Locks plans with their schedules and current windows. */
export async function lockPlans(tx: Tx, planIds: readonly number[]): Promise<void> {
  const plans = { plan_ids: planIds }
  await Promise.all([tx.run(PLANS, plans), tx.run(SCHEDULES, plans), tx.run(CURRENT_WINDOWS, plans)])
}

const NAMED_PLAN =
  '(select plan_id from plans where tenant_id = :tenant and partner_plan_id = :partner_plan_id)'
const USER = query(
  'select from users where tenant_id = :tenant and partner_user_id = :partner_user_id for no key update',
)
const PLAN = query(
  'select from plans where tenant_id = :tenant and partner_plan_id = :partner_plan_id for no key update',
)
const ITS_SCHEDULE = query(`select from schedules where plan_id = ${NAMED_PLAN} for no key update`)
// Locks everything that a cancel may give money back to, at once: locked later, it would not be in the order of ids.
const ITS_WINDOWS = query(
  `select from windows where plan_id = ${NAMED_PLAN} and (closed_at is null or reserved > 0)
   order by window_id for no key update`,
)

/** Locks a plan that may not exist yet, and the user who would have it. */
export async function lockPlanByName(
  tx: Tx,
  named: { tenant: number; partner_user_id: string; partner_plan_id: string },
): Promise<void> {
  await Promise.all([USER, PLAN, ITS_SCHEDULE, ITS_WINDOWS].map((which) => tx.run(which, named)))
}
