// Copies of a file: a locked source, a copy under construction, and a backup of a file in use.

import { existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Frozen, unsealed } from '../../core/frozen.ts'
import { Problem, usage } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import { createPrivate } from '../../plain-file.ts'
import { giveName, nameAside, nameTaken, refuseDevice, sync } from '../../whole-file.ts'
import {
  type Block,
  type FileHistory,
  frozenAt,
  type HeldSource,
  type HoldOptions,
  lineOf,
  type NewTarget,
  type Rows,
  rowsOf,
  selectAll,
  type TargetOptions,
  type Value,
} from '../copy-interface.ts'
import { putFrozen as putFrozenIn, takenBack } from '../frozen.ts'
import { differencesInWords } from '../health/schema.ts'
import { isPending } from '../migrations.ts'
import { type Query, query } from '../statement.ts'
import type { AuditEntry } from '../store.ts'
import { columnsOf, insertRows, TABLES, type Table, type TableName } from '../tables.ts'
import { stepsOn } from './driver.ts'
import { commitSafely, type Database, onFile, openFile, openToWrite } from './file/connection.ts'
import { explained, isUnreadable, notThere, refuseClosedFolder, refuseUnreachable } from './file/errors.ts'
import {
  filesReadWith,
  isMissing,
  lockFile,
  realName,
  refuseDatabaseFile,
  refuseNetworkFile,
  removeUnfinished,
} from './file/files.ts'
import { acquireLock, haltPasses } from './file/locks.ts'
import { frozenIn, migrate, migrationStates, schemaDifferences } from './file/migrate.ts'
import { whenFree } from './file/waiting.ts'
import { copyTo } from './file/whole-copy.ts'
import { openStore } from './open.ts'

const ROWS_PER_BLOCK = 2_000

/** Throws database_not_found, schema_newer, database_locked, usage for an untouched file of an earlier schema. */
export async function holdFile(
  file: string,
  clock: () => Instant,
  { fromWriters, untouched = false }: HoldOptions,
): Promise<HeldSource> {
  refuseUnreachable(file)
  if (isMissing(file)) throw notThere(file)
  const playedIn = filesReadWith(file)
  const store = untouched ? null : await openStore(file, { clock, create: false })
  let letPassesOn = () => {}
  const db = await openToWrite(file)
  const release = async () => {
    if (db.inTransaction) db.exec('rollback')
    db.close()
    letPassesOn()
    await store?.close()
  }
  try {
    if (fromWriters) letPassesOn = await haltPasses(file, 'The database is to be frozen')
    await whenFree(() => db.exec(fromWriters ? 'begin immediate' : 'begin'))
    // The first read fixes the snapshot of all reads. From here on, every migration is applied.
    await whenFree(() => refuseOlder(db, file))
    if (untouched) refuseOtherSchema(db, file)
  } catch (error) {
    await release()
    throw error
  }
  return {
    ...rowsIn(db),
    playedIn,
    async fileHistory() {
      const migrations = migrationStates(db) as FileHistory['migrations']
      return { begunAt: migrations[0]?.appliedAt as Instant, migrations }
    },
    frozen: async () => frozenIn(db),
    async freeze(frozen, audit) {
      putFrozen(db, frozen, audit)
      db.exec('commit')
    },
    // Every commit of a copy has waited for the disk.
    awaitDurable: async () => {},
    store,
    release,
  }
}

function refuseOlder(db: Database, file: string): void {
  if (!migrationStates(db).some(isPending)) return
  throw usage(
    `${file} has the schema of an earlier version: bring a copy of it up with \`tranche --db COPY migrate\`, and take that.`,
  )
}

function refuseOtherSchema(db: Database, file: string): void {
  const found = schemaDifferences(db)
  if (found.differs.length === 0) return
  throw new Problem('bad_file', `The schema of ${file} ${differencesInWords(found)}.`)
}

/** Reading gives the event loop a turn between two blocks, and nothing else may use `db` meanwhile. */
const rowsIn = (db: Database): Rows => ({
  count: async ({ name }) => Number(db.prepare<[], bigint>(`select count(*) from ${name}`).pluck().get()),
  blocks: (table) => blocksOf(db, table),
})

async function* blocksOf(db: Database, table: Table): AsyncGenerator<Block> {
  let text = ''
  let rows = 0
  for (const row of db.prepare(selectAll(table)).raw().iterate() as Iterable<Value[]>) {
    text += `${lineOf(row, table)}\n`
    rows += 1
    if (rows < ROWS_PER_BLOCK) continue
    yield { text, rows }
    text = ''
    rows = 0
  }
  if (rows > 0) yield { text, rows }
}

// A file under construction: filled under a temporary name, packed into another file, and given its name when it is
// verified. Its bytes depend on its rows alone, so the same rows always give the same bytes.

/** The derived rows (sql/0011_findings.sql), as in a database without a past. */
const MAKE_COUNTS = `
  delete from outcomes;
  insert into outcomes
    select d.tenant_id, d.recorded_at / 3600000, sum(d.usd_amount is not null), sum(d.usd_amount is null)
    from trades d join (select tenant_id, max(recorded_at) / 3600000 as hour from trades group by 1) n using (tenant_id)
    where d.recorded_at / 3600000 >= n.hour - 24 group by 1, 2 order by 1, 2;
`

/** Throws database_exists for a name that is taken, bad_file for one that cannot be written. */
export async function newFile(
  fileName: string,
  clock: () => Instant,
  { now, replace }: TargetOptions,
): Promise<NewTarget> {
  refuseNetworkFile(fileName)
  refuseUnreachable(fileName)
  refuseClosedFolder(fileName)
  const file = realName(fileName)
  if (!replace) refuseTaken(file)
  const loading = nameAside(file)
  const packed = `${loading}-packed`
  // Private from the first byte.
  createPrivate(loading)
  const db = openFile(loading, { fileMustExist: true })
  let result: Database | null = null
  const close = async () => {
    result?.close()
    db.close()
    removeUnfinished(loading, packed)
  }
  try {
    // No other process uses it, and its remains after a crash are thrown away.
    for (const setting of ['journal_mode = memory', 'synchronous = off', 'cache_size = -65536'])
      db.pragma(setting)
    // Under its temporary name, it needs no locks and no backup.
    await migrate(db, null, () => now)
    db.pragma('foreign_keys = off')
    db.exec('begin; delete from tiers')
  } catch (error) {
    await close()
    throw error
  }
  const reading = () => rowsIn(result ?? db)

  return {
    load: (table, blocks) => load(db, table, blocks),
    async settle({ fileHistory }) {
      db.exec(MAKE_COUNTS)
      sayMigrations(db, fileHistory)
      db.exec('commit')
      copyTo(db, packed, { replace: false })
      db.close()
      result = await openToWrite(packed)
    },
    count: (table) => reading().count(table),
    blocks: (table) => reading().blocks(table),
    // Never the packed file: opening a file through a store changes it.
    openStore: () => openStore(loading, { clock, create: false }),
    // A file is replaced by a restore (file/restore.ts): a copy takes a free name.
    readReplaced: async () => null,
    async publish(frozen) {
      if (result && frozen) putFrozen(result, frozenAt(now, frozen, null))
      result?.close()
      if (!replace) refuseTaken(file)
      giveName(packed, file, { replace: replace || existsSync(file) })
      sync(dirname(file))
      return { replaced: null, bytes: statSync(file).size }
    },
    close,
  }
}

/** Whole rows, including the columns that an insert leaves to the database. */
const LOAD = Object.fromEntries(
  TABLES.map(({ name }) => [name, query((dialect) => insertRows(dialect, name, { names: columnsOf(name) }))]),
) as Record<TableName, Query<never>>

async function load(db: Database, table: Table, blocks: AsyncIterable<Block>): Promise<void> {
  const run = stepsOn(db)
  for await (const block of blocks) run((tx) => tx.run(LOAD[table.name], { rows: rowsOf(block, table) }))
}

function sayMigrations(db: Database, { begunAt, migrations }: FileHistory): void {
  db.prepare('update migrations set applied_at = ?').run(begunAt)
  const say = db.prepare('update migrations set applied_at = ? where name = ? and sha256 = ?')
  for (const { name, sha256, appliedAt } of migrations) say.run(appliedAt, name, sha256)
}

/** An empty file does not count as a database, nor does a log without one. */
function refuseTaken(file: string): void {
  const taken = isMissing(file) ? filesReadWith(file)[0] : file
  if (taken === undefined) return
  throw new Problem(
    'database_exists',
    `${taken} already exists, and a copy never replaces anything: name another file.`,
  )
}

// Reads and changes from outside whether a file is frozen.

/** Must be called where nobody else writes. */
export function putFrozen(db: Database, frozen: Frozen, audit: AuditEntry | null = null): void {
  stepsOn(db)((tx) => putFrozenIn(tx, frozen, audit))
}

/** Null also for a file that cannot be read, or not with the log beside it. */
export function seenFrozen(file: string): Frozen | null {
  refuseUnreachable(file)
  if (isMissing(file)) return null
  try {
    using db = openFile(file, { fileMustExist: true })
    return frozenIn(db)
  } catch (error) {
    if (isUnreadable(error) || (error instanceof Problem && error.code === 'bad_file')) return null
    throw explained(error, file)
  }
}

/** Throws usage for one that has not moved, database_not_found, database_in_use, schema_newer, database_locked. */
export async function unseal(
  file: string,
  { now, audit }: { now: Instant; audit: (moved: Frozen) => AuditEntry },
): Promise<Frozen> {
  refuseUnreachable(file)
  if (isMissing(file)) throw notThere(file)
  let letOn = () => {}
  try {
    return await onFile(file, async (db) => {
      await whenFree(() => commitSafely(db))
      // Otherwise a copy that is still unnamed could get its name afterwards, and two databases would take writes.
      const lock = acquireLock(lockFile(file, 'pass'))
      if (!lock)
        throw new Problem(
          'database_in_use',
          `${file} is being copied, or a tick is running: wait for its end.`,
        )
      letOn = lock
      const isBehind = await whenFree(() => migrationStates(db).some(isPending))
      await whenFree(() => db.exec('begin immediate'))
      const moved = takenBack(frozenIn(db), { name: file, isBehind })
      const entry = audit(moved)
      putFrozen(db, unsealed(moved, entry.osUser, now), entry)
      db.exec('commit')
      return moved
    })
  } finally {
    letOn()
  }
}

/** Copies a database while others use it. Throws file_exists, database_not_found, bad_file. */
export async function backUp(file: string, copy: string, { replace }: { replace: boolean }): Promise<void> {
  refuseUnreachable(file)
  if (!existsSync(file)) throw notThere(file)
  refuseClosedFolder(copy)
  refuseDatabaseFile(copy, file)
  refuseDevice(copy)
  if (!replace && existsSync(copy)) throw nameTaken(copy)
  await onFile(file, async (db) => {
    await whenFree(() => migrationStates(db))
    await whenFree(() => copyTo(db, copy, { replace }))
  })
}
