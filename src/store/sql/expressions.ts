// SQL that both stores use word for word: expressions that must mean the same everywhere.

import { DUE_LATE_MS } from '../../core/alarm-thresholds.ts'
import { LEASE_AHEAD_MAX_MS, STUCK_DELIVERIES } from '../../core/lease.ts'

const EXECUTION_COLUMNS = 'e.*, p.partner_plan_id, u.partner_user_id'
const EXECUTION_TABLES = `
  executions e join plans p on p.plan_id = e.plan_id join users u on u.user_id = p.user_id`

/** Everything of an execution, with its plan's and user's ids. */
export const SELECT_EXECUTION = `select ${EXECUTION_COLUMNS} from ${EXECUTION_TABLES}`

/** The same with the name of its tenant. */
export const SELECT_LISTED_EXECUTION = `
  select ${EXECUTION_COLUMNS}, t.partner_slug, t.environment
  from ${EXECUTION_TABLES} join tenants t on t.tenant_id = e.tenant_id`

export const SELECT_USER =
  'select * from users where tenant_id = :tenant and partner_user_id = :partner_user_id'

/** Whether an execution `e` still waits for its confirmation. Phrased exactly like the condition of an index. */
export const IS_OPEN = `e.status in ('pending', 'sent')`

/** Whether it was delivered so often without a confirmation that somebody has to look into it. */
export const IS_STUCK = `${IS_OPEN} and e.delivered_count >= ${STUCK_DELIVERIES}`

/**
 * Whether an execution `e` may be handed out at `now` (an SQL expression): it was never delivered, or its lease is over,
 * or ends so late that the clock has been set back since. What a poll asks, status and metrics count by the same rule.
 */
export const unleasedAt = (now: string): string =>
  `(e.lease_expires_at is null or e.lease_expires_at <= ${now} or e.lease_expires_at > ${now} + ${LEASE_AHEAD_MAX_MS})`

/** What time it is for a tenant: `s` is its row of `sandboxes`, if it has one. */
export const OWN_NOW = '(:now + coalesce(s.offset_ms, 0))'
/** Whether it is due by that time, and has been there for too long: the rule for the backlog's finding. */
export const IS_DUE_LATE = `${IS_OPEN} and e.created_at < ${OWN_NOW} - ${DUE_LATE_MS} and ${unleasedAt(OWN_NOW)}`

/** 1 when the scheduler may fire a plan `p` of a partner `r`: both active, its smart timing on, the partner not held. */
export const IS_AWAKE = `case when p.status = 'active' and p.smart_timing_enabled = 1 and r.status = 'active'
    and r.held = 0 then 1 else 0 end`

/** The same of the plan of a row of `schedules`. */
export const AWAKE = `(
  select ${IS_AWAKE}
  from plans p join tenants t on t.tenant_id = p.tenant_id join partners r on r.partner_slug = t.partner_slug
  where p.plan_id = schedules.plan_id)`

/** Whether a tenant `t` is of the partner and environment asked for; a null asks for all of them. */
export const OF_TENANT = `(cast(:slug as text) is null or t.partner_slug = :slug)
  and (cast(:environment as text) is null or t.environment = :environment)`

/**
 * Whether a window `w` ran its course, at `:since` or later, and left money unspent. Phrased exactly like the condition
 * of an index.
 */
export const ENDED_UNSPENT = `w.close_reason = 'ended' and w.released > 0 and w.closed_at >= :since`

/** How a tenant `t` is named in a finding. */
export const TENANT_NAME = `t.partner_slug || ' ' || t.environment`

/** Whether what is done for a tenant `t` is real business. A test environment sets off no alarm. */
export const IS_LIVE = `t.environment = 'live'`

/** Whether a tenant lives in the time of everybody else, as all but some test environments do. */
export const IN_REAL_TIME = 'tenant_id not in (select tenant_id from sandboxes)'
