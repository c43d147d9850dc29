// SQL that several transactions share: about tenants, keys and users, and about plans, schedules, windows and
// executions.

import { LEASE_AHEAD_MAX_MS } from '../../core/execution.ts'
import { DUE_LATE_MS, STUCK_DELIVERIES } from '../../core/findings.ts'
import type { Instant } from '../../core/time.ts'
import type { ExecutionFilter } from '../store.ts'
import { assigned, columnsToAdd, insertInto } from '../tables.ts'

// Conditions on tenants: those of a filter, those whose business raises alarms, those who live in real time.

/** Whether a tenant `t` is of the partner and environment asked for; a null asks for all of them. */
export const OF_TENANT = `(cast(:slug as text) is null or t.partner_slug = :slug)
  and (cast(:environment as text) is null or t.environment = :environment)`

/** How a tenant `t` is named in a finding. */
export const TENANT_NAME = `t.partner_slug || ' ' || t.environment`

/** Whether a tenant `t` does real business. A test environment raises no alarm. */
export const IS_LIVE = `t.environment = 'live'`

/** Whether a tenant lives in the time of everybody else, as all but some test environments do. */
export const IN_REAL_TIME = 'tenant_id not in (select tenant_id from sandboxes)'

/** Of `api_keys k` and `tenants t`. */
export const KEY_COLUMNS = 'k.*, t.partner_slug, t.environment'

/** Whether a key was rotated. Its row does not show it, but the audit log, which never changes, does. */
export const ROTATED = (keyId: string): string =>
  `exists (select 1 from audit where action = 'key.rotate' and subject = ${keyId})`

/** Keys, with what authentication needs to know about their partners. */
export const SELECT_SEEN_KEY = `
  select ${KEY_COLUMNS}, r.name as partner_name, r.status as partner_status
  from api_keys k join tenants t using (tenant_id) join partners r using (partner_slug)`

export const SELECT_USER =
  'select * from users where tenant_id = :tenant and partner_user_id = :partner_user_id'

/** Whether the stop in a row of `stops` is under way. A damaged row of a user who is not disabled stops no plans. */
export const UNDER_WAY = `stops.ended_at is null and exists (
  select 1 from users u where u.user_id = stops.user_id and u.status = 'disabled')`

// The least that an instruction of a window may be, in SQL: the rule of src/core/window.ts.

/** Of two SQL expressions. One store calls the function `least`, the other `min`: both know `case`. */
export const leastInstructionOf = (minTranche: string, budget: string): string =>
  `case when ${minTranche} < ${budget} then ${minTranche} else ${budget} end`

// Which plans the scheduler may fire at all. On PostgreSQL a page of a pass asks the partner itself once more, because
// its schedules follow it later (../shared/pages.ts).

/**
 * 1 when the scheduler may fire a plan `p` of a partner `r`: both active, its smart timing on, the partner not held.
 */
export const IS_AWAKE = `case when p.status = 'active' and p.smart_timing_enabled = 1 and r.status = 'active'
    and r.held = 0 then 1 else 0 end`

/** The same of the plan of a row of `schedules`. */
export const AWAKE = `(
  select ${IS_AWAKE}
  from plans p join tenants t on t.tenant_id = p.tenant_id join partners r on r.partner_slug = t.partner_slug
  where p.plan_id = schedules.plan_id)`

// When an execution counts as open, due, late or stuck: polls, status, metrics and alarms use the same conditions.

/** Whether an execution `e` still waits for its confirmation. Phrased exactly like the condition of an index. */
export const IS_OPEN = `e.status in ('pending', 'sent')`

/** Whether it was delivered so often without a confirmation that an operator must look into it. */
export const IS_STUCK = `${IS_OPEN} and e.delivered_count >= ${STUCK_DELIVERIES}`

/**
 * Whether an execution `e` may be handed out at `now` (an SQL expression): it was never delivered, or its lease is
 * over, or ends so late that the clock has been set back since. Polls, status and metrics use the same condition.
 */
export const unleasedAt = (now: string): string =>
  `(e.lease_expires_at is null or e.lease_expires_at <= ${now} or e.lease_expires_at > ${now} + ${LEASE_AHEAD_MAX_MS})`

/** The time of a tenant: `s` is its row of `sandboxes`, if it has one. */
export const OWN_NOW = '(:now + coalesce(s.offset_ms, 0))'
/** Whether it is due by that time and was created too long ago: the rule for the backlog's finding. */
const IS_DUE_LATE = `${IS_OPEN} and e.created_at < ${OWN_NOW} - ${DUE_LATE_MS} and ${unleasedAt(OWN_NOW)}`

/** A plan with the name of its user; a condition on `p` follows. */
const SELECT_PLAN = 'select p.*, u.partner_user_id from plans p join users u on u.user_id = p.user_id'

export const PLAN_BY_NAME = `
  ${SELECT_PLAN} where p.tenant_id = :tenant and p.partner_plan_id = :partner_plan_id`

export const USED_STARTS = `
  select distinct window_start from executions where plan_id = :plan_id and window_start >= :now
  order by window_start`

/** The latest start that windows under a plan's id may have had in executions that a reset of its sandbox removed. */
export const USED_BEFORE_RESET = `
  select max(x.used) as used from (
    select window_start as used from used_before_reset
    where tenant_id = :tenant and partner_plan_id = :partner_plan_id
    union all select used_until from sandboxes where tenant_id = :tenant) x`

export const MIN_TRANCHE =
  'select min_tranche from partners join tenants using (partner_slug) where tenant_id = :tenant'

export const INSERT_PLAN = insertInto('plans')

export const UPDATE_PLAN = `
  update plans set ${assigned(columnsToAdd('plans', 'tenant_id', 'user_id', 'partner_plan_id', 'created_at'))}
  where tenant_id = :tenant_id and plan_id = :plan_id`

/** What the windows of a plan that start in a cell of its grid have used, and their latest start with executions. */
export function cellUse({
  planId,
  start,
  end,
}: Readonly<Record<'planId' | 'start' | 'end', string>>): string {
  const inCell = `plan_id = ${planId} and window_start >= ${start} and window_start < ${end}`
  return `
    (select cast(coalesce(sum(spent + reserved), 0) as bigint) from windows where ${inCell}) as claimed,
    (select max(window_start) from executions where ${inCell}) as used`
}

// How executions are read, listed and cancelled, by both stores.

const EXECUTION_COLUMNS = 'e.*, p.partner_plan_id, u.partner_user_id'
const EXECUTION_TABLES = `
  executions e join plans p on p.plan_id = e.plan_id join users u on u.user_id = p.user_id`

/** Everything of an execution, with its plan's and user's ids. */
export const SELECT_EXECUTION = `select ${EXECUTION_COLUMNS} from ${EXECUTION_TABLES}`

/** The same with the name of its tenant. */
export const SELECT_LISTED_EXECUTION = `
  select ${EXECUTION_COLUMNS}, t.partner_slug, t.environment
  from ${EXECUTION_TABLES} join tenants t on t.tenant_id = e.tenant_id`

const OF_ORDER = `partner_order_id = :order
  and tenant_id in (select t.tenant_id from tenants t where ${OF_TENANT})`

/** The executions of an order, a row for each way in which it is theirs. */
export const EXECUTIONS_OF_ORDER = `
  select ${EXECUTION_COLUMNS}, t.partner_slug, t.environment, o.order_is
  from ${EXECUTION_TABLES} join tenants t on t.tenant_id = e.tenant_id
    join (select execution_id, 'trade' as order_is, 1 as place from trades where ${OF_ORDER}
      union select execution_id, 'further_purchase', 2 from adjustments where ${OF_ORDER}
      union select execution_id, 'late_fill', 3 from late_reports
        where substr(partner_order_id, 1, 32) = substr(cast(:order as text), 1, 32) and ${OF_ORDER}) o
    on o.execution_id = e.execution_id
  order by e.execution_id, o.place`

const JOIN_SANDBOX = 'left join sandboxes s on s.tenant_id = e.tenant_id'
// The plus makes it go by ids, the order of the table: a page is read from where it begins, and nothing is sorted.
const IS_LISTED = `e.execution_id > :after and (cast(:status as text) is null or e.status = :status)
  and (:stuck = 0 or (${IS_STUCK}) or (${IS_DUE_LATE})) and (cast(:since as bigint) is null or e.created_at >= :since)
  and +e.tenant_id in (select t.tenant_id from tenants t where ${OF_TENANT})`

/** The parameters of a filter. */
export const listingParams = ({ stuck, since, ...filter }: ExecutionFilter, now: Instant) => ({
  ...filter,
  now,
  stuck: Number(stuck),
  since: since ?? null,
})

export const LIST_EXECUTIONS = `
  ${SELECT_LISTED_EXECUTION} ${JOIN_SANDBOX} where ${IS_LISTED} order by e.execution_id limit :limit`

/** The newest of a listing but for `:skipped` of them. */
export const NEWEST_EXECUTION = `
  select e.execution_id from executions e ${JOIN_SANDBOX}
  where ${IS_LISTED} order by e.execution_id desc limit 1 offset :skipped`

/** With max(execution_id), PostgreSQL would keep the plan that was best without any executions: to read them all. */
export const LATEST_EXECUTION = 'select execution_id as id from executions order by execution_id desc limit 1'

export const EXECUTIONS_OF_TENANT = `
  ${SELECT_EXECUTION} where e.tenant_id = :tenant and (e.created_at, e.execution_id) > (:at, :id)
  order by e.created_at, e.execution_id limit :limit`
