// What is not wrong yet but may become so. To what is found at a glance (core/findings.ts), the check adds what takes
// more reading: keys that end, figures that contradict each other, traces of a wrong clock, and what concerns one store
// alone.

import { counted } from '../../../core/counted.ts'
import { type Finding, findingsOf, tenantName, ticket } from '../../../core/findings.ts'
import { DAY_MS, formatInstant, type Instant, plus } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import type { WindowStore } from '../../bring-back-windows.ts'
import type { CheckStore, Look } from '../../check.ts'
import { instant } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { IS_LIVE } from '../../sql/expressions.ts'
import { type Reader, sql } from '../reader.ts'
import { rolledAhead, setBack } from './clock-warnings.ts'
import { mispricedTrades } from './mispriced-fills.ts'
import { stockTaker } from './plans-and-unspent-windows.ts'
import { type VitalParts, vitalsReader } from './vitals.ts'

const KEY_ENDS_WITHIN_DAYS = 14

export type WarningParts = {
  clock: () => Promise<Instant>
  vitals: VitalParts
  listAhead: WindowStore['listAhead']
  /** What concerns this store alone. */
  looks: readonly Look[]
}

export function warningsOf(reader: Reader, parts: WarningParts): CheckStore['findWarnings'] {
  const { clock } = parts
  const looks = [
    glance(reader, parts.vitals),
    keysThatEnd(reader),
    mispricedTrades(reader),
    setBack(reader),
    rolledAhead(parts.listAhead),
    ...parts.looks,
  ]
  return async () => {
    const found: Finding[] = []
    for (const look of looks) found.push(...(await look(clock).catch(noneIfDamaged)))
    return found
  }
}

/** What cannot be read is a fault, and the check has already said so. */
function noneIfDamaged(error: unknown): Finding[] {
  if (error instanceof Problem && error.code === 'database_damaged') return []
  throw error
}

function glance(reader: Reader, parts: VitalParts): Look {
  const [takeStock, readVitals] = [stockTaker(reader), vitalsReader(reader, parts)]
  return async (clock) => {
    const now = await clock()
    return findingsOf(await readVitals(now, await takeStock(now)), now)
  }
}

type KeyRow = TenantRow & { key_id: string; expires_at: bigint; last: bigint | null }
/** A key needs no warning once its partner has switched to one that lasts longer. */
const KEYS_THAT_END = sql<KeyRow>(
  `select t.*, k.key_id, k.expires_at, k.last_used_at as last
   from api_keys k join tenants t on t.tenant_id = k.tenant_id join partners p on p.partner_slug = t.partner_slug
   where ${IS_LIVE} and k.revoked_at is null and k.expires_at > :now and k.expires_at <= :soon and p.status = 'active'
     and not exists (
       select 1 from api_keys n where n.tenant_id = k.tenant_id and n.revoked_at is null
         and (n.expires_at is null or n.expires_at > :soon) and n.last_used_at >= coalesce(k.last_used_at, 0))
   order by k.expires_at, k.key_id`,
)

const keysThatEnd =
  (reader: Reader): Look =>
  async (clock) => {
    const now = await clock()
    const rows = await reader.all(KEYS_THAT_END, { now, soon: plus(now, KEY_ENDS_WITHIN_DAYS * DAY_MS) })
    return rows.map(({ key_id, expires_at, last, ...row }) => {
      const tenant = tenantOf(row)
      const used = last === null ? 'it was never used' : `it was last used ${formatInstant(instant(last))}`
      const message = `ends ${formatInstant(instant(expires_at))}, and no longer one has taken its place; ${used}`
      return ticket('key_ends', `${tenantName(tenant)} key ${key_id}`, message, {
        tenant,
        next: ['tranche', 'key', 'rotate', key_id],
      })
    })
  }

export const IMPORT_ROWS = sql<{ n: bigint }>('select count(*) as n from price_imports')

export function importLeft(rows: bigint): Finding {
  const message = `${counted(Number(rows), 'row')} of an import that was cut off; none of them counts, and the next import clears them`
  return ticket('import_left', 'price import', message, { next: ['tranche', 'price', 'import', 'FILE'] })
}
