// What is not wrong and may become so. To what is found at a glance (core/findings.ts) the check adds what takes reading
// more: keys that end, figures that contradict each other, traces of a wrong clock, files that are open to others.

import { statSync } from 'node:fs'
import { WAL_LARGE_BYTES } from '../../../core/alarms.ts'
import { spellBytes } from '../../../core/bytes.ts'
import { counted } from '../../../core/counted.ts'
import { type Finding, findingsOf, tenantName, ticket } from '../../../core/findings.ts'
import { DAY_MS, formatInstant, type Instant, plus } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import type { CheckStore } from '../../check.ts'
import { instant } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { IS_LIVE } from '../../sql/expressions.ts'
import type { Connection, Database } from '../file/connection.ts'
import { isCorrupt } from '../file/errors.ts'
import { lockFile, realName, walBytes, walFile } from '../file/own-files.ts'
import { acquireLock } from '../file/process-lock.ts'
import { mispricedTrades } from './check-trade-warnings.ts'
import { clockLooks } from './clock-warnings.ts'
import { createStock } from './stock.ts'
import { createVitals } from './vitals.ts'

const KEY_ENDS_WITHIN_DAYS = 14

// Test environments are passed over: what a developer leaves undone there is nobody's alarm.
type Look = (now: Instant) => Finding[]

export function createWarnings(connection: Connection): CheckStore['findWarnings'] {
  const { db, read, clock } = connection
  const looks: Look[] = [
    keysThatEnd(db),
    mispricedTrades(db),
    ...clockLooks(db),
    ...(db.memory ? [] : [largeLog(db), openFiles(db), leftImport(db)]),
  ]
  const [takeStock, readVitals] = [createStock(connection), createVitals(connection)]
  const findVital = async () => {
    const now = clock()
    return findingsOf(await readVitals(now, await takeStock(now)), now)
  }
  const findOthers = () =>
    read(() => {
      // The first statement fixes what is seen; the clock is read after it, or what was just written lies ahead of it.
      db.prepare('select 1 from migrations').get()
      const now = clock()
      return looks.flatMap((look) => unlessDamaged(() => look(now)))
    })
  return async () => [
    ...(await findVital().catch(noneIfDamaged)),
    ...(await findOthers().catch(noneIfDamaged)),
  ]
}

function unlessDamaged(look: () => Finding[]): Finding[] {
  try {
    return look()
  } catch (error) {
    return noneIfDamaged(error)
  }
}

/** What cannot be read is a fault, and the check has said so by then. */
function noneIfDamaged(error: unknown): Finding[] {
  if (isCorrupt(error) || (error instanceof Problem && error.code === 'database_damaged')) return []
  throw error
}

/** A key is left alone once its partner has gone over to one that lasts longer. */
function keysThatEnd(db: Database): Look {
  const sql = db.prepare<object, TenantRow & { key_id: string; expires_at: bigint; last: bigint | null }>(
    `select t.*, k.key_id, k.expires_at, k.last_used_at as last
     from api_keys k join tenants t using (tenant_id) join partners p using (partner_slug)
     where ${IS_LIVE} and k.revoked_at is null and k.expires_at > :now and k.expires_at <= :soon and p.status = 'active'
       and not exists (
         select 1 from api_keys n where n.tenant_id = k.tenant_id and n.revoked_at is null
           and (n.expires_at is null or n.expires_at > :soon) and n.last_used_at >= coalesce(k.last_used_at, 0))
     order by k.expires_at, k.key_id`,
  )
  return (now) =>
    sql
      .all({ now, soon: plus(now, KEY_ENDS_WITHIN_DAYS * DAY_MS) })
      .map(({ key_id, expires_at, last, ...row }) => {
        const tenant = tenantOf(row)
        const used = last === null ? 'it was never used' : `it was last used ${formatInstant(instant(last))}`
        const message = `ends ${formatInstant(instant(expires_at))}, and no longer one has taken its place; ${used}`
        return ticket('key_ends', `${tenantName(tenant)} key ${key_id}`, message, {
          tenant,
          next: ['tranche', 'key', 'rotate', key_id],
        })
      })
}

function largeLog(db: Database): Look {
  return () => {
    const bytes = walBytes(db.name)
    if (bytes <= WAL_LARGE_BYTES) return []
    const message = `has ${spellBytes(bytes)}: a process that reads without end keeps it from being folded in`
    const log = walFile(db.name)
    return [ticket('wal_large', log, message, { next: ['lsof', log] })]
  }
}

function openFiles(db: Database): Look {
  return () =>
    ['', '-wal', '-shm'].flatMap((suffix) => {
      const file = realName(db.name) + suffix
      const mode = (statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o777
      if ((mode & 0o077) === 0) return []
      const message = `has mode 0${mode.toString(8)}: others on this machine can get at it, and it holds webhook secrets`
      return [ticket('file_open', file, message, { next: ['chmod', '600', file] })]
    })
}

function leftImport(db: Database): Look {
  const sql = db.prepare<[], bigint>('select count(*) from price_imports').pluck()
  return () => {
    const rows = sql.get() ?? 0n
    if (rows === 0n) return []
    const release = acquireLock(lockFile(db.name, 'import'))
    // Somebody is at it.
    if (!release) return []
    release()
    const message = `${counted(Number(rows), 'row')} of an import that was cut off; none of them counts, and the next import clears them`
    return [ticket('import_left', 'price import', message, { next: ['tranche', 'price', 'import', 'FILE'] })]
  }
}
