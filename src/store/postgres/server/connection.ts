// A database on a server, and the only ways to use it: look, read, and write.

import type { PoolClient } from 'pg'
import type { Instant } from '../../../core/time.ts'
import { shownAddress } from '../../address.ts'
import { isOtherSchema } from '../../database.ts'
import { query } from '../../statement.ts'
import { createRefusedWrites } from '../../writes.ts'
import { commit, HISTORY_SQL, type History, type Mark, wasCommitted } from './commit.ts'
import {
  explained,
  isDiskFull,
  isLost,
  isSilence,
  isTaken,
  isTransient,
  isUndone,
  noneFree,
} from './errors.ts'
import { type Entered, enter, type Scope } from './month-gate.ts'
import {
  createServerClock,
  firstError,
  type Pipeline,
  pipelineOn,
  type SchemaLook,
  type SchemaState,
  SERVER_MS_SQL,
  type ServerClock,
  type Tx,
  watchSchema,
} from './pipeline.ts'
import { createPlaces, type Pool, type Whose } from './pool.ts'
import { CONNECT_MAX_MS, LARGE_STATEMENT_MAX_MS, PATIENCE } from './session.ts'

/**
 * Inside a write: `times` is what its gate has read. Statements that do not need it are best sent before it is awaited.
 */
export type WriteTx = Tx & { times: Promise<Entered> }

/** The caller of a request, and the size of its reads. */
type Errand = {
  /**
   * The tenant whose call waits for the answer: it has a share of the connections (pool.ts). Left out for
   * background work.
   */
  caller?: Exclude<Whose, 'none'>
  /**
   * What a statement has to read where that is a lot: `large` is what grows with a month or with the plans that are
   * due, and may take minutes; `whole` is whole tables, however long that takes.
   */
  reads?: 'large' | 'whole'
}

/** A connection for the caller alone, until it is given back. */
export type Session = { client: PoolClient; giveBack: (isBroken?: boolean) => void }

export type Connection = {
  /** The address without a password. */
  server: string
  pool: Pool
  clock: ServerClock
  schema: SchemaLook
  /** The commits that were acknowledged to this process. */
  acknowledged: Acknowledged
  /** Asks for one thing only, without a transaction around it. */
  look<T>(work: (tx: Tx) => Promise<T>, errand?: Errand): Promise<T>
  /** Runs `work` on one consistent snapshot. */
  read<T>(work: (tx: Tx) => Promise<T>, errand?: Errand): Promise<T>
  /**
   * Runs `work` in a transaction behind the gate of months (month-gate.ts) and resolves once it is committed; what
   * throws undoes it. `work` may run more than once: the last run counts.
   */
  write<T>(work: (tx: WriteTx) => Promise<T>, scope?: Scope & Errand): Promise<T>
  /**
   * The same for a probe, whose success says nothing about larger writes. Throws the error of a recent write that
   * failed on a full disk.
   */
  probe(work: (tx: WriteTx) => Promise<void>): Promise<void>
  /** For locks that a session holds longer than a transaction. */
  session(): Promise<Session>
  close(): Promise<void>
}

/** A null `clock` takes the server's, so that hosts whose clocks disagree write as one. */
export function connect(pool: Pool, url: string, given: (() => Instant) | null): Connection {
  const server = shownAddress(url)
  const clock = createServerClock(given)
  const schema = watchSchema(server)
  const acknowledged = rememberAcknowledged(pool)
  const refused = createRefusedWrites({ isFull: isDiskFull })

  const places = createPlaces({
    max: pool.options.max,
    stillMaxMs: CONNECT_MAX_MS,
    refusal: () => noneFree(server),
  })

  const onClient = <T>(work: (tx: Pipeline) => Promise<T>, { caller, reads }: Errand) => {
    const patience = reads ? READS[reads].patience : caller === undefined ? PATIENCE.work : PATIENCE.call
    return tryAgain(server, async () => {
      const giveBack = await places.take(caller ?? 'none')
      try {
        return await work(pipelineOn(await pool.connect(), patience))
      } finally {
        giveBack()
      }
    })
  }

  const found = (state: SchemaState & History): void => {
    schema.found(state)
    if (acknowledged.isInDoubt(state)) throw new HistoryChanged()
  }

  /** A write that meets a server with another history runs once the losses of that server are known and recorded. */
  async function onceExamined<T>(write: () => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await write()
      } catch (error) {
        if (!(error instanceof HistoryChanged) || tried === EXAMINED_MAX) throw error
        await tryAgain(server, acknowledged.examine)
      }
    }
  }

  async function written<T>(
    tx: Pipeline,
    work: (tx: WriteTx) => Promise<T>,
    scope: Scope & Errand,
  ): Promise<T> {
    let sent: { value: T; mark: Mark } | undefined
    let at: Instant | undefined
    const answered = (value: T): T => {
      // A transaction without changes was not made durable: the server may forget that it existed.
      if (sent && at !== undefined && !scope.isProvisional && tx.hasChanged())
        acknowledged.note({ mark: sent.mark, at, tenants: scope.tenants ?? [] })
      return value
    }
    try {
      return await inTransaction(tx, `${BEGIN_WRITE}${limitOf(scope)}`, async () => {
        const entered = enter(tx, scope, { clock: clock.parameter(), found })
        const times = entered.then((gate) => gate.times)
        times.catch(() => {})
        const value = await work({ ...tx, times }).catch(async (error) => {
          // In another schema, its statements may fail before the reason is known.
          await times.catch((why) => {
            if (isOtherSchema(why)) throw why
          })
          throw error
        })
        const { times: entry, mark } = await entered
        sent = { value, mark }
        at = entry.real
        await commit(tx)
        return answered(value)
      })
    } catch (error) {
      if (sent && !isUndone(error) && (await wasCommitted(sent.mark, error, pool)))
        return answered(sent.value)
      throw error
    }
  }

  return {
    server,
    pool,
    clock,
    schema,
    acknowledged,
    look: (work, errand = {}) => onClient((tx) => alone(tx, () => schema.beside(tx, () => work(tx))), errand),
    read: (work, errand = {}) =>
      onClient(
        (tx) =>
          inTransaction(tx, `${BEGIN_READ}${limitOf(errand)}`, async () => {
            const value = await schema.beside(tx, () => work(tx))
            await commit(tx)
            return value
          }),
        errand,
      ),
    write: (work, scope = {}) =>
      onceExamined(() => onClient((tx) => refused.follow(written(tx, work, scope)), scope)),
    probe: (work) =>
      onceExamined(() =>
        onClient(async (tx) => {
          await written(tx, work, PROVISIONAL)
          refused.throwRecent()
        }, {}),
      ),
    async session() {
      const leave = await places.take('none')
      try {
        const client = await pool.connect()
        return {
          client,
          giveBack(isBroken = false) {
            client.release(isBroken)
            leave()
          },
        }
      } catch (error) {
        leave()
        throw explained(error, server)
      }
    },
    async close() {
      if (!pool.ending) await pool.end()
    },
  }
}

/** How often a write tries when the server is a different one each time. */
const EXAMINED_MAX = 3
const PROVISIONAL = { isProvisional: true }

// A connection keeps its query plans. A plan made while a table was small, which reads all of it, would go on doing so
// when the table is large; and everything that a write reads lies along indexes.
const BEGIN_WRITE = 'begin; set local enable_seqscan = off'
const BEGIN_READ = 'begin isolation level repeatable read read only'

/** How long the process waits for such a statement, and how long the server lets it run; 0 for no limit. */
const READS = {
  large: { patience: PATIENCE.large, limitMs: LARGE_STATEMENT_MAX_MS, plans: '' },
  // What reads whole tables is not to look up row by row, however few rows a server takes them to have.
  whole: { patience: null, limitMs: 0, plans: '; set local enable_nestloop = off' },
}
const limitOf = ({ reads }: Errand): string =>
  reads ? `; set local statement_timeout = ${READS[reads].limitMs}${READS[reads].plans}` : ''

/** Runs it to its end and gives the connection back, or ends the connection if its state is unknown. */
async function inTransaction<T>(tx: Pipeline, begin: string, run: () => Promise<T>): Promise<T> {
  const { client } = tx
  try {
    tx.send(begin).catch(() => {})
    const value = await run()
    client.release()
    return value
  } catch (error) {
    const first = await firstError(tx, error)
    if (tx.hasFailed() || isLost(first)) client.release(true)
    else await undo(tx)
    throw first
  }
}

async function undo({ client, send }: Pipeline): Promise<void> {
  try {
    await send('rollback')
    client.release()
  } catch {
    client.release(true)
  }
}

async function alone<T>(tx: Pipeline, work: (tx: Tx) => Promise<T>): Promise<T> {
  const { client } = tx
  try {
    const value = await work(tx)
    await tx.settled()
    client.release()
    return value
  } catch (error) {
    const first = await firstError(tx, error)
    client.release(tx.hasFailed() || isLost(first))
    throw first
  }
}

// Trying a transaction again: when others made it impossible, when its server went away, when it lost a race.

/** How often a transaction is tried in all, when others made it impossible or its server went away. */
const TRIES_MAX = 3
const PAUSE_MS = 50

/** Tries again while nothing was done and a try costs little. Explains the error of the last try. */
async function tryAgain<T>(server: string, work: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      if (tried === TRIES_MAX || !mayTryAgain(error)) throw explained(error, server)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * tried))
    }
  }
}

const mayTryAgain = (error: unknown): boolean => isTransient(error) || (isLost(error) && !isSilence(error))

/**
 * Repeats a write, once, when another transaction has just added the row that it would add: its decision then sees that
 * row.
 */
export async function onceMore<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (!isTaken(error)) throw error
    return write()
  }
}

// Locks that a session holds, on a connection of its own: they end with the process, however it ends.

const TRY = query<{ taken: boolean }>('select pg_try_advisory_lock(:which::int, 0) as taken')
const UNLOCK = query('select pg_advisory_unlock(:which::int, 0)')

/** Takes an exclusive lock. Returns a function that gives it back, or null while somebody else holds it. */
export async function takeSessionLock(
  { session, server }: Connection,
  which: number,
): Promise<(() => Promise<void>) | null> {
  const { client, giveBack } = await session()
  try {
    const tx = pipelineOn(client, PATIENCE.work)
    if (!(await tx.get(TRY, { which }))?.taken) {
      giveBack()
      return null
    }
    let given: Promise<void> | undefined
    return () => {
      given ??= tx.run(UNLOCK, { which }).then(
        () => giveBack(),
        // The end of its session ends the lock as well.
        () => giveBack(true),
      )
      return given
    }
  } catch (error) {
    giveBack(true)
    throw explained(error, server)
  }
}

// The commits that were acknowledged to this process, compared with the server that it finds later. A promoted standby,
// or a server restored from a backup, may lack the latest ones. See docs/decisions/server.md#lost-writes.

/** A write that the server has answered: what it was, when it was made, and for whom. */
type Answered = { mark: Mark; at: Instant; tenants: readonly number[] }

/** How many of the newest are remembered. Beyond these, the count of losses is a lower bound. */
const REMEMBERED_MAX = 4_096

/** The position of a write that another process has made. */
export const UNKNOWN = '0/0'

/** A write met a server whose history has changed since it last answered this process. */
class HistoryChanged extends Error {
  constructor() {
    super('the server is not as it was')
  }
}

type Acknowledged = {
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

function rememberAcknowledged(pool: Pool): Acknowledged {
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
