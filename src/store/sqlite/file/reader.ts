// Runs the statements that both stores share on a file.

import type SQLite from 'better-sqlite3'
import type { Params, Reader, Sql } from '../../common/reader.ts'
import type { Connection } from './connection.ts'

export function readerOf({ db, read }: Pick<Connection, 'db' | 'read'>): Reader {
  const prepared = new Map<Sql<unknown>, SQLite.Statement>()
  function all<Row>(statement: Sql<Row>, params: Params): Row[] {
    const ready = prepared.get(statement) ?? db.prepare(statement.text)
    prepared.set(statement, ready)
    return ready.all(params) as Row[]
  }
  return {
    all: (statement, params = {}) => read(() => all(statement, params)),
    get: (statement, params = {}) => read(() => all(statement, params)[0]),
    together: (...questions) =>
      read(() => questions.map(({ statement, params }) => all(statement, params)) as never),
  }
}
