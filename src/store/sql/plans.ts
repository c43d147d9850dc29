// Plans as both stores read and write them.

import { IN_REAL_TIME, OF_TENANT } from './which-tenants.ts'

/** A plan with the name of its user; a condition on `p` follows. */
const SELECT_PLAN = 'select p.*, u.partner_user_id from plans p join users u on u.user_id = p.user_id'

export const PLAN_BY_NAME = `
  ${SELECT_PLAN} where p.tenant_id = :tenant and p.partner_plan_id = :partner_plan_id`

const SELECT_LISTED_PLAN = `
  select p.*, u.partner_user_id, t.partner_slug, t.environment
  from plans p join users u on u.user_id = p.user_id join tenants t on t.tenant_id = p.tenant_id`

export const LIST_PLANS = `
  ${SELECT_LISTED_PLAN} where p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`

export const PLANS_NAMED = `${SELECT_LISTED_PLAN} where p.partner_plan_id = :partner_plan_id order by p.plan_id`

/** What planStateOf (../rows/plan-state.ts) reads. */
const SELECT_PLAN_STATE = `
  select w.*, s.next_run_at as s_next_run_at, s.fireable as s_fireable, s.floor as s_floor,
    p.*, u.partner_user_id, u.status as user_status
  from plans p join users u on u.user_id = p.user_id
    left join windows w on w.plan_id = p.plan_id and w.closed_at is null left join schedules s on s.plan_id = p.plan_id
  where p.tenant_id = :tenant`

export const PLAN_STATES = `
  ${SELECT_PLAN_STATE} and p.partner_plan_id > :after order by p.partner_plan_id limit :limit`

export const PLAN_STATE = `${SELECT_PLAN_STATE} and p.partner_plan_id = :partner_plan_id`

export const USED_STARTS = `
  select distinct window_start from executions where plan_id = :plan_id and window_start >= :now
  order by window_start`

/** The latest start that a plan's name may have had in executions that a reset of its sandbox has removed. */
export const USED_BEFORE_RESET = `
  select max(x.used) as used from (
    select window_start as used from used_before_reset
    where tenant_id = :tenant and partner_plan_id = :partner_plan_id
    union all select used_until from sandboxes where tenant_id = :tenant) x`

export const MIN_TRANCHE =
  'select min_tranche from partners join tenants using (partner_slug) where tenant_id = :tenant'

export const IS_HELD = 'select held from partners join tenants using (partner_slug) where tenant_id = :tenant'

export const INSERT_PLAN = `
  insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled,
    start_date, status, created_at, updated_at, digest)
  values (:tenant_id, :user_id, :partner_plan_id, :amount_usd, :frequency, :smart_timing_enabled, :start_date,
    :status, :created_at, :updated_at, :digest)`

export const UPDATE_PLAN = `
  update plans set amount_usd = :amount_usd, frequency = :frequency, status = :status,
    smart_timing_enabled = :smart_timing_enabled, start_date = :start_date, updated_at = :updated_at,
    digest = :digest
  where tenant_id = :tenant_id and plan_id = :plan_id`

export const WINDOWS_OF_PLAN =
  'select * from windows where plan_id = :plan_id order by window_start, window_id'

/**
 * Every current window that starts in the future and after its plan's start_date, rightly or not, with its plan; a
 * condition on `p` may follow.
 */
export const SELECT_FUTURE_WINDOW = `
  select w.*, p.*, u.partner_user_id, t.partner_slug, t.environment, r.min_tranche
  from windows w join plans p on p.plan_id = w.plan_id join users u on u.user_id = p.user_id
    join tenants t on t.tenant_id = p.tenant_id join partners r on r.partner_slug = t.partner_slug
  where w.closed_at is null and w.window_start > :now and w.window_start > p.start_date and t.${IN_REAL_TIME}`
