// The gate of months. Every writer takes the lock of all and those of its tenants, shared, and only in a later statement
// reads its clock, which is never below what has been reported; it holds the gate to its commit. Whoever reports a month
// takes a lock alone: so each writer has either committed by then, and is seen, or has not read its clock yet, and will
// read one past the end of what is reported. Lock and clock in one statement would be wrong: its snapshot would be older
// than its wait. The keys of calls are looked at together with the clock: whoever ends one waits for its tenant's writers,
// and those that come later see that it has ended (docs/decisions/0068-a-write-asks-for-its-key.md).

import { type Instant, later, plus } from '../../../core/instant.ts'
import { admit, type KeyLife } from '../../../core/key.ts'
import type { PartnerStatus } from '../../../core/partner.ts'
import { PRESENT_SQL } from './clock.ts'
import { LOCK } from './locks.ts'
import { SCHEMA_SQL, type SchemaSeen } from './schema-watch.ts'
import { type Query, query } from './statement.ts'
import type { Pipeline } from './transaction.ts'

/**
 * On whose behalf a write is done. `alone` waits until no other write of the tenants, or of anybody, is under way. `key` is
 * the key of its call: nothing is written when that has ended. `keys` are those of several calls, which ask each for its own.
 */
export type Scope = {
  tenants?: readonly number[]
  alone?: 'tenants' | 'all'
  key?: string | undefined
  keys?: readonly string[]
  /** How long it waits for each lock; by default as long as anybody. */
  waitsMs?: number
}

export type Times = {
  /** The time of everybody but sandboxes. */
  real: Instant
  /** That of a tenant of the scope. */
  of: (tenantId: number) => Instant
}

/** What a write knows behind the gate. */
export type Entered = Times & {
  /** Throws when a key of the scope has ended, or its partner is disabled: as the refusal of a call (core/key.ts). */
  admit: (keyId: string) => void
}

/** What names a transaction to a server that is asked what became of it. */
export type Mark = { xid: string } & History

/** Takes the locks of a scope, then reads the clock. `found` is told what is on record of migrations, and may throw. */
export async function enter(
  tx: Pipeline,
  { tenants = [], alone, key, keys = key === undefined ? [] : [key], waitsMs }: Scope,
  { clock, found }: { clock: Instant | null; found: (seen: SchemaSeen) => void },
): Promise<{ times: Entered; mark: Mark }> {
  const ids = [...new Set(tenants)].sort((a, b) => a - b)
  if (waitsMs !== undefined) tx.send(`set local lock_timeout = ${waitsMs}`).catch(() => {})
  // What fails here makes the reading of the clock fail.
  tx.run(alone === 'all' ? ALL_ALONE : ALL).catch(() => {})
  for (const tenant of ids) tx.run(alone === 'tenants' ? TENANT_ALONE : TENANT, { tenant }).catch(() => {})
  const [first = null, ...others] = keys
  const [row, ...more] = await Promise.all([
    tx.get(TIMES, { clock, tenants: ids, key: first }),
    ...others.map((other) => tx.get(LIFE, { key: other })),
  ])
  if (!row) throw new Error('the gate told no time')
  found(row)
  const real = Number(row.real) as Instant
  const lives = new Map(
    [row, ...more].flatMap((seen) => (seen?.life ? [[seen.life.key_id, seen.life] as const] : [])),
  )
  const shifts = new Map(row.shifts.map(({ tenant_id, ...shift }) => [tenant_id, shift]))
  const times: Entered = {
    real,
    of(tenantId) {
      const shift = shifts.get(tenantId)
      return shift ? later(plus(real, shift.offset_ms), shift.reported_until as Instant) : real
    },
    admit(keyId) {
      const found = lives.get(keyId)
      admit(found ? { key: lifeOf(found), partnerStatus: found.status, now: real } : null)
    },
  }
  if (key !== undefined) times.admit(key)
  const { xid, timeline, memory } = row
  return { times, mark: { xid, timeline, memory } }
}

const lock = (how: string, which: number, id: string): Query<unknown> =>
  query(`select pg_advisory_xact_lock${how}(${which}, ${id})`)
const ALL = lock('_shared', LOCK.all, '0')
const ALL_ALONE = lock('', LOCK.all, '0')
const TENANT = lock('_shared', LOCK.tenant, ':tenant::int')
const TENANT_ALONE = lock('', LOCK.tenant, ':tenant::int')

/**
 * What a server has been through. `timeline` is another one after a standby was promoted, where numbers of transactions
 * begin to differ. `memory` is another one after a server fell over, as it then begins its statistics anew: it has
 * forgotten the numbers that were not on its disk, and gives them to other transactions.
 */
export type History = { timeline: string; memory: string }
/** Its columns. */
export const HISTORY_SQL = `left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline,
  coalesce(extract(epoch from pg_stat_get_bgwriter_stat_reset_time())::text, '') as memory`

type Shift = { tenant_id: number; offset_ms: number; reported_until: number }
type Life = { key_id: string; expires_at: number | null; revoked_at: number | null; status: PartnerStatus }
// One key and no join: with a list of keys and joins the whole statement took twice as long.
const LIFE_SQL = `(
  select json_build_object('key_id', k.key_id, 'expires_at', k.expires_at, 'revoked_at', k.revoked_at, 'status', (
    select r.status from partners r
    where r.partner_slug = (select t.partner_slug from tenants t where t.tenant_id = k.tenant_id)))
  from api_keys k where k.key_id = :key::text) as life`
/** Of a further key: as a rule the calls that share a write have come by one. */
const LIFE: Query<{ life: Life | null }> = query(`select ${LIFE_SQL}`)
const TIMES: Query<Mark & SchemaSeen & { real: bigint; shifts: Shift[]; life: Life | null }> = query(
  `select ${PRESENT_SQL} as real, pg_current_xact_id()::text as xid, ${HISTORY_SQL}, ${SCHEMA_SQL},
     coalesce((select json_agg(json_build_object('tenant_id', tenant_id, 'offset_ms', offset_ms,
       'reported_until', reported_until)) from sandboxes where tenant_id = any(:tenants::bigint[])), '[]') as shifts,
     ${LIFE_SQL}`,
)

const lifeOf = ({ expires_at, revoked_at }: Life): KeyLife => ({
  expiresAt: expires_at as Instant | null,
  revokedAt: revoked_at as Instant | null,
})
