// Partners, keys, users and webhooks, where both stores use the same SQL.

import { OF_TENANT } from './which-tenants.ts'

/** Tenants that match a filter; with `before`, those whose partner was created by then. */
export const SELECT_TENANTS = `
  select t.* from tenants t join partners p on p.partner_slug = t.partner_slug
  where ${OF_TENANT} and (cast(:before as bigint) is null or p.created_at < :before)
  order by t.partner_slug, t.environment`

export const UPDATE_PARTNER = `
  update partners set name = :name, status = :status, min_tranche = :min_tranche, held = :held,
    updated_at = :updated_at, digest = :digest
  where partner_slug = :partner_slug`

const KEY_COLUMNS = 'k.*, t.partner_slug, t.environment'
const SELECT_KEY = `select ${KEY_COLUMNS} from api_keys k join tenants t using (tenant_id)`
export const KEY_BY_ID = `${SELECT_KEY} where k.key_id = :key_id`
export const KEYS_OF_PARTNER = `${SELECT_KEY} where t.partner_slug = :slug order by k.created_at, k.key_id`

/** Whether a key was rotated. Its row does not tell; the log of what operators did is never changed. */
export const ROTATED = (keyId: string): string =>
  `exists (select 1 from audit where action = 'key.rotate' and subject = ${keyId})`
export const IS_ROTATED = `select 1 as rotated where ${ROTATED(':key_id')}`

/** Keys, with what authentication has to know about their partners. */
export const SELECT_SEEN_KEY = `
  select ${KEY_COLUMNS}, r.name as partner_name, r.status as partner_status
  from api_keys k join tenants t using (tenant_id) join partners r using (partner_slug)`

export const INSERT_KEY = `
  insert into api_keys (key_id, tenant_id, key_sha256, prefix, last_four, label, created_at, expires_at, digest)
  values (:key_id, :tenant_id, :key_sha256, :prefix, :last_four, :label, :created_at, :expires_at, :digest)`

export const UPDATE_KEY = `
  update api_keys set label = :label, expires_at = :expires_at, revoked_at = :revoked_at, digest = :digest
  where key_id = :key_id`

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

export const PUT_WEBHOOK = `
  insert into webhooks (tenant_id, url, secret, status, created_at, updated_at, last_delivered_at,
    last_status_code, consecutive_failures, last_failed_at, last_failure_reason, digest)
  values (:tenant_id, :url, :secret, :status, :created_at, :updated_at, :last_delivered_at,
    :last_status_code, :consecutive_failures, :last_failed_at, :last_failure_reason,
    :digest)
  on conflict (tenant_id) do update set url = excluded.url, secret = excluded.secret, status = excluded.status,
    created_at = excluded.created_at, updated_at = excluded.updated_at,
    last_delivered_at = excluded.last_delivered_at, last_status_code = excluded.last_status_code,
    consecutive_failures = excluded.consecutive_failures, last_failed_at = excluded.last_failed_at,
    last_failure_reason = excluded.last_failure_reason, digest = excluded.digest`
