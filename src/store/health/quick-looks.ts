// Checks that cost a few steps along indexes, and therefore run with every look: a clock that was set back, and keys
// that end or have ended while their partner has not switched to another.

import { type Finding, finding, KEY_ENDS_WITHIN_DAYS } from '../../core/findings.ts'
import { tenantName } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { DAY_MS, formatInstant, type Instant, monthOf, plus, spellSpan } from '../../core/time.ts'
import type { Look } from '../monitoring.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import { IS_LIVE, IS_OPEN, ROTATED } from '../sql/fragments.ts'
import { instant, instantOrNull, query } from '../statement.ts'
import type { Base } from '../transaction.ts'

/** A row that cannot be read is a fault, which the check reports. */
export function noneIfDamaged(error: unknown): Finding[] {
  if (error instanceof Problem && error.code === 'database_damaged') return []
  throw error
}

/**
 * The latest creation of an open execution, and the date before which no confirmation is dated. Only live business
 * counts: a test environment may be ahead of the clock. Windows opened by a clock that was ahead are left to the check.
 */
const LATEST_RECORDS = query<{ created: bigint | null; booked: bigint | null }>(
  `select
     (select max(x.at) from (
        select (select max(created_at) from executions e
                where e.tenant_id = t.tenant_id and e.created_at > :now and ${IS_OPEN}) as at
        from tenants t where environment = 'live') x) as created,
     (select max(x.at) from (
        select max(at) as at from reported_until
        union all select (select max(recorded_at) from trades d where d.tenant_id = t.tenant_id)
          from tenants t where environment = 'live') x) as booked`,
)

export const setBack =
  (base: Base): Look =>
  async (clock) => {
    const before = await clock()
    const row = await base.look((tx) => tx.get(LATEST_RECORDS, { now: before }))
    // The clock is read afterwards; otherwise a record written meanwhile would lie ahead of it.
    const now = await clock()
    const [created, booked] = [instantOrNull(row?.created ?? null), instantOrNull(row?.booked ?? null)]
    const latest = Math.max(created ?? 0, booked ?? 0) as Instant
    if (latest <= now) return []
    const until =
      booked !== null && booked > now && monthOf(booked) !== monthOf(now)
        ? `: until the clock gets there, confirmations are booked at ${formatInstant(booked)}, into ${monthOf(booked)}`
        : ''
    const message = `shows ${formatInstant(now)}, but the database holds records of ${formatInstant(latest)}, ${spellSpan(latest - now)} later${until}`
    return [finding({ kind: 'clock_back', subject: 'clock', message, next: ['timedatectl', 'status'] })]
  }

type KeyRow = TenantRow & { key_id: string; expires_at: bigint; last: bigint | null; rotated: bigint }
/** A key needs no warning once its partner has switched to one that lasts longer, nor for longer after its end. */
const KEYS_THAT_END = query<KeyRow>(
  `select t.*, k.key_id, k.expires_at, k.last_used_at as last,
     case when ${ROTATED('k.key_id')} then 1 else 0 end as rotated
   from api_keys k join tenants t on t.tenant_id = k.tenant_id join partners p on p.partner_slug = t.partner_slug
   where ${IS_LIVE} and k.revoked_at is null and k.expires_at > :past and k.expires_at <= :soon and p.status = 'active'
     and not exists (
       select 1 from api_keys n where n.tenant_id = k.tenant_id and n.revoked_at is null
         and (n.expires_at is null or n.expires_at > :soon) and n.last_used_at >= coalesce(k.last_used_at, 0))
   order by k.expires_at, k.key_id`,
)

export const keysThatEnd =
  (base: Base): Look =>
  async (clock) => {
    const now = await clock()
    const rows = await base.look((tx) =>
      tx.all(KEYS_THAT_END, {
        past: plus(now, -KEY_ENDS_WITHIN_DAYS * DAY_MS),
        soon: plus(now, KEY_ENDS_WITHIN_DAYS * DAY_MS),
      }),
    )
    return rows.map(({ key_id, expires_at, last, rotated, ...row }) => {
      const tenant = tenantOf(row)
      const used = last === null ? 'it was never used' : `it was last used ${formatInstant(instant(last))}`
      const isRotated = Number(rotated) === 1
      const instead = isRotated ? 'its successor is not in use' : 'no key that lasts longer is in use'
      const hasEnded = instant(expires_at) <= now
      const verb = hasEnded ? 'ended' : 'ends'
      const message = `${verb} ${formatInstant(instant(expires_at))}, and ${instead}; ${used}`
      const create = ['create', tenant.partnerSlug, '--env', tenant.environment]
      const next = isRotated ? ['list', tenant.partnerSlug] : hasEnded ? create : ['rotate', key_id]
      return finding({
        kind: 'key_ends',
        tenant,
        subject: `${tenantName(tenant)} key ${key_id}`,
        message,
        next: ['tranche', 'key', ...next],
      })
    })
  }
