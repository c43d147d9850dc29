// A database on a server, and the only ways to use it: look, read, and write.

import type { PoolClient } from 'pg'
import type { Instant } from '../../../core/instant.ts'
import type { Tenant } from '../../../core/partner.ts'
import { shownAddress } from '../../address.ts'
import { createServerClock, type ServerClock } from './clock.ts'
import { commit, wasCommitted } from './commit.ts'
import { explained, isLost, isTransient } from './errors.ts'
import { enter, type Mark, type Scope, type Times } from './gate.ts'
import type { Pool } from './pool.ts'
import { ANSWER_MAX_MS, firstError, type Pipeline, pipelineOn, type Tx } from './transaction.ts'

/** Inside a write: `times` is what its gate has read. Statements that do not need it are best sent before it is awaited. */
export type WriteTx = Tx & { times: Promise<Times> }

export type Connection = {
  /** The address without a password. */
  server: string
  pool: Pool
  clock: ServerClock
  /** Asks for one thing only, without a transaction around it. */
  look<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Runs `work` on one consistent snapshot. What reads whole tables is `unhurried`: no limit of time holds for it. */
  read<T>(work: (tx: Tx) => Promise<T>, how?: { unhurried: boolean }): Promise<T>
  /**
   * Runs `work` in a transaction behind the gate of months (gate.ts) and resolves once it is committed; what throws undoes
   * it. `work` may run more than once: the last run counts.
   */
  write<T>(work: (tx: WriteTx) => Promise<T>, scope?: Scope): Promise<T>
  close(): Promise<void>
}

/** How often a transaction that others made impossible, or whose server went away, is tried in all. */
const TRIES_MAX = 3
const TRY_AGAIN_MS = 50

export const ofTenant = ({ tenantId }: Pick<Tenant, 'tenantId'>): Scope => ({ tenants: [tenantId] })

/** A null `clock` takes the server's, so that hosts whose clocks disagree write as one. */
export function connect(
  pool: Pool,
  url: string,
  given: (() => Instant) | null,
  { answerMaxMs = ANSWER_MAX_MS } = {},
): Connection {
  const server = shownAddress(url)
  const clock = createServerClock(given)

  async function onClient<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await work(await pool.connect())
      } catch (error) {
        if (tried === TRIES_MAX || !(isTransient(error) || isLost(error))) throw explained(error, server)
        await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS * tried))
      }
    }
  }

  async function written<T>(client: PoolClient, work: (tx: WriteTx) => Promise<T>, scope: Scope): Promise<T> {
    let sent: { value: T; mark: Mark } | undefined
    try {
      return await inTransaction(client, { begin: BEGIN_WRITE, answerMaxMs }, async (tx) => {
        const entered = enter(tx, scope, clock.parameter())
        const times = entered.then((gate) => gate.times)
        times.catch(() => {})
        const value = await work({ ...tx, times })
        sent = { value, mark: (await entered).mark }
        await commit(tx)
        return value
      })
    } catch (error) {
      if (sent && isLost(error) && (await wasCommitted(sent.mark, { pool, server }))) return sent.value
      throw error
    }
  }

  return {
    server,
    pool,
    clock,
    look: (work) => onClient((client) => alone(client, answerMaxMs, work)),
    read: (work, { unhurried } = { unhurried: false }) =>
      onClient((client) =>
        inTransaction(client, unhurried ? UNHURRIED : { begin: BEGIN_READ, answerMaxMs }, async (tx) => {
          const value = await work(tx)
          await commit(tx)
          return value
        }),
      ),
    write: (work, scope = {}) => onClient((client) => written(client, work, scope)),
    async close() {
      if (!pool.ending) await pool.end()
    },
  }
}

// A connection keeps the plans that it has made. One that was made while a table was small, and reads all of it, would go
// on to do so when it is large; and what a write reads lies along indexes.
const BEGIN_WRITE = 'begin; set local enable_seqscan = off'
const BEGIN_READ = 'begin isolation level repeatable read read only'
const UNHURRIED = { begin: `${BEGIN_READ}; set local statement_timeout = 0`, answerMaxMs: null }

/** Runs it to its end and gives the connection back, or ends a connection of which nothing is known any more. */
async function inTransaction<T>(
  client: PoolClient,
  { begin, answerMaxMs }: { begin: string; answerMaxMs: number | null },
  run: (tx: Pipeline) => Promise<T>,
): Promise<T> {
  const tx = pipelineOn(client, answerMaxMs)
  try {
    tx.send(begin).catch(() => {})
    const value = await run(tx)
    client.release()
    return value
  } catch (error) {
    const first = await firstError(tx, error)
    if (tx.hasFailed() || isLost(first)) client.release(true)
    else await undo(client)
    throw first
  }
}

async function undo(client: PoolClient): Promise<void> {
  try {
    await pipelineOn(client).send('rollback')
    client.release()
  } catch {
    client.release(true)
  }
}

async function alone<T>(client: PoolClient, answerMaxMs: number, work: (tx: Tx) => Promise<T>): Promise<T> {
  const tx = pipelineOn(client, answerMaxMs)
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
