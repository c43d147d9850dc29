// A database as the first release left it, made from a current one.

import SQLite from 'better-sqlite3'
import { readMigrations } from '../../src/resources.ts'

const [first] = readMigrations('sqlite')
/** The name of the first migration. */
export const FIRST = first?.name ?? ''

/** Makes `file`: the first migration alone, and the rows of `present` in the tables of that time. */
export function firstSchemaOf(present: string, file: string): void {
  const db = new SQLite(file)
  db.pragma('foreign_keys = off')
  db.exec(first?.text ?? '')
  db.exec(
    'create table migrations (name text primary key, sha256 text not null, applied_at integer not null) strict',
  )
  db.prepare('attach ? as present').run(present)
  const tables = db
    .prepare<[], string>("select name from main.sqlite_schema where type = 'table'")
    .pluck()
    .all()
  for (const table of tables.filter((name) => name !== 'migrations')) {
    const columns = db
      .prepare<[string], string>('select name from pragma_table_info(?)')
      .pluck()
      .all(table)
      .join()
    db.exec(
      `delete from main.${table}; insert into main.${table} (${columns}) select ${columns} from present.${table}`,
    )
  }
  db.prepare('insert into main.migrations select * from present.migrations where name = ?').run(FIRST)
  db.exec('detach present; pragma application_id = 1953656419; pragma journal_mode = wal')
  db.close()
}
