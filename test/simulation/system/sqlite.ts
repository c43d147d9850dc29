// The store of the simulation on SQLite.

import { existsSync } from 'node:fs'
import { SqliteError } from 'better-sqlite3'
import { type Database, openFile } from '../../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../../src/store/sqlite/open.ts'
import { openFresh } from '../../support/database.ts'
import { CHANGES, COPIES, type Copy, MADE, NEW_EXECUTION_ID, sourceOf } from './record.ts'
import type { Access } from './system.ts'

/** How long a write waits for the lock that another connection has. */
const LOCKED_MS = 2

export const onSqlite = (file: string): Access => ({
  address: file,
  open: (clock) => (existsSync(file) ? openStore(file, { clock, create: false }) : openFresh(file, clock)),
  async whileLocked(work) {
    const db = openFile(file)
    db.exec('begin immediate')
    // Something is written, so that a connection that read before it has an old view of the file.
    db.exec('update partners set updated_at = updated_at + 1 - 1')
    const answer = work()
    await new Promise((resolve) => setTimeout(resolve, LOCKED_MS))
    db.exec('commit')
    db.close()
    return answer
  },
  forbidden: async () => takenAgainstRules(file),
  settled: async () => {},
})

/** What breaks a rule and is taken by the file. Each is tried and taken back. */
function takenAgainstRules(file: string): string[] {
  const db = openFile(file)
  try {
    db.pragma('foreign_keys = on')
    const copies = COPIES.map((copy) => ({ what: copy.what, sql: copyOf(db, copy) }))
    return [...copies, ...CHANGES].filter(({ sql }) => isTaken(db, sql)).map(({ what }) => what)
  } finally {
    db.close()
  }
}

const SPECIAL = { [MADE]: 'null', [NEW_EXECUTION_ID]: "'exec_' || lower(hex(randomblob(16)))" }

function copyOf(db: Database, { table, differs }: Copy): string {
  const columns = (db.pragma(`table_info(${table})`) as { name: string }[]).map(({ name }) => name)
  const values = columns.map((name) => {
    const value = differs[name] ?? name
    return typeof value === 'string' ? value : SPECIAL[value]
  })
  return `insert into ${table} (${columns}) select ${values} ${sourceOf(table)}`
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
