// One connection to one SQLite file, and the only two ways to use it: read, and write.

import SQLite from 'better-sqlite3'
import { nativeBinding } from '../../../addon.ts'
import type { Frozen } from '../../../core/frozen.ts'
import { type Instant, later } from '../../../core/time.ts'
import { readMigrations } from '../../../resources.ts'
import { type FrozenRow, frozenOf, refuseFrozen, SELECT_FROZEN } from '../../frozen.ts'
import { createSchemaWatch } from '../../migrations.ts'
import { instant } from '../../statement.ts'
import { createRefusedWrites } from '../../writes.ts'
import { CHECKPOINT_PAGES, type Checkpoints } from './checkpoints.ts'
import { explained, isDiskFull } from './errors.ts'
import { hasRoom, type NameWatch, watchFileName } from './files.ts'
import { whenFree } from './waiting.ts'
import { refuseForeignBeside } from './wal.ts'
import { createWriter, type Write } from './write-queue.ts'

export type Database = SQLite.Database

export type Connection = {
  db: Database
  clock: () => Instant
  /** The time of a write now. */
  present: () => Instant
  /** As in `Base`. */
  look<T>(work: () => T): Promise<T>
  read<T>(work: () => T): Promise<T>
  /** Runs `work` in the turn of a tenant, `lane`, and resolves once it is on disk; a throw undoes `work` alone. */
  write: Write
  /** `write` for a probe, which also throws the error of a recent write that failed on a full disk. */
  probe(work: () => void): Promise<void>
  /** Throws database_gone when the file's name leads to another file. */
  lookAtName: () => void
  /** Must be called once a write has begun. Throws database_moved, and schema_newer after another's upgrade. */
  mayWrite: () => void
  frozen: () => Frozen | null
}

/** `using` closes it at the end of the block. */
class FileDatabase extends SQLite implements Disposable {
  override prepare<Values extends unknown[] | object = unknown[], Row = unknown>(source: string) {
    return super.prepare<Values, Row>(plannedOnce(source))
  }
  [Symbol.dispose](): void {
    this.close()
  }
}

// Keeps SQLite from planning a statement again at each use, which it does when the plan might depend on the value of a
// parameter. A unary plus, which changes no value, hides the parameter from it
// (docs/decisions/file.md#a-statement-is-planned-once).

/** Matches text that may contain a colon or a question mark that is not a parameter, and parameters. */
const PARTS = /'[^']*'|"[^"]*"|--.*|[:?]\w*/g

/** The same statement, planned once, whatever its parameters are bound to. */
export const plannedOnce = (sql: string): string =>
  sql.replace(PARTS, (part) => (part.startsWith(':') || part.startsWith('?') ? `+${part}` : part))

/**
 * Opens a file for reading, without waiting inside SQLite: waiting for a lock is done outside, so that the event loop
 * stays free. A commit would not wait for the disk. Throws bad_file for a log that belongs to another file.
 */
export function openFile(file: string, { fileMustExist = false } = {}): FileDatabase {
  refuseForeignBeside(file)
  return openDatabase(file, fileMustExist)
}

/** A database of this connection alone. */
export const openInMemory = (): FileDatabase => openDatabase(':memory:', false)

function openDatabase(name: string, fileMustExist: boolean): FileDatabase {
  const binding = nativeBinding()
  const db = new FileDatabase(name, {
    timeout: 0,
    fileMustExist,
    ...(binding && { nativeBinding: binding as unknown as string }),
  })
  db.defaultSafeIntegers(true)
  return db
}

/** Opens a file for writing: a commit is on disk when it returns. */
export async function openToWrite(file: string): Promise<FileDatabase> {
  const db = openFile(file)
  try {
    await whenFree(() => commitSafely(db))
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Runs `work` on a connection of its own, whose end rolls back anything uncommitted. Explains errors. */
export async function onFile<T>(file: string, work: (db: Database) => T | Promise<T>): Promise<T> {
  try {
    using db = openFile(file)
    return await work(db)
  } catch (error) {
    throw explained(error, file)
  }
}

/** SQLite's compiled default leaves the last commits of a log to the next checkpoint. This reads the schema first. */
export const commitSafely = (db: Database): void => void db.pragma('synchronous = full')

/** The size of the database without its log; inside a transaction, as that transaction leaves it. */
export const databaseBytes = (db: Database): number =>
  Number(db.pragma('page_count', { simple: true })) * Number(db.pragma('page_size', { simple: true }))

type Beside = { watch?: NameWatch; checkpoints?: Checkpoints | null }

/** The schema of the file is this program's. No write is dated before what has been reported. */
export function connect(
  db: Database,
  clock: () => Instant,
  { watch = watchFileName(db.name), checkpoints = null }: Beside = {},
): Connection {
  // Another process may have been upgraded, and have migrated the file, while this one has it open.
  const lastMigration = db.prepare<[], string | null>('select max(name) from migrations').pluck()
  const schema = createSchemaWatch(readMigrations('sqlite'))
  const lookAtSchema = (): void => schema.found(lastMigration.get() ?? null)
  const frozenRow = db.prepare<[], FrozenRow>(SELECT_FROZEN)
  const frozen = () => frozenOf(frozenRow.get())
  const reported = db.prepare<[], bigint>('select at from reported_until').pluck()
  const present = () => later(clock(), instant(reported.get() ?? 0n))
  const begin = db.prepare('begin deferred')
  // A read has nothing to commit, and a commit fails on a file that is damaged.
  const end = db.prepare('rollback')
  const snapshot = <T>(work: () => T): T => {
    watch.lookNowAndThen()
    begin.run()
    try {
      if (schema.isDue()) lookAtSchema()
      return work()
    } finally {
      if (db.inTransaction) end.run()
    }
  }
  const explaining = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error) => {
      throw explained(error, db.name)
    })
  const mayWrite = (): void => {
    lookAtSchema()
    refuseFrozen(frozen())
  }
  const write = createWriter(db, present, { watch, mayWrite, checkpoints })
  const refused = createRefusedWrites({ isFull: isDiskFull, isStillFull: () => !hasRoom(db.name) })
  const alone = <T>(work: () => T): T => {
    watch.lookNowAndThen()
    if (schema.isDue()) lookAtSchema()
    return work()
  }
  return {
    db,
    clock,
    present,
    look: (work) => explaining(whenFree(() => alone(work))),
    read: (work) => explaining(whenFree(() => snapshot(work))),
    write: (work, lane) => explaining(refused.follow(write(work, lane))),
    probe: (work) =>
      explaining(
        write(() => {
          refused.throwRecent()
          work()
        }),
      ),
    lookAtName: watch.look,
    mayWrite,
    frozen,
  }
}

/** How much of the file SQLite may keep in memory: plenty for passes over many plans. */
const CACHE_KIB = 32_768

export function configure(db: Database, cacheKib = CACHE_KIB): void {
  db.pragma('journal_mode = wal')
  commitSafely(db)
  db.pragma('foreign_keys = on')
  db.pragma('trusted_schema = off')
  // Erased or replaced text leaves zeros behind (docs/decisions/file.md#erasing-a-user).
  db.pragma('secure_delete = on')
  db.pragma('temp_store = memory')
  db.pragma(`cache_size = -${cacheKib}`)
  db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
}

/**
 * Removes the results of an `analyze`. Every statement is written for SQLite's plan without statistics
 * (docs/decisions/file.md#no-statistics); with statistics from a day when the tables were small, it would read whole
 * tables.
 */
export function forgetStatistics(db: Database): void {
  const tables = db.prepare("select name from sqlite_schema where name like 'sqlite_stat%'").pluck().all()
  if (tables.length === 0) return
  for (const table of tables) db.exec(`drop table ${table}`)
  // A connection uses old statistics until it reads the schema again; others see that the schema has changed.
  db.pragma('writable_schema = reset')
}
