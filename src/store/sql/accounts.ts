// Keys and users, where several transactions use the same SQL.

/** Of `api_keys k` and `tenants t`. */
export const KEY_COLUMNS = 'k.*, t.partner_slug, t.environment'

/** Whether a key was rotated. Its row does not tell; the log of what operators did is never changed. */
export const ROTATED = (keyId: string): string =>
  `exists (select 1 from audit where action = 'key.rotate' and subject = ${keyId})`

/** Keys, with what authentication has to know about their partners. */
export const SELECT_SEEN_KEY = `
  select ${KEY_COLUMNS}, r.name as partner_name, r.status as partner_status
  from api_keys k join tenants t using (tenant_id) join partners r using (partner_slug)`

export const SELECT_USER =
  'select * from users where tenant_id = :tenant and partner_user_id = :partner_user_id'

export const KEEP_CONSENT = `
  insert into consents (user_id, consent_version, consent_timestamp, received_at, digest)
  values (:user_id, :consent_version, :consent_timestamp, :received_at, :digest) on conflict do nothing`

export const ERASE_USER = `
  update users set email = null, auth_provider = null, erased_at = :erased_at, updated_at = :updated_at,
    digest = :digest
  where tenant_id = :tenant_id and partner_user_id = :partner_user_id`

const SELECT_LISTED_USER = `
  select u.*, t.partner_slug, t.environment from users u join tenants t using (tenant_id)
  where u.tenant_id = :tenant`
export const LISTED_USERS = `${SELECT_LISTED_USER} and u.user_id > :after order by u.user_id limit :limit`
export const LISTED_USER = `${SELECT_LISTED_USER} and u.partner_user_id = :partner_user_id`
