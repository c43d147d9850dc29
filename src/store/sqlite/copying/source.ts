// A file that holds still while it is copied.

import { existsSync, statSync } from 'node:fs'
import type { Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { sync } from '../../../whole-file.ts'
import type { HeldSource, HoldOptions, Rows } from '../../copying/ends.ts'
import { type Block, lineOf, type Value } from '../../copying/lines.ts'
import { selectAll, type Table } from '../../copying/tables.ts'
import { instant } from '../../rows/instant.ts'
import { isPending } from '../../schema-version.ts'
import { type Database, openFile } from '../file/connection.ts'
import { notThere, refuseUnreachable } from '../file/error-words.ts'
import { haltPasses } from '../file/halt-passes.ts'
import { migrationStates } from '../file/migrate.ts'
import { isMissing, walFile } from '../file/own-files.ts'
import { whenFree } from '../file/wait-for-lock.ts'
import { refuseDoubtfulLog } from '../file/wal-checks.ts'
import { openStore } from '../open.ts'
import { sealOf, setSeal } from './seal.ts'

const ROWS_PER_BLOCK = 2_000

/** Throws database_not_found, schema_newer, database_locked, usage for an untouched file of an earlier schema. */
export async function holdFile(
  file: string,
  clock: () => Instant,
  { fromWriters, untouched = false }: HoldOptions,
): Promise<HeldSource> {
  refuseUnreachable(file)
  if (isMissing(file)) throw notThere(file)
  refuseDoubtfulLog(file)
  const playedIn = [walFile(file), `${file}-journal`].filter(hasContent)
  const store = untouched ? null : await openStore(file, { clock, create: false })
  let letPassesOn = () => {}
  const db = openFile(file)
  const release = async () => {
    if (db.inTransaction) db.exec('rollback')
    db.close()
    letPassesOn()
    await store?.close()
  }
  try {
    if (fromWriters) letPassesOn = await haltPasses(file, 'The database is to be sealed')
    await whenFree(() => db.exec(fromWriters ? 'begin immediate' : 'begin'))
    // The first read is the moment at which everything is read.
    await whenFree(() => refuseOlder(db, file))
  } catch (error) {
    await release()
    throw error
  }
  return {
    ...rowsIn(db),
    playedIn,
    async fileHistory() {
      const rows = db.prepare<[], MigrationRow>('select * from migrations order by name').all()
      const migrations = rows.map(({ applied_at, ...row }) => ({ ...row, appliedAt: instant(applied_at) }))
      return { begunAt: instant(rows[0]?.applied_at ?? 0n), migrations }
    },
    seal: async () => sealOf(db),
    async setSeal(seal) {
      setSeal(db, seal)
      db.exec('commit')
    },
    async keepSeal() {
      // A kill may have come after a commit was written and before it reached the disk.
      const log = walFile(file)
      if (existsSync(log)) sync(log)
    },
    store,
    release,
  }
}

const hasContent = (name: string): boolean => (statSync(name, { throwIfNoEntry: false })?.size ?? 0) > 0

type MigrationRow = { name: string; sha256: string; applied_at: bigint }

function refuseOlder(db: Database, file: string): void {
  if (!migrationStates(db).some(isPending)) return
  throw new Problem(
    'usage',
    `${file} has the schema of an earlier version: bring a copy of it up with \`tranche --db COPY migrate\`, and take that.`,
  )
}

/** Reading gives the event loop a turn between two blocks, and nothing else may use `db` meanwhile. */
export const rowsIn = (db: Database): Rows => ({
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
