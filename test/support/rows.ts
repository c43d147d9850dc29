// The rows of a database, wherever it is: for tests that see or make what no command does.

import type { TestContext } from 'node:test'
import Database from 'better-sqlite3'
import pg from 'pg'
import { isOnServer } from './database.ts'

type Row = Record<string, unknown>
/** One statement in SQL that both stores speak, with a ? for each value. Integers are numbers. */
export type Rows = (sql: string, ...values: unknown[]) => Promise<Row[]>

/** Asks as somebody with a shell would, until the test ends. `address` is what --db names. */
export const rowsOf = (t: Pick<TestContext, 'after'>, address: string): Promise<Rows> =>
  isOnServer ? onServer(t, address) : inFile(t, address)

async function inFile(t: Pick<TestContext, 'after'>, file: string): Promise<Rows> {
  const db = new Database(file)
  t.after(() => db.close())
  return async (sql, ...values) => {
    const statement = db.prepare(sql)
    if (statement.reader) return statement.all(...values) as Row[]
    statement.run(...values)
    return []
  }
}

async function onServer(t: Pick<TestContext, 'after'>, url: string): Promise<Rows> {
  const types = {
    getTypeParser: (oid: number) => (oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid)),
  }
  const client = new pg.Client({ connectionString: url, types: types as never })
  client.on('error', () => {})
  await client.connect()
  t.after(() => client.end())
  await client.query('set search_path = tranche')
  return async (sql, ...values) => {
    let count = 0
    return (
      await client.query(
        sql.replaceAll('?', () => `$${++count}`),
        values,
      )
    ).rows
  }
}

/** Has the database fail, with a message, whatever touches a table in one way; what it answers ends that. */
export async function refuse(
  rows: Rows,
  { verb, table, message }: { verb: 'insert' | 'update' | 'delete'; table: string; message: string },
): Promise<() => Promise<unknown>> {
  const on = `create trigger refuse before ${verb} on ${table}`
  if (!isOnServer) {
    await rows(`${on} begin select raise(abort, '${message}'); end`)
    return () => rows('drop trigger refuse')
  }
  await rows(
    `create function refuse_for_test() returns trigger language plpgsql as $$ begin raise exception '${message}'; end $$`,
  )
  await rows(`${on} for each row execute function refuse_for_test()`)
  return () => rows(`drop trigger refuse on ${table}`)
}
