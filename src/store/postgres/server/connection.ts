// A database on a server, and the only ways to use it: look, read, and write.

import type { PoolClient } from 'pg'
import type { Instant } from '../../../core/time.ts'
import { shownAddress } from '../../address.ts'
import { isOtherSchema } from '../../migrations.ts'
import { query } from '../../statement.ts'
import type { Scope } from '../../transaction.ts'
import { createRefusedWrites } from '../../writes.ts'
import { commit, type Mark, wasCommitted } from './commit.ts'
import { explained, explaining, noneFree, tryAgain } from './errors.ts'
import { isDiskFull, isLost, isUndone } from './failures.ts'
import { type Entered, enter } from './month-gate.ts'
import {
  createServerClock,
  firstError,
  type Pipeline,
  pipelineOn,
  type SchemaLook,
  type ServerClock,
  type Tx,
  watchSchema,
} from './pipeline.ts'
import { createPlaces, type Pool } from './pool.ts'
import { CONNECT_MAX_MS, LARGE_STATEMENT_MAX_MS, PATIENCE } from './session.ts'
import { noteServer, OtherServer, type Trust } from './timeline.ts'

/** Inside a write. Statements that do not need what is read at its gate are best sent before that is awaited. */
export type WriteTx = Tx & { entered: Promise<Entered> }

/** A connection for the caller alone, until it is given back. */
export type Session = { client: PoolClient; giveBack: (isBroken?: boolean) => void }

export type Connection = {
  /** The address without a password. */
  server: string
  pool: Pool
  clock: ServerClock
  schema: SchemaLook
  /** As in `Base`. */
  look<T>(work: (tx: Tx) => Promise<T>, scope?: Scope): Promise<T>
  read<T>(work: (tx: Tx) => Promise<T>, scope?: Scope): Promise<T>
  /** Resolves once `work`, behind the gate of months, is committed; a throw undoes it. It may run more than once. */
  write<T>(work: (tx: WriteTx) => Promise<T>, scope?: Scope): Promise<T>
  /** `write` for a probe, which also throws the error of a recent write that failed on a full disk. */
  probe(work: (tx: WriteTx) => Promise<void>): Promise<void>
  /** For locks that a session holds longer than a transaction. */
  session(): Promise<Session>
  close(): Promise<void>
}

/** A null `clock` takes the server's, so that hosts whose clocks disagree write as one. */
export function connect(
  pool: Pool,
  url: string,
  given: (() => Instant) | null,
  trust: Trust = {},
): Connection {
  const server = shownAddress(url)
  const clock = createServerClock(given)
  const schema = watchSchema(server)
  const refused = createRefusedWrites({ isFull: isDiskFull })

  const places = createPlaces({
    max: pool.options.max,
    stillMaxMs: CONNECT_MAX_MS,
    refusal: () => noneFree(server),
  })

  const onClient = <T>(work: (tx: Pipeline) => Promise<T>, { caller, reads }: Scope) => {
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

  /** Runs a write again, once a change of the server since the last write is recorded. */
  async function onceNoted<T>(write: () => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await write()
      } catch (error) {
        if (!(error instanceof OtherServer) || tried === NOTED_MAX) throw error
        await tryAgain(server, () => noteServer(pool, clock.parameter(), trust))
      }
    }
  }

  async function written<T>(tx: Pipeline, work: (tx: WriteTx) => Promise<T>, scope: Scope): Promise<T> {
    let sent: { value: T; mark: Mark } | undefined
    try {
      return await inTransaction(tx, `${BEGIN_WRITE}${limitOf(scope)}`, async () => {
        const entered = enter(tx, scope, { clock: clock.parameter(), found: schema.found })
        entered.catch(() => {})
        const value = await work({ ...tx, entered }).catch(async (error) => {
          // In another schema, its statements may fail before the reason is known.
          await entered.catch((why) => {
            if (isOtherSchema(why)) throw why
          })
          throw error
        })
        sent = { value, mark: (await entered).mark }
        await commit(tx)
        return value
      })
    } catch (error) {
      if (sent && !isUndone(error) && (await wasCommitted(sent.mark, error, pool))) return sent.value
      throw error
    }
  }

  return {
    server,
    pool,
    clock,
    schema,
    look: (work, scope = {}) => onClient((tx) => alone(tx, () => schema.beside(tx, () => work(tx))), scope),
    read: (work, scope = {}) =>
      onClient(
        (tx) =>
          inTransaction(tx, `${BEGIN_READ}${limitOf(scope)}`, async () => {
            const value = await schema.beside(tx, () => work(tx))
            await commit(tx)
            return value
          }),
        scope,
      ),
    write: (work, scope = {}) =>
      onceNoted(() => onClient((tx) => refused.follow(written(tx, work, scope)), scope)),
    probe: (work) => onceNoted(() => onClient((tx) => written(tx, work, {}).then(refused.throwRecent), {})),
    async session() {
      const leave = await places.take('none')
      const client = await pool.connect().catch((error) => {
        leave()
        throw explained(error, server)
      })
      return {
        client,
        giveBack(isBroken = false) {
          client.release(isBroken)
          leave()
        },
      }
    },
    async close() {
      if (!pool.ending) await pool.end()
    },
  }
}

/** How often a write is tried when the server is a different one each time. */
const NOTED_MAX = 3

// A connection keeps its query plans. A plan made while a table was small, which reads all of it, would be kept when
// the table is large; and all reads of a write go along indexes.
const BEGIN_WRITE = 'begin; set local enable_seqscan = off'
const BEGIN_READ = 'begin isolation level repeatable read read only'

/** How long the process waits for such a statement, and how long the server lets it run; 0 for no limit. */
const READS = {
  large: { patience: PATIENCE.large, limitMs: LARGE_STATEMENT_MAX_MS, plans: '' },
  // A read of whole tables must not look up row by row, however few rows a server expects.
  whole: { patience: null, limitMs: 0, plans: '; set local enable_nestloop = off' },
}
const limitOf = ({ reads }: Scope): string =>
  reads ? `; set local statement_timeout = ${READS[reads].limitMs}${READS[reads].plans}` : ''

/** Runs the transaction to its end and returns the connection, or ends the connection if its state is unknown. */
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

// Locks of a session, on a connection of its own: they end with the process, however it ends.

const TRY = query<{ taken: boolean }>('select pg_try_advisory_lock(:which::int, :tenant::int) as taken')
const UNLOCK = query('select pg_advisory_unlock(:which::int, :tenant::int)')

const TOUCH = query('select 1 as one')

export type SessionLock = {
  /** Sends something in its session. Throws once that has ended, and the lock with it. */
  touch: () => Promise<void>
  release: () => Promise<void>
}

/**
 * Takes exclusive locks of one kind, of a tenant or of all (0); null while somebody else holds it. All share one
 * session: with a session for each, nine tenants would leave no connection to the others, nor to their own writes.
 */
export function createSessionLocks(
  { session, server }: Connection,
  which: number,
): (tenant?: number) => Promise<SessionLock | null> {
  /** A session can take its own locks again, so this process keeps a list of them. */
  const held = new Set<number>()
  let shared: Promise<Session> | null = null

  /** Returns the session after its last lock. The end of a broken one ends its locks as well. */
  async function leave(tenant: number, its: Promise<Session>, isBroken: boolean): Promise<void> {
    held.delete(tenant)
    if (shared !== its || (held.size > 0 && !isBroken)) return
    shared = null
    await its.then(
      ({ giveBack }) => giveBack(isBroken),
      () => {},
    )
  }

  return async (tenant = 0) => {
    if (held.has(tenant)) return null
    held.add(tenant)
    shared ??= session()
    const its = shared
    const ask = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> =>
      work(pipelineOn((await its).client, PATIENCE.work))
    try {
      if (!(await ask((tx) => tx.get(TRY, { which, tenant })))?.taken) {
        await leave(tenant, its, false)
        return null
      }
    } catch (error) {
      await leave(tenant, its, true)
      throw explained(error, server)
    }
    let released: Promise<void> | undefined
    return {
      touch: () => explaining(server, async () => void (await ask((tx) => tx.run(TOUCH)))),
      release() {
        released ??= ask((tx) => tx.run(UNLOCK, { which, tenant })).then(
          () => leave(tenant, its, false),
          () => leave(tenant, its, true),
        )
        return released
      },
    }
  }
}
