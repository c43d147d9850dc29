// Which tenants are meant: those of a filter, those whose business sets off alarms, those who live in real time.

/** Whether a tenant `t` is of the partner and environment asked for; a null asks for all of them. */
export const OF_TENANT = `(cast(:slug as text) is null or t.partner_slug = :slug)
  and (cast(:environment as text) is null or t.environment = :environment)`

/** How a tenant `t` is named in a finding. */
export const TENANT_NAME = `t.partner_slug || ' ' || t.environment`

/** Whether what is done for a tenant `t` is real business. A test environment sets off no alarm. */
export const IS_LIVE = `t.environment = 'live'`

/** Whether a tenant lives in the time of everybody else, as all but some test environments do. */
export const IN_REAL_TIME = 'tenant_id not in (select tenant_id from sandboxes)'
