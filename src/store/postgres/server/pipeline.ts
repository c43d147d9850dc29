// One transaction on one connection. Statements are sent without waiting for each other's answers; a failure is
// reported once, as the first error that occurred.

import type { ClientBase, PoolClient, QueryResult } from 'pg'
import { isOtherSchema } from '../../schema-version.ts'
import { watchOver } from './cut-silent-connection.ts'
import { type Params, type Query, valuesOf } from './statement.ts'
import type { Patience } from './timeouts.ts'

/** What may be asked inside a transaction. Statements run in the order in which they are asked. */
export type Tx = {
  all<Row>(query: Query<Row>, params?: Params): Promise<Row[]>
  /** The first row, undefined when there is none. */
  get<Row>(query: Query<Row>, params?: Params): Promise<Row | undefined>
  /** How many rows were touched. */
  run(query: Query<unknown>, params?: Params): Promise<number>
  /** For work that nobody waits for: it is sent before the commit, which throws if any of it fails. */
  unwaited(work: Promise<unknown>): void
}

export type Pipeline<Client extends ClientBase = PoolClient> = Tx & {
  client: Client
  /** A statement of the transaction's own. */
  send(text: string, patience?: Patience): Promise<QueryResult>
  /** Resolves when everything that was asked is answered. Throws the first error there was. */
  settled(): Promise<void>
  /** Whether a statement has changed a row. Not every change counts: one inside a `with` does not. */
  hasChanged(): boolean
  /** Whether a statement has failed: it is then unknown which ones this connection has prepared. */
  hasFailed(): boolean
}

/** `patience` is how long any of its answers may take. */
export function pipelineOn<Client extends ClientBase>(client: Client, patience: Patience): Pipeline<Client> {
  const underWay = new Set<Promise<unknown>>()
  const watch = watchOver(client)
  let failure: { error: unknown } | null = null
  let changed = false

  function track(work: Promise<unknown>, ended = () => {}): void {
    const tracked = work
      .catch((error) => {
        failure ??= { error }
      })
      .finally(() => {
        ended()
        underWay.delete(tracked)
      })
    underWay.add(tracked)
  }
  function follow(answer: Promise<QueryResult>, within = patience): Promise<QueryResult> {
    watch.asked(within)
    const noted = answer.then((result) => {
      changed ||= CHANGES.includes(result.command) && (result.rowCount ?? 0) > 0
      return result
    })
    track(noted, watch.answered)
    return noted
  }
  // What cannot be sent counts as failed too: the server does not know of it, and would commit the rest.
  const send = async (query: Query<unknown>, params: Params): Promise<QueryResult> =>
    client.query({ name: query.name, text: query.text, values: valuesOf(query, params) })
  const ask = (query: Query<unknown>, params: Params): Promise<QueryResult> => follow(send(query, params))

  return {
    client,
    all: async (query, params = {}) => (await ask(query, params)).rows,
    get: async (query, params = {}) => (await ask(query, params)).rows[0],
    run: async (query, params = {}) => (await ask(query, params)).rowCount ?? 0,
    unwaited: (work) => track(work),
    send: (text, within) => follow(client.query(text), within),
    async settled() {
      while (underWay.size > 0) await Promise.all(underWay)
      if (failure) throw failure.error
    },
    hasChanged: () => changed,
    hasFailed: () => failure !== null,
  }
}

const CHANGES = ['INSERT', 'UPDATE', 'DELETE']

/** The first failure on the connection explains all others, except when the schema is not one of ours. */
export async function firstError(pipeline: Pipeline, error: unknown): Promise<unknown> {
  if (!pipeline.hasFailed() || isOtherSchema(error)) return error
  return pipeline.settled().then(
    () => error,
    (first) => first,
  )
}
