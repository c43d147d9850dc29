// A file under construction: filled under a temporary name, packed into another file, and given its name when it is
// verified. Its bytes depend on its rows alone, so the same rows give the same bytes, whichever way they came.

import { existsSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { createPrivate } from '../../../plain-file.ts'
import { giveName, nameAside, sync } from '../../../whole-file.ts'
import type { FileHistory, NewTarget, TargetOptions } from '../../copying/ends.ts'
import { type Block, rowsOf } from '../../copying/lines.ts'
import type { Table } from '../../copying/tables.ts'
import { type Database, openFile } from '../file/connection.ts'
import { refuseClosedFolder, refuseUnreachable } from '../file/error-words.ts'
import { insertRows } from '../file/insert-rows.ts'
import { migrate } from '../file/migrate.ts'
import { refuseNetworkFile } from '../file/network-disk.ts'
import { BESIDE, isMissing, realName, walBytes, walFile } from '../file/own-files.ts'
import { copyTo } from '../file/vacuum-copy.ts'
import { openStore } from '../open.ts'
import { auditThroughSeal, setSeal } from './seal.ts'
import { rowsIn } from './source.ts'

/** What is derived from the rows (sql/0010_open_counts.sql and 0011_findings.sql), as in a database without a past. */
const MAKE_COUNTS = `
  delete from open_counts;
  insert into open_counts
    select tenant_id, coalesce(lease_expires_at, 0), count(*) from executions
    where status in ('pending', 'sent') group by 1, 2 order by 1, 2;
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
  const refuseOther = createPrivate(loading)
  const db = openFile(loading, { fileMustExist: true })
  let result: Database | null = null
  const close = async () => {
    result?.close()
    db.close()
    for (const name of [loading, packed])
      for (const suffix of ['', ...BESIDE]) rmSync(name + suffix, { force: true })
  }
  try {
    refuseOther()
    // Nobody else knows of it, and what a crash leaves of it is thrown away.
    for (const setting of ['journal_mode = memory', 'synchronous = off', 'cache_size = -65536'])
      db.pragma(setting)
    // Under its temporary name, there are no locks to take and there is nothing to back up.
    await migrate(db, ':memory:', () => now)
    db.pragma('foreign_keys = off')
    db.exec('begin; delete from tiers')
  } catch (error) {
    await close()
    throw error
  }
  const reading = () => rowsIn(result ?? db)

  return {
    load: (table, blocks) => load(db, table, blocks),
    async settle({ fileHistory, seal }) {
      db.exec(MAKE_COUNTS)
      sayMigrations(db, fileHistory)
      db.exec('commit')
      if (seal) db.transaction(() => setSeal(db, seal))()
      copyTo(db, packed, { replace: false })
      db.close()
      result = openFile(packed, { fileMustExist: true })
    },
    count: (table) => reading().count(table),
    blocks: (table) => reading().blocks(table),
    // Never the packed file: opening a file through a store changes it.
    openStore: () => openStore(loading, { clock, create: false }),
    async publish(audit) {
      if (result && audit) auditThroughSeal(result, audit, now)
      result?.close()
      if (!replace) refuseTaken(file)
      giveName(packed, file, { replace: replace || existsSync(file) })
      sync(dirname(file))
      return { replaced: null, bytes: statSync(file).size }
    },
    close,
  }
}

async function load(db: Database, table: Table, blocks: AsyncIterable<Block>): Promise<void> {
  const names = table.columns.map(({ name }) => name)
  const insert = insertRows(db, table.name, names)
  for await (const block of blocks)
    insert(
      rowsOf(block, table).map((row) =>
        Object.fromEntries(row.map((value, at) => [names[at] as string, value])),
      ),
    )
}

function sayMigrations(db: Database, { begunAt, migrations }: FileHistory): void {
  db.prepare('update migrations set applied_at = ?').run(begunAt)
  const say = db.prepare('update migrations set applied_at = ? where name = ? and sha256 = ?')
  for (const { name, sha256, appliedAt } of migrations) say.run(appliedAt, name, sha256)
}

/** An empty file does not count as a database, nor does a log without one. */
function refuseTaken(file: string): void {
  if (isMissing(file) && walBytes(file) === 0) return
  throw new Problem(
    'database_exists',
    `${existsSync(file) ? file : walFile(file)} already exists, and a copy never replaces anything: name another file.`,
  )
}
