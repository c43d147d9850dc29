// The server that took the last write, by its system identifier and its timeline. A server on another timeline may lack
// writes that were answered: a promoted standby, a recovery to a point in time. The next write then freezes the
// database; reads report it as frozen already (docs/decisions/server.md#another-timeline).

import type { Pool } from 'pg'
import type { Frozen } from '../../../core/frozen.ts'
import { usage } from '../../../core/problem.ts'
import type { Instant } from '../../../core/time.ts'
import { type FrozenRow, frozenOf, frozenParams, PUT_FROZEN, SELECT_FROZEN } from '../../frozen.ts'
import { auditParams } from '../../rows/accounts.ts'
import { ADD_AUDIT } from '../../shared/audit.ts'
import { query } from '../../statement.ts'
import type { AuditEntry } from '../../store.ts'
import { commit, TIMELINE_SQL } from './commit.ts'
import { LOCK } from './locks.ts'
import { PRESENT_SQL, pipelineOn, type Tx } from './pipeline.ts'
import { MARK, PATIENCE } from './session.ts'

/** The state of the database that a gate reads. */
export type FreezeState = {
  frozen: FrozenRow | null
  system_id: string
  timeline: string
  known_system: string | null
  known_timeline: string | null
  /** Whether writes wait for a standby, and none did before. */
  has_new_standby: boolean | null
}
// A server that restarts ends its sessions: read at each write, it would cost a file access each time.
const SYSTEM_SQL = `current_setting('${MARK}')`
/** Its columns, except `timeline`, which every caller reads anyway. */
export const FREEZE_SQL = `(select to_json(f) from (${SELECT_FROZEN}) f) as frozen,
  ${SYSTEM_SQL} as system_id,
  (select l.system_id from server_line l) as known_system, (select l.timeline from server_line l) as known_timeline,
  (select l.had_standby = 0 and current_setting('synchronous_standby_names') <> '' from server_line l) as has_new_standby`
const STATE = query<FreezeState & { now: bigint; standbys: string }>(
  `select ${FREEZE_SQL}, case when pg_is_in_recovery() then null else ${TIMELINE_SQL} end as timeline,
     ${PRESENT_SQL} as now, current_setting('synchronous_standby_names') as standbys`,
)

/** A write met a server that is not the one of the last write. */
export class OtherServer extends Error {
  constructor() {
    super('the server is not the one of the last write')
  }
}

const isOther = ({ system_id, timeline, known_system, known_timeline }: FreezeState): boolean =>
  known_system !== system_id || known_timeline !== timeline

/** The frozen state for a write. Throws OtherServer, unless the database takes no write anyway. */
export function frozenForWrite(state: FreezeState): Frozen | null {
  const frozen = frozenOf(state.frozen ?? undefined)
  if (frozen?.kind !== 'moved' && isOther(state)) throw new OtherServer()
  return frozen
}

/** The frozen state for a read. */
export async function readFrozen(tx: Tx, clock: Instant | null): Promise<Frozen | null> {
  const state = await tx.get(STATE, { clock })
  if (!state) return null
  const frozen = frozenOf(state.frozen ?? undefined)
  const isUnseen = frozen === null && state.timeline !== null && isOther(state)
  return isUnseen ? frozenBy(state, Number(state.now) as Instant) : frozen
}

const numberOf = (timeline: string | null): number => Number.parseInt(timeline ?? '', 16)

function reasonOf({ system_id, timeline, known_system, known_timeline }: FreezeState): string {
  const [was, is] = [numberOf(known_timeline), numberOf(timeline)]
  return system_id === known_system
    ? `the server is on timeline ${is}, and the last write was made on timeline ${was}: it may lack writes that were answered`
    : `this is another server (system identifier ${system_id}) than the one that took the last write (${known_system}): it may lack writes that were answered`
}

const frozenBy = (state: FreezeState, at: Instant): Frozen => ({
  kind: 'timeline',
  at,
  by: 'tranche',
  reason: reasonOf(state),
  movedTo: null,
  replaced: [],
})

/** Part of the first write that waits for a standby. Other writes do not wait for it. */
export const NOTE_STANDBY = query(
  `update server_line set had_standby = 1
   where one = (select one from server_line where had_standby = 0 for update skip locked)`,
)
const ALONE = query(`select pg_advisory_xact_lock(${LOCK.all}, 0)`)
const NOTE = query(
  `insert into server_line (one, system_id, timeline, had_standby) values (1, :system_id, :timeline, 0)
   on conflict (one) do update set system_id = excluded.system_id, timeline = excluded.timeline`,
)

/** The operator's promise about failovers: it counts only where a commit waits for the standby that takes over. */
export type Trust = { trustsFailover?: boolean }

/** The operator's setting. Throws usage. */
export function isFailoverTrusted(): boolean {
  const { TRANCHE_TRUST_FAILOVER: set = 'off' } = process.env
  if (set !== 'on' && set !== 'off') throw usage('TRANCHE_TRUST_FAILOVER must be on or off.')
  return set === 'on'
}

/**
 * Records which server takes the writes from now on, and freezes the database where that differs from the one of the
 * last write. Alone: no write made under the other one commits after this.
 */
export async function noteServer(
  pool: Pool,
  clock: Instant | null,
  { trustsFailover = false }: Trust,
): Promise<void> {
  const client = await pool.connect()
  try {
    const tx = pipelineOn(client, PATIENCE.work)
    tx.send('begin').catch(() => {})
    tx.run(ALONE).catch(() => {})
    const state = await tx.get(STATE, { clock })
    if (!state) throw new Error('the server does not describe itself')
    const { system_id, timeline } = state
    // Another process may have been first.
    if (isOther(state)) {
      await tx.run(NOTE, { system_id, timeline })
      const at = Number(state.now) as Instant
      const isTrusted = trustsFailover && state.standbys !== ''
      if (!isTrusted && state.frozen === null) await tx.run(PUT_FROZEN, frozenParams(frozenBy(state, at)))
      await tx.run(ADD_AUDIT, auditParams(entryOf(state, isTrusted), at))
    }
    await commit(tx)
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  }
}

const entryOf = (state: FreezeState, isTrusted: boolean): AuditEntry => ({
  osUser: 'tranche',
  action: isTrusted ? 'database.trust_failover' : 'database.freeze',
  subject: 'server',
  detail: { kind: 'timeline', reason: reasonOf(state) },
})
