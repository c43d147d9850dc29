// Schema migrations: numbered files applied in order, each recorded with its hash.

import type { Frozen } from '../../../core/frozen.ts'
import { Problem, usage } from '../../../core/problem.ts'
import type { Instant } from '../../../core/time.ts'
import { readMigrations } from '../../../resources.ts'
import { type FrozenRow, frozenOf, movedBeforeMigration, SELECT_FROZEN, SELECT_SEALED } from '../../frozen.ts'
import { compareSchemas, type Part, type SchemaDifferences } from '../../health/schema.ts'
import { type Applied, appliedIn, isPending, type MigrationState, statesOf } from '../../migrations.ts'
import { TABLES } from '../../tables.ts'
import { type Database, openInMemory } from './connection.ts'
import { haltPasses } from './locks.ts'
import { partsOf } from './schema.ts'
import { whenFree } from './waiting.ts'
import { copyTo } from './whole-copy.ts'

/** Marks the file as ours ("trnc"), for `file` and for refusing to write into somebody else's database. */
const APPLICATION_ID = 0x74726e63

/** Brings the schema up to this program's. A database without a name is nobody else's, and keeps no copy. */
export async function migrate(db: Database, file: string | null, clock: () => Instant): Promise<void> {
  const isBehind = () => whenFree(() => migrationStates(db).some(isPending))
  if (!(await isBehind())) return
  const { movedTo = null } = frozenIn(db) ?? {}
  if (movedTo !== null) throw movedBeforeMigration(movedTo)
  const release = file === null ? () => {} : await haltPasses(file, 'The database has to be migrated')
  try {
    // Another process may have been first: then there is nothing left to do, and its copy must not be replaced.
    if (!(await isBehind())) return
    if (file !== null && readApplied(db).size > 0) await whenFree(() => backUp(db, file))
    await whenFree(() => applyPending(db, clock()))
  } finally {
    release()
  }
}

/** The frozen state of a file that is not open as a store, also where an earlier version has moved it. */
export function frozenIn(db: Database): Frozen | null {
  const tables = db.prepare("select name from sqlite_schema where type = 'table'").pluck().all()
  const select = tables.includes('frozen') ? SELECT_FROZEN : tables.includes('sealed') ? SELECT_SEALED : null
  return select === null ? null : frozenOf(db.prepare<[], FrozenRow>(select).get())
}

/** Every migration this program knows, with when it was applied. Throws schema_newer, or refuses a foreign file. */
export const migrationStates = (db: Database): MigrationState[] =>
  statesOf(readMigrations('sqlite'), readApplied(db))

/** How a schema differs from that of its recorded migrations. Reads only the table of migrations. */
export const schemaDifferences = (db: Database): SchemaDifferences =>
  compareSchemas(partsMadeBy([...readApplied(db).keys()].sort()), partsOf(db))

/** Of migrations that were replayed in memory, by their names: a running program's never change. */
const MADE = new Map<string, readonly Part[]>()

function partsMadeBy(names: readonly string[]): readonly Part[] {
  const known = MADE.get(names.join())
  if (known) return known
  using db = openInMemory()
  applyPending(db, 0 as Instant, names)
  const parts = partsOf(db)
  MADE.set(names.join(), parts)
  return parts
}

/** Applies what is missing of all migrations, or of the `wanted` ones, by their names. */
function applyPending(db: Database, now: Instant, wanted?: readonly string[]): void {
  // Released migrations call it, for columns that are no longer read.
  db.function('row_digest', (_text: unknown) => 0n)
  db.exec('begin immediate')
  // A migration that only relaxes a check edits the text of the schema, as SQLite's manual describes: a table with all
  // its references stays in place.
  db.unsafeMode(true)
  try {
    // Read again under the lock: another process may have been first.
    const applied = readApplied(db)
    if (applied.size === 0) db.exec(MIGRATIONS_TABLE)
    for (const { name, text, sha256 } of readMigrations('sqlite')) {
      if (applied.has(name) || wanted?.includes(name) === false) continue
      db.prepare('insert into migrations (name, sha256, applied_at) values (?, ?, ?)').run(name, sha256, now)
      db.exec(text)
    }
    db.pragma(`application_id = ${APPLICATION_ID}`)
    db.exec('commit')
  } finally {
    if (db.inTransaction) db.exec('rollback')
    db.pragma('writable_schema = off')
    db.unsafeMode(false)
  }
}

const MIGRATIONS_TABLE =
  'create table if not exists migrations (name text primary key, sha256 text not null, applied_at integer not null) strict'

function readApplied(db: Database): Map<string, Applied> {
  const tables = db.prepare("select name from sqlite_schema where type = 'table'").pluck().all()
  refuseViews(db)
  if (!tables.includes('migrations')) {
    if (tables.length > 0) throw usage('This SQLite file holds something else: it is not a tranche database.')
    return new Map()
  }
  return appliedIn(db.prepare('select name, sha256, applied_at from migrations').all())
}

/** Reading a view in place of a table may never end. */
function refuseViews(db: Database): void {
  const views = db.prepare<[], string>("select name from sqlite_schema where type = 'view'").pluck().all()
  const taken = views.find((name) => name === 'migrations' || TABLES.some((table) => table.name === name))
  if (taken !== undefined)
    throw new Problem(
      'database_damaged',
      `A view is in the place of the table ${taken}: put a sound backup back with \`tranche restore BACKUP\`.`,
    )
}

/** A copy of the database as it was, beside it, named after its last migration. */
function backUp(db: Database, file: string): void {
  const last = [...readApplied(db).keys()].sort().at(-1) ?? 'empty'
  const copy = `${file}.before-migration-after-${last.replace(/\.sql$/, '')}`
  // Every tick tries a failed migration again: one copy of that state is enough, and the newest is the right one.
  copyTo(db, copy, { replace: true })
}
