// SQL about tenants, keys and users that several transactions share.

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
