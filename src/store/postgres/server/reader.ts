// Runs the statements that both stores share on a PostgreSQL server.

import type { Params, Reader, Sql } from '../../common/reader.ts'
import type { Connection, Errand } from './connection.ts'
import type { Tx } from './pipeline.ts'
import { type Query, query } from './statement.ts'

/** For the whole process: a statement has the same name on every connection. */
const queries = new WeakMap<Sql<unknown>, Query<unknown>>()

/** What a transaction asks in the SQL of both stores. */
export function queryOf<Row>(statement: Sql<Row>): Query<Row> {
  const known = queries.get(statement) ?? query<unknown>(statement.text)
  queries.set(statement, known)
  return known as Query<Row>
}

export function readerOf({ look, read }: Pick<Connection, 'look' | 'read'>, errand: Errand = {}): Reader {
  // Only a transaction has a time limit of its own.
  const ask = errand.reads ? read : look
  const all = <Row>(tx: Tx, statement: Sql<Row>, params: Params) => tx.all(queryOf(statement), params)
  return {
    all: (statement, params = {}) => ask((tx) => all(tx, statement, params), errand),
    get: (statement, params = {}) => ask((tx) => tx.get(queryOf(statement), params), errand),
    together: (...questions) =>
      read(
        (tx) => Promise.all(questions.map(({ statement, params }) => all(tx, statement, params))),
        errand,
      ) as Promise<never>,
  }
}
