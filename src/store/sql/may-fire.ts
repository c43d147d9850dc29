// Which plans the scheduler may fire at all. On PostgreSQL a page of a pass asks the partner itself once more, because
// its schedules follow it later (../postgres/pass/plan-page.ts).

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
