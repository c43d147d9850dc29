// How executions are listed, by both stores.

import type { Instant } from '../../core/instant.ts'
import type { ExecutionFilter } from '../executions.ts'
import { IS_DUE_LATE, IS_STUCK, OF_TENANT, SELECT_EXECUTION, SELECT_LISTED_EXECUTION } from './expressions.ts'

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
