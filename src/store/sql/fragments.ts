// SQL shared by several transactions: about tenants, keys and users, and about plans, schedules, windows and
// executions.

import { type ExecutionId, LEASE_AHEAD_MAX_MS } from '../../core/execution.ts'
import { STUCK_DELIVERIES } from '../../core/findings.ts'
import { query } from '../statement.ts'

// Conditions on tenants: those of a filter, those whose business raises alarms, those who live in real time.

/** Whether a tenant `t` is of the given partner and environment; a null selects all. */
export const OF_TENANT = `(cast(:slug as text) is null or t.partner_slug = :slug)
  and (cast(:environment as text) is null or t.environment = :environment)`

/** The name of a tenant `t` in a finding. */
export const TENANT_NAME = `t.partner_slug || ' ' || t.environment`

/** Whether a tenant `t` does real business. A test environment raises no alarm. */
export const IS_LIVE = `t.environment = 'live'`

/** Whether a tenant lives in the time of everybody else, as all but some test environments do. */
export const IN_REAL_TIME = 'tenant_id not in (select tenant_id from sandboxes)'

/** Whether a key was rotated. Its row does not show it, but the audit log does, which never changes. */
export const ROTATED = (keyId: string): string =>
  `exists (select 1 from audit where action = 'key.rotate' and subject = ${keyId})`

export const SELECT_USER =
  'select * from users where tenant_id = :tenant and partner_user_id = :partner_user_id'

// The smallest instruction of a window, in SQL: the rule of src/core/window.ts.

/** For two SQL expressions. One store calls the function `least`, the other `min`: both know `case`. */
export const leastInstructionOf = (minTranche: string, budget: string): string =>
  `case when ${minTranche} < ${budget} then ${minTranche} else ${budget} end`

// The plans that the scheduler may fire at all. On PostgreSQL a page of a pass also reads the partner itself, because
// its schedules are updated later (../shared/pages.ts).

/** 1 when the scheduler may fire a plan `p` of a partner `r`: both active, smart timing on, not held. */
export const IS_AWAKE = `case when p.status = 'active' and p.smart_timing_enabled = 1 and r.status = 'active'
    and r.held = 0 then 1 else 0 end`

/** The same condition for the plan of a row of `schedules`. */
export const AWAKE = `(
  select ${IS_AWAKE}
  from plans p join tenants t on t.tenant_id = p.tenant_id join partners r on r.partner_slug = t.partner_slug
  where p.plan_id = schedules.plan_id)`

/**
 * Whether a trade or an adjustment of the tenant is of an order, an SQL expression. With an equals sign, a server that
 * has seen few trades yet may read all of the tenant's: another index begins with it.
 */
export const isOfOrder = (order: string): string =>
  `tenant_id is not distinct from :tenant and partner_order_id = ${order}`

// When an execution counts as open, due, late or stuck: polls, status, metrics and alarms use the same conditions.

/** Whether an execution `e` still waits for its confirmation. Phrased exactly like the condition of an index. */
export const IS_OPEN = `e.status in ('pending', 'sent')`

/** Whether it was delivered so often without a confirmation that an operator must look into it. */
export const IS_STUCK = `${IS_OPEN} and e.delivered_count >= ${STUCK_DELIVERIES}`

/**
 * Whether an execution `e` may be delivered at `now` (an SQL expression): it was never delivered, or its lease is over,
 * or ends so late that the clock has been set back since. Polls, status and metrics use the same condition.
 */
export const unleasedAt = (now: string): string =>
  `(e.lease_expires_at is null or e.lease_expires_at <= ${now} or e.lease_expires_at > ${now} + ${LEASE_AHEAD_MAX_MS})`

/** The time of a tenant: `s` is its row of `sandboxes`, if it has one. */
export const OWN_NOW = '(:now + coalesce(s.offset_ms, 0))'
export const PLAN_BY_NAME = `
  select p.*, u.partner_user_id from plans p join users u on u.user_id = p.user_id
  where p.tenant_id = :tenant and p.partner_plan_id = :partner_plan_id`

export const EXECUTION_COLUMNS = 'e.*, p.partner_plan_id, u.partner_user_id'
export const EXECUTION_TABLES = `
  executions e join plans p on p.plan_id = e.plan_id join users u on u.user_id = p.user_id`

/** All columns of an execution, with its plan's and user's ids. */
export const SELECT_EXECUTION = `select ${EXECUTION_COLUMNS} from ${EXECUTION_TABLES}`

/** With max(execution_id), PostgreSQL would keep the plan that was best without any executions: to read them all. */
export const LATEST_EXECUTION = query(
  'select execution_id from executions order by execution_id desc limit 1',
  (row: { execution_id: ExecutionId }) => row.execution_id,
)
