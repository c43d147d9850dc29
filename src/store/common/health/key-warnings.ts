// What the check has to say about keys: those that end soon.

import { KEY_ENDS_WITHIN_DAYS } from '../../../core/alarm-thresholds.ts'
import { ticket } from '../../../core/findings.ts'
import { DAY_MS, formatInstant, plus } from '../../../core/instant.ts'
import { tenantName } from '../../../core/tenant-words.ts'
import type { Look } from '../../check.ts'
import { instant } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { ROTATED } from '../../sql/accounts.ts'
import { IS_LIVE } from '../../sql/which-tenants.ts'
import { type Reader, sql } from '../reader.ts'

type KeyRow = TenantRow & { key_id: string; expires_at: bigint; last: bigint | null; rotated: bigint }
/** A key needs no warning once its partner has switched to one that lasts longer. */
const KEYS_THAT_END = sql<KeyRow>(
  `select t.*, k.key_id, k.expires_at, k.last_used_at as last,
     case when ${ROTATED('k.key_id')} then 1 else 0 end as rotated
   from api_keys k join tenants t on t.tenant_id = k.tenant_id join partners p on p.partner_slug = t.partner_slug
   where ${IS_LIVE} and k.revoked_at is null and k.expires_at > :now and k.expires_at <= :soon and p.status = 'active'
     and not exists (
       select 1 from api_keys n where n.tenant_id = k.tenant_id and n.revoked_at is null
         and (n.expires_at is null or n.expires_at > :soon) and n.last_used_at >= coalesce(k.last_used_at, 0))
   order by k.expires_at, k.key_id`,
)

export const keysThatEnd =
  (reader: Reader): Look =>
  async (clock) => {
    const now = await clock()
    const rows = await reader.all(KEYS_THAT_END, { now, soon: plus(now, KEY_ENDS_WITHIN_DAYS * DAY_MS) })
    return rows.map(({ key_id, expires_at, last, rotated, ...row }) => {
      const tenant = tenantOf(row)
      const used = last === null ? 'it was never used' : `it was last used ${formatInstant(instant(last))}`
      const isRotated = Number(rotated) === 1
      const instead = isRotated ? 'its successor is not in use' : 'no key that lasts longer is in use'
      const message = `ends ${formatInstant(instant(expires_at))}, and ${instead}; ${used}`
      const next = isRotated ? ['list', tenant.partnerSlug] : ['rotate', key_id]
      return ticket('key_ends', `${tenantName(tenant)} key ${key_id}`, message, {
        tenant,
        next: ['tranche', 'key', ...next],
      })
    })
  }
