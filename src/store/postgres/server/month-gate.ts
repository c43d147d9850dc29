// The gate of months. Every write takes the lock of all and those of its tenants, shared, and only in a later statement
// reads its clock, which is never below what has been reported. It holds the locks until its commit. Reporting a month
// takes a lock exclusively. So each write has either committed by then, and is seen, or has not read its clock yet, and
// will read a time past the end of what is reported. Taking the lock and reading the clock in one statement would be
// wrong: its snapshot would be older than its wait. The keys of calls are read together with the clock: ending a key
// waits for its tenant's writes, and later ones see that it has ended
// (docs/decisions/commits.md#a-write-checks-its-key).

import type { ClientBase, Pool } from 'pg'
import { type Restored, standsStill, writesLost } from '../../../core/clock.ts'
import { admit, type KeyLife } from '../../../core/key.ts'
import type { PartnerStatus } from '../../../core/partner.ts'
import { type Instant, later, plus } from '../../../core/time.ts'
import { STANDSTILL_IN_FORCE } from '../../standstill.ts'
import { type Query, query } from '../../statement.ts'
import { isUndone, OutcomeUnknown, Undone } from './errors.ts'
import { LOCK } from './locks.ts'
import { type Pipeline, PRESENT_SQL, pipelineOn, SCHEMA_SQL, type SchemaState } from './pipeline.ts'
import { PATIENCE, type Patience } from './session.ts'

/**
 * On whose behalf a write is done. `alone` waits until no other write of the tenants, or of anybody, is under way.
 * `key` is the key of its call: nothing is written when that has ended. `keys` are the keys of several calls, each of
 * which checks its own.
 */
export type Scope = {
  tenants?: readonly number[]
  alone?: 'tenants' | 'all'
  key?: string | undefined
  keys?: readonly string[]
  /** Whether it fires, hands out, or changes what fires: refused while the database stands still. */
  stopsWhenStill?: boolean
  /** Whether nothing is lost with it: what is done anew anyway, or is not waited for. */
  isProvisional?: boolean
  /** How long it waits for each lock; by default, as long as any write does. */
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

/** Identifies a transaction when a server is asked what became of it. */
export type Mark = {
  xid: string
  /** Where the server's log ended before the transaction wrote anything. */
  position: string
} & History

/**
 * Takes the locks of a scope, then reads the clock. `found` gets what is on record of migrations and what the server
 * has been through, and may throw.
 */
export async function enter(
  tx: Pipeline,
  { tenants = [], alone, key, keys = key === undefined ? [] : [key], waitsMs, stopsWhenStill }: Scope,
  { clock, found }: { clock: Instant | null; found: (state: SchemaState & History) => void },
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
  if (!row) throw new Error('the gate returned no time')
  found(row)
  const real = Number(row.real) as Instant
  const lives = new Map(
    [row, ...more].flatMap((one) => (one?.life ? [[one.life.key_id, one.life] as const] : [])),
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
  if (stopsWhenStill && row.restored) throw standsStill(row.restored)
  if (stopsWhenStill && row.lost) throw writesLost()
  const { xid, position, timeline, memory } = row
  return { times, mark: { xid, position, timeline, memory } }
}

const lock = (how: string, which: number, id: string): Query<unknown> =>
  query(`select pg_advisory_xact_lock${how}(${which}, ${id})`)
const ALL = lock('_shared', LOCK.all, '0')
const ALL_ALONE = lock('', LOCK.all, '0')
const TENANT = lock('_shared', LOCK.tenant, ':tenant::int')
const TENANT_ALONE = lock('', LOCK.tenant, ':tenant::int')

/**
 * What a server has been through. `timeline` changes when a standby is promoted; from there on, transaction numbers
 * differ. `memory` changes when a server crashes, because its statistics then begin anew: it has forgotten the
 * transaction numbers that were not on its disk, and gives them to other transactions.
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
/** For each further key: usually, the calls that share a write have come with the same key. */
const LIFE: Query<{ life: Life | null }> = query(`select ${LIFE_SQL}`)
/** Why the database stands still, if it does. */
export type StillState = { lost: boolean; restored: Pick<Restored, 'at' | 'copy'> | null }
/** Its columns. */
export const STILL_SQL = `exists (select from lost_writes where decided_at is null) as lost,
  (select json_build_object('at', s.at, 'copy', s.copy) from (${STANDSTILL_IN_FORCE}) s) as restored`

type GateRow = Mark & SchemaState & StillState & { real: bigint; shifts: Shift[]; life: Life | null }
const TIMES: Query<GateRow> = query(
  `select ${PRESENT_SQL} as real, pg_current_xact_id()::text as xid, pg_current_wal_insert_lsn()::text as position,
     ${HISTORY_SQL}, ${SCHEMA_SQL}, ${STILL_SQL},
     coalesce((select json_agg(json_build_object('tenant_id', tenant_id, 'offset_ms', offset_ms,
       'reported_until', reported_until)) from sandboxes where tenant_id = any(:tenants::bigint[])), '[]') as shifts,
     ${LIFE_SQL}`,
)

const lifeOf = ({ expires_at, revoked_at }: Life): KeyLife => ({
  expiresAt: expires_at as Instant | null,
  revokedAt: revoked_at as Instant | null,
})

// Commits in such a way that the outcome is known: the server can report success without having done what was asked, or
// go away in the middle.

/** For how long, and how often, a server is asked what became of a transaction. */
const ASKED_MAX_MS = 10_000
const ASK_AGAIN_MS = 50

/** Commits, and throws whatever has failed before it. */
export async function commit(tx: Pipeline<ClientBase>, patience: Patience = PATIENCE.commit): Promise<void> {
  await unwarned(tx, patience, async () => {
    if (tx.hasFailed()) await tx.settled()
    const end = tx.send('commit', patience)
    end.catch(() => {})
    await tx.settled()
    // The server answers the commit of a failed transaction with ROLLBACK, not with an error.
    const { command } = await end
    if (command !== 'COMMIT') throw new Undone(`a commit was answered with ${command}`)
  })
}

/**
 * Commits on a client that takes one query at a time, however long that takes: a person waits for it, and can end it.
 * Every transaction that is begun by hand ends with this.
 */
export async function commitAlone(client: ClientBase): Promise<void> {
  try {
    await commit(pipelineOn(client, null), null)
  } catch (error) {
    throw isUndone(error) ? error : new OutcomeUnknown(error)
  }
}

/**
 * Resolves when everything visible in the database is as durable as a commit of ours. The process that committed it may
 * have ended before it was. The client is in no transaction.
 */
export async function waitForCommitted(client: ClientBase): Promise<void> {
  const tx = pipelineOn(client, null)
  await unwarned(tx, null, () => tx.send(BEHIND, null))
}

/** An empty commit, which waits for a standby like any other, and so for everything that was committed before it. */
const BEHIND = "begin; select pg_logical_emit_message(true, 'tranche', ''); commit"

/**
 * If somebody cancels a commit that waits for a standby, it succeeds on one disk alone, with only a warning. Then
 * another commit waits behind it.
 */
async function unwarned<T>(tx: Pipeline<ClientBase>, patience: Patience, work: () => Promise<T>): Promise<T> {
  let isWarned = false
  const hear = (): void => {
    isWarned = true
  }
  tx.client.on('notice', hear)
  try {
    const value = await work()
    while (isWarned) {
      isWarned = false
      await tx.send(BEHIND, patience)
    }
    return value
  } finally {
    tx.client.off('notice', hear)
  }
}

type Fate = History & { status: string | null }
// A commit whose session was ended while it waited for the standby is on the primary alone, and would be lost with it.
// The message turns this query into a commit of its own, which is answered only when the standby has both.
const FATE = query<Fate>(
  `select ${HISTORY_SQL}, pg_logical_emit_message(true, 'tranche', ''),
     case when :xid::xid8 < pg_snapshot_xmax(pg_current_snapshot()) then pg_xact_status(:xid::xid8) end as status`,
)

/**
 * Whether a write whose connection broke was committed; another connection is asked. The broken one has already been
 * given back: many break at once, and each would otherwise wait for another's place. Throws OutcomeUnknown when nobody
 * can tell.
 */
export async function wasCommitted(
  { xid, timeline, memory }: Mark,
  why: unknown,
  pool: Pool,
): Promise<boolean> {
  const until = performance.now() + ASKED_MAX_MS
  for (let asked = 1; performance.now() < until; asked++) {
    await pause(ASK_AGAIN_MS * asked)
    // A server that stays silent is not waited for any longer either.
    const fate = await Promise.race([ask(pool, xid).catch(() => undefined), pause(until - performance.now())])
    // A promoted standby gives the same number to another transaction.
    if (fate && fate.timeline !== timeline) break
    if (fate?.status === 'aborted') return false
    if (fate?.status !== 'committed') continue
    // The number may be another transaction's. If it was undone, ours was too: had ours been committed, the number
    // would still be its own.
    if (fate.memory !== memory) break
    return true
  }
  throw new OutcomeUnknown(why)
}

const pause = (ms: number): Promise<undefined> =>
  new Promise((resolve) => setTimeout(() => resolve(undefined), Math.max(0, ms)))

async function ask(pool: Pool, xid: string): Promise<Fate | undefined> {
  const client = await pool.connect()
  try {
    const tx = pipelineOn(client, PATIENCE.first)
    const fate = await unwarned(tx, PATIENCE.commit, () => tx.get(FATE, { xid }))
    client.release()
    return fate
  } catch (error) {
    client.release(true)
    throw error
  }
}
