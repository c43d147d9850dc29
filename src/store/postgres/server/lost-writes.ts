// Lost writes: the commits that were acknowledged to this process, compared with the server that it finds later. A
// promoted standby, or a server restored from a backup, may lack the latest ones. See
// docs/decisions/server.md#lost-writes.

import type { Instant } from '../../../core/time.ts'
import { query } from '../../statement.ts'
import { commit, HISTORY_SQL, type History, type Mark } from './commit.ts'
import { pipelineOn, SERVER_MS_SQL, type Tx } from './pipeline.ts'
import type { Pool } from './pool.ts'
import { PATIENCE } from './session.ts'

/** A write that the server has answered: what it was, when it was made, and for whom. */
type Answered = { mark: Mark; at: Instant; tenants: readonly number[] }

/** How many of the newest are remembered. Beyond these, the count of losses is a lower bound. */
const REMEMBERED_MAX = 4_096

/** The position of a write that another process has made. */
export const UNKNOWN = '0/0'

/** A write met a server whose history has changed since it last answered this process. */
export class HistoryChanged extends Error {
  constructor() {
    super('the server is not as it was')
  }
}

export type Acknowledged = {
  /** To be called once a write is answered, if it has changed anything. */
  note(answered: Answered): void
  /** Whether anything was answered by a server that had another history. */
  isInDoubt(history: History): boolean
  /**
   * Asks the server for the fate of all writes in doubt, and records there what it has lost. Rejects when that cannot
   * be recorded; they then stay in doubt.
   */
  examine(): Promise<void>
}

export function rememberAcknowledged(pool: Pool): Acknowledged {
  const byHistory = new Map<string, Answered[]>()
  let examining: Promise<void> | null = null

  const inDoubt = (present: History): [string, Answered[]][] =>
    [...byHistory].filter(([history]) => history !== nameOf(present))

  async function examine(): Promise<void> {
    const client = await pool.connect()
    try {
      const tx = pipelineOn(client, PATIENCE.work)
      tx.send('begin').catch(() => {})
      const server = await tx.get(SERVER)
      if (!server) throw new Error('the server does not describe itself')
      const doubtful = inDoubt(server)
      // A write that is answered from now on is asked about the next time.
      const counts = doubtful.map(([, answered]) => answered.length)
      const answered = doubtful.flatMap(([, some]) => some)
      const lost = answered.length === 0 ? [] : await lostOf(tx, server, answered)
      if (lost.length > 0) await record(tx, server, lost)
      await commit(tx)
      client.release()
      for (const [at, [history, some]] of doubtful.entries()) {
        some.splice(0, counts[at])
        if (some.length === 0) byHistory.delete(history)
      }
    } catch (error) {
      client.release(true)
      throw error
    }
  }

  return {
    note(answered) {
      const history = nameOf(answered.mark)
      const some = byHistory.get(history) ?? []
      byHistory.set(history, some)
      some.push(answered)
      // Now and then, and not at each: it moves all that stay.
      if (some.length >= 2 * REMEMBERED_MAX) some.splice(0, some.length - REMEMBERED_MAX)
    },
    isInDoubt: (history) => byHistory.size > (byHistory.has(nameOf(history)) ? 1 : 0),
    examine() {
      examining ??= examine().finally(() => {
        examining = null
      })
      return examining
    },
  }
}

const nameOf = ({ timeline, memory }: History): string => `${timeline} ${memory}`

/** The state of a server. `replayed` is where its recovery ended, null if it started without one. */
export type ServerState = History & { replayed: string | null; position: string }
/**
 * The fate of a transaction number: `future` for one that was not given out, null for one that is too old to be known.
 */
type Status = 'committed' | 'aborted' | 'in progress' | 'future' | null

/**
 * Whether a server lacks a write that was answered. It is certain when this says so: a write whose number the server
 * has given to another transaction, which was committed, does not count as lost.
 */
export function lacksAcknowledged(
  { mark }: Pick<Answered, 'mark'>,
  server: ServerState,
  status: Status,
): boolean {
  const isUnsaid = status === 'aborted' || status === 'future'
  // Nor is it known on which line it was made.
  if (mark.position === UNKNOWN) return isUnsaid
  // A server knows nothing of a line that was begun elsewhere: it is a former primary, or comes from an older copy.
  if (server.timeline < mark.timeline) return true
  const isOfOtherLine = server.timeline !== mark.timeline
  // The write was made after the position that its gate saw, and a new line begins where the recovery ended.
  const end = isOfOtherLine ? server.replayed : server.position
  if (end !== null && positionOf(mark.position) > positionOf(end)) return true
  return isUnsaid
}

/** A position in the log, such as 16/B374D848, as a number. */
function positionOf(text: string): bigint {
  const [high = '', low = ''] = text.split('/')
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}

const SERVER = query<ServerState>(
  `select ${HISTORY_SQL}, pg_last_wal_replay_lsn()::text as replayed, pg_current_wal_insert_lsn()::text as position`,
)
const STATUSES = query<{ xid: string; status: Status }>(
  `select x as xid, case when x::xid8 < pg_snapshot_xmax(pg_current_snapshot()) then pg_xact_status(x::xid8)
     else 'future' end as status
   from unnest(:xids::text[]) x`,
)

async function lostOf(tx: Tx, server: ServerState, answered: readonly Answered[]): Promise<Answered[]> {
  const rows = await tx.all(STATUSES, { xids: answered.map(({ mark }) => mark.xid) })
  const statuses = new Map(rows.map(({ xid, status }) => [xid, status]))
  const lost = answered.filter((one) => lacksAcknowledged(one, server, statuses.get(one.mark.xid) ?? null))
  // One of this process's own may be known twice.
  const own = new Set(lost.flatMap(({ mark }) => (mark.position === UNKNOWN ? [] : [mark.xid])))
  return lost.filter(({ mark }) => mark.position !== UNKNOWN || !own.has(mark.xid))
}

const RECORD = query(
  `insert into lost_writes (found_at, writes, first_at, last_at, tenants, server)
   select ${SERVER_MS_SQL}, :writes, :first_at, :last_at, coalesce(string_agg(t.partner_slug || ' ' || t.environment, ', '
       order by t.tenant_id), ''), :server
   from tenants t where t.tenant_id = any(:tenants::bigint[])`,
)

async function record(tx: Tx, server: ServerState, lost: readonly Answered[]): Promise<void> {
  const times = lost.map(({ at }) => at)
  const marks = lost.map(({ mark }) => mark).filter(({ position }) => position !== UNKNOWN)
  const [was] = marks.toSorted((a, b) => Number(positionOf(a.position) - positionOf(b.position)))
  const now = `timeline ${numberOf(server)}${server.replayed === null ? '' : `, recovered up to ${server.replayed}`}`
  await tx.run(RECORD, {
    writes: lost.length,
    first_at: Math.min(...times),
    last_at: Math.max(...times),
    tenants: [...new Set(lost.flatMap(({ tenants }) => tenants))],
    server: was ? `${now}; the first of them came after ${was.position} of timeline ${numberOf(was)}` : now,
  })
}

const numberOf = ({ timeline }: History): number => Number.parseInt(timeline, 16)
