// How executions are read, listed and cancelled, by both stores.

import type { Instant } from '../../core/instant.ts'
import type { ExecutionFilter } from '../executions.ts'
import { IS_DUE_LATE, IS_STUCK } from './open-due-and-stuck.ts'
import { OF_TENANT } from './which-tenants.ts'

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

export const EXECUTIONS_OF_TENANT = `
  ${SELECT_EXECUTION} where e.tenant_id = :tenant and (e.created_at, e.execution_id) > (:at, :id)
  order by e.created_at, e.execution_id limit :limit`

/** Ends an execution by an operator's word. */
export const CANCEL_EXECUTION = `
  update executions set status = 'cancelled', cancelled_at = :cancelled_at, cancel_reason = :cancel_reason
  where execution_id = :execution_id`
