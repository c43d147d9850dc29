// Commits whose outcome is known: a server can report success without having committed, or fail in the middle.

import type { ClientBase, Pool } from 'pg'
import { query } from '../../statement.ts'
import { isUndone, OutcomeUnknown, Undone } from './failures.ts'
import { type Pipeline, pipelineOn } from './pipeline.ts'
import { PATIENCE, type Patience } from './session.ts'

/**
 * The history of a server. `timeline` changes when a standby is promoted; from there on, transaction numbers differ.
 * `memory` changes when a server crashes, because its statistics then begin anew: it has forgotten the transaction
 * numbers that were not on its disk, and assigns them to other transactions.
 */
export type History = { timeline: string; memory: string }
/** The timeline that a server writes under; it fails on a standby, which writes under none. */
export const TIMELINE_SQL = 'left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)'
export const HISTORY_SQL = `${TIMELINE_SQL} as timeline,
  coalesce(extract(epoch from pg_stat_get_bgwriter_stat_reset_time())::text, '') as memory`

/** Identifies a transaction when a server is asked about its outcome. */
export type Mark = { xid: string } & History

/** How long, and how often, a server is asked about the outcome of a transaction. */
const ASKED_MAX_MS = 10_000
const ASK_AGAIN_MS = 50

/** Commits, and throws any earlier failure. */
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
 * Commits on a client that takes one query at a time, without a time limit: an operator waits for it, and can interrupt
 * it. Every transaction begun outside the driver ends with this.
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
 * have ended before that. The client is in no transaction.
 */
export async function waitForCommitted(client: ClientBase): Promise<void> {
  const tx = pipelineOn(client, null)
  await unwarned(tx, null, () => tx.send(BEHIND, null))
}

/** An empty commit, which waits for a standby like any other, and so for everything that was committed before it. */
const BEHIND = "begin; select pg_logical_emit_message(true, 'tranche', ''); commit"

/** A cancelled wait for a standby succeeds on one disk alone, with only a warning: another commit waits behind it. */
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
 * Whether a write whose connection broke was committed, asked on another connection. The broken one has already been
 * returned: many break at once, and each would otherwise wait for another's place. Throws OutcomeUnknown when the
 * answer cannot be found.
 */
export async function wasCommitted(
  { xid, timeline, memory }: Mark,
  why: unknown,
  pool: Pool,
): Promise<boolean> {
  const until = performance.now() + ASKED_MAX_MS
  for (let asked = 1; performance.now() < until; asked++) {
    await pause(ASK_AGAIN_MS * asked)
    // A server that does not answer is not waited for any longer either.
    const fate = await Promise.race([ask(pool, xid).catch(() => undefined), pause(until - performance.now())])
    // A promoted standby gives the same number to another transaction.
    if (fate && fate.timeline !== timeline) break
    if (fate?.status === 'aborted') return false
    if (fate?.status !== 'committed') continue
    // The number may be another transaction's. If that was undone, ours was too: committed, it would have kept it.
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
