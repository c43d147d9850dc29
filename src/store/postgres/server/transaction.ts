// One transaction on one connection. Statements are sent without waiting for each other's answers; what fails is told
// once, as the first thing that failed.

import type { PoolClient, QueryResult } from 'pg'
import { type Params, type Query, valuesOf } from './statement.ts'

/** What may be asked inside a transaction. Statements run in the order in which they are asked. */
export type Tx = {
  all<Row>(query: Query<Row>, params?: Params): Promise<Row[]>
  /** The first row, undefined when there is none. */
  get<Row>(query: Query<Row>, params?: Params): Promise<Row | undefined>
  /** How many rows were touched. */
  run(query: Query<unknown>, params?: Params): Promise<number>
}

export type Pipeline = Tx & {
  /** A statement of the transaction's own. */
  send(text: string, answerMaxMs?: number): Promise<QueryResult>
  /** Resolves when everything that was asked is answered. Throws the first error there was. */
  settled(): Promise<void>
  /** Whether a statement has failed: then nobody knows which ones this connection has prepared. */
  hasFailed(): boolean
}

/**
 * A server that has lost its power, or hangs, refuses nothing: what is on its way to it would be waited for until the
 * network gives up, a quarter of an hour. A server that works has ended a statement itself by then (pool.ts).
 */
export const ANSWER_MAX_MS = 65_000

/** What is not answered within `answerMaxMs` fails, and the connection with it; null waits without end. */
export function pipelineOn(client: PoolClient, answerMaxMs: number | null = ANSWER_MAX_MS): Pipeline {
  const underWay = new Set<Promise<unknown>>()
  let failure: { error: unknown } | null = null

  function follow<T>(answer: Promise<T>): Promise<T> {
    const tracked = answer
      .catch((error) => {
        failure ??= { error }
      })
      .finally(() => underWay.delete(tracked))
    underWay.add(tracked)
    return answer
  }
  const ask = (query: Query<unknown>, params: Params): Promise<QueryResult> =>
    follow(
      client.query({
        name: query.name,
        text: query.text,
        values: valuesOf(query, params),
        ...within(answerMaxMs),
      }),
    )

  return {
    all: async (query, params = {}) => (await ask(query, params)).rows,
    get: async (query, params = {}) => (await ask(query, params)).rows[0],
    run: async (query, params = {}) => (await ask(query, params)).rowCount ?? 0,
    send: (text, maxMs) => follow(client.query({ text, ...within(maxMs ?? answerMaxMs) })),
    async settled() {
      while (underWay.size > 0) await Promise.all(underWay)
      if (failure) throw failure.error
    },
    hasFailed: () => failure !== null,
  }
}

/** As the driver takes it. Its own types do not know of it. */
const within = (ms: number | null): object => (ms === null ? {} : { query_timeout: ms })

/** What failed first on the connection is why anything else did. */
export async function firstError(pipeline: Pipeline, error: unknown): Promise<unknown> {
  if (!pipeline.hasFailed()) return error
  return pipeline.settled().then(
    () => error,
    (first) => first,
  )
}
