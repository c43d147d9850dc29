// The store of the simulation on SQLite.

import { existsSync } from 'node:fs'
import { SqliteError } from 'better-sqlite3'
import { type Database, openFile } from '../../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../../src/store/sqlite/open.ts'
import { openFresh } from '../../support/fresh-database.ts'
import type { SystemOptions } from './system.ts'

export const onSqlite = (file: string): Pick<SystemOptions, 'open' | 'holdLock' | 'forbidden'> => ({
  open: (clock) => (existsSync(file) ? openStore(file, { clock, create: false }) : openFresh(file, clock)),
  holdLock() {
    const db = openFile(file)
    db.exec('begin immediate')
    // Something is written, so that whoever read before it has an old view of the file.
    db.exec('update partners set updated_at = updated_at + 1 - 1')
    return () => {
      db.exec('commit')
      db.close()
    }
  },
  forbidden: () => takenAgainstRules(file),
})

const A_NEW_ID = "'exec_' || lower(hex(randomblob(16)))"
/** An execution of the same tenant that has no trade. */
const ANOTHER =
  '(select execution_id from executions e where e.tenant_id = trades.tenant_id and not exists (select 1 from trades t where t.execution_id = e.execution_id))'

/** Copies of rows that the file has to refuse, whatever the program does: a table, and what differs in the copy. */
const COPIES: [what: string, table: string, differs: Record<string, string>][] = [
  ['an idempotency key twice', 'executions', { execution_id: A_NEW_ID }],
  ['an order twice in a tenant', 'trades', { execution_id: ANOTHER }],
  ['a second current window of a plan', 'windows', { window_id: 'null' }],
  ['a plan id twice in a tenant', 'plans', { plan_id: 'null' }],
  ['a user id twice in a tenant', 'users', { user_id: 'null' }],
  ['a key twice', 'api_keys', { key_id: "'copy'" }],
  ['a report kept twice', 'late_reports', { report_id: 'null' }],
]

const CHANGES: [what: string, sql: string][] = [
  ['a window above its budget', 'update windows set spent = budget + 1'],
  ['a trade of nothing', "update trades set usd_amount = 0 where status = 'filled'"],
  ['an audit entry changed', "update audit set os_user = 'x'"],
  ['an audit entry removed', 'delete from audit'],
  ['a consent changed', "update consents set consent_version = 'x'"],
  [
    'an execution removed that has a trade',
    'delete from executions where execution_id in (select execution_id from trades)',
  ],
]

/** What of it the file takes. Each is tried and taken back. */
function takenAgainstRules(file: string): string[] {
  const db = openFile(file)
  try {
    db.pragma('foreign_keys = on')
    const copies = COPIES.map(([what, ...copy]) => ({ what, sql: copyOf(db, ...copy) }))
    const changes = CHANGES.map(([what, sql]) => ({ what, sql }))
    return [...copies, ...changes].filter(({ sql }) => isTaken(db, sql)).map(({ what }) => what)
  } finally {
    db.close()
  }
}

function copyOf(db: Database, table: string, differs: Record<string, string>): string {
  const columns = (db.pragma(`table_info(${table})`) as { name: string }[]).map(({ name }) => name)
  const values = columns.map((name) => differs[name] ?? name)
  const current = table === 'windows' ? 'where closed_at is null' : ''
  return `insert into ${table} (${columns}) select ${values} from ${table} ${current} limit 1`
}

/** A statement that finds no row proves nothing, and is not taken. One that is wrong itself throws. */
function isTaken(db: Database, sql: string): boolean {
  db.exec('begin immediate')
  try {
    return db.prepare(sql).run().changes > 0
  } catch (error) {
    if (error instanceof SqliteError && error.code.startsWith('SQLITE_CONSTRAINT')) return false
    throw error
  } finally {
    db.exec('rollback')
  }
}
