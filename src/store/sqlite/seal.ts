// What keeps a file from being written to. The seal: a row that says where the database has moved to, and a trigger on
// every table that refuses each write. SQLite itself enforces them, so every writer is refused: a process that already
// had the file open, a program of another version, an SQL shell.

import type { Problem } from '../../core/problem.ts'
import { type Restored, standsStill } from '../../core/standstill.ts'
import type { Instant } from '../../core/time.ts'
import { auditParams } from '../rows/accounts.ts'
import { type Seal, sealedProblem, sealedWords, sealIn } from '../seal.ts'
import { INSERT_AUDIT } from '../shared/audit.ts'
import { refuseStandstill, restoredIn, STANDSTILL_IN_FORCE, standstillParams } from '../standstill.ts'
import { instant } from '../statement.ts'
import type { AuditEntry } from '../store.ts'
import { insertInto, type RowOf } from '../tables.ts'
import type { Database } from './file/connection.ts'

const PREFIX = 'sealed_'
const WRITES = ['insert', 'update', 'delete'] as const

/** Null for a database without a seal, and for one from before there were seals. */
export function sealOf(db: Database): Seal | null {
  if (!tablesOf(db).includes('sealed')) return null
  const row = db.prepare<[], { at: bigint; moved_to: string }>('select at, moved_to from sealed').get()
  return row ? { at: instant(row.at), movedTo: row.moved_to } : null
}

/** To be called inside a transaction. */
export function setSeal(db: Database, seal: Seal): void {
  db.prepare('insert or replace into sealed (one, at, moved_to) values (1, ?, ?)').run(seal.at, seal.movedTo)
  const words = sealedWords(seal).replaceAll("'", "''")
  for (const table of tablesOf(db))
    for (const write of WRITES)
      db.exec(
        `create trigger ${PREFIX}${table}_${write} before ${write} on ${table} begin select raise(abort, '${words}'); end`,
      )
}

/** To be called inside a transaction. */
export function breakSeal(db: Database): void {
  const triggers = db
    .prepare("select name from sqlite_schema where type = 'trigger' and substr(name, 1, ?) = ?")
    .pluck()
    .all(PREFIX.length, PREFIX)
  for (const trigger of triggers) db.exec(`drop trigger ${trigger}`)
  db.prepare('delete from sealed').run()
}

/** Makes a database that was put back from a copy stand still, even one that is sealed and stays so. */
export function noteRestored(db: Database, restored: Restored): void {
  db.transaction(() => {
    const seal = sealOf(db)
    if (seal) breakSeal(db)
    db.prepare('delete from standstill').run()
    db.prepare(insertInto('standstill')).run(standstillParams(restored))
    if (seal) setSeal(db, seal)
  })()
}

/** Records an audit entry in a database that is not open as a store. */
export function addAuditFromOutside(db: Database, entry: AuditEntry, now: Instant): void {
  db.prepare(INSERT_AUDIT).run(auditParams(entry, now))
}

const tablesOf = (db: Database): string[] =>
  db.prepare("select name from sqlite_schema where type = 'table' order by name").pluck().all() as string[]

// A database that stands still: what fires, hands out, or changes what fires asks here first, inside its transaction.

/** Throws database_restored while the database stands still. */
type RefuseWhenStill = () => void

export function createRefuseWhenStill(db: Database): RefuseWhenStill {
  const still = db.prepare<[], RowOf<'standstill'>>(STANDSTILL_IN_FORCE)
  return () => refuseStandstill(still.get())
}

/** The same for what reads first: why nothing may be handed out, or null. */
export function createReadRefusal(db: Database): () => Problem | null {
  const sealed = db.prepare<[], { at: bigint; moved_to: string }>('select at, moved_to from sealed')
  const still = db.prepare<[], RowOf<'standstill'>>(STANDSTILL_IN_FORCE)
  return () => {
    const seal = sealIn(sealed.get())
    if (seal) return sealedProblem(seal)
    const restored = restoredIn(still.get())
    return restored && standsStill(restored)
  }
}
