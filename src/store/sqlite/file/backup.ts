// A backup of a database in use, and a copy put back in its place.

import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { formatInstant, type Instant } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { nameTaken, sync } from '../../../whole-file.ts'
import type { AuditEntry } from '../../audit.ts'
import { createAuditLog } from '../accounts/audit.ts'
import { type Database, openFile } from './connection.ts'
import { assertWhole, copyTo } from './copy.ts'
import { isBusy, isUnreadable } from './errors.ts'
import { isLockedByAnother } from './lock.ts'
import { migrationStates } from './migrate.ts'
import { refuseNetworkFile } from './network-disk.ts'
import { BESIDE, isSameFile, realName, refuseDatabaseFile } from './own-files.ts'
import { whenFree } from './when-free.ts'

/** Copies `file` to `copy` while others go on reading and writing. Throws file_exists, database_not_found, bad_file. */
export async function backUp(file: string, copy: string, { replace }: { replace: boolean }): Promise<void> {
  if (!existsSync(file)) throw new Problem('database_not_found', `There is no database at ${file}.`)
  refuseDatabaseFile(copy, file)
  if (!replace && existsSync(copy)) throw nameTaken(copy)
  const db = openFile(file)
  try {
    await whenFree(() => migrationStates(db))
    await whenFree(() => copyTo(db, copy, { replace }))
  } finally {
    db.close()
  }
}

/**
 * Puts a copy in the place of `file`. The copy is verified first and not touched; the replaced database is kept under
 * the name that is returned, null when there was none. At no moment is there no database, or half of one.
 * Throws file_not_found, bad_file, schema_newer, and database_in_use while another process has the database open.
 */
export function restore(
  copyName: string,
  fileName: string,
  { now, audit }: { now: Instant; audit: AuditEntry },
): string | null {
  refuseNetworkFile(fileName)
  if (!existsSync(copyName)) throw new Problem('file_not_found', `There is no file ${copyName}.`)
  const [copy, file] = [realName(copyName), realName(fileName)]
  if (isSameFile(copy, file)) throw new Problem('usage', `${copy} is the database itself.`)
  const aside = `${file}.partial-${randomUUID()}`
  const kept = `${file}.replaced-${formatInstant(now).replaceAll(':', '-')}`
  try {
    fetchCopy(copy, aside)
    verify(aside, copy)
    noteRestore(aside, now, audit)
    sync(aside)
    const replaced = existsSync(file)
    if (replaced) giveWay(file, { aside, kept })
    else {
      setAside(file, kept)
      renameSync(aside, file)
    }
    sync(dirname(file))
    return replaced ? kept : null
  } finally {
    for (const suffix of ['', ...BESIDE]) rmSync(aside + suffix, { force: true })
  }
}

/**
 * Copies the file, and the log beside it if it has one: a database copied as files is whole only with it. They must
 * stand still meanwhile, or the two would not belong together.
 */
function fetchCopy(copy: string, aside: string): void {
  const parts = ['', '-wal', '-journal'].filter((suffix) => existsSync(copy + suffix))
  const state = () =>
    parts.map((suffix) => {
      const { mtimeNs, size } = statSync(copy + suffix, { bigint: true })
      return `${mtimeNs} ${size}`
    })
  const before = state().join()
  for (const suffix of parts) {
    copyFileSync(copy + suffix, aside + suffix, constants.COPYFILE_EXCL)
    chmodSync(aside + suffix, 0o600)
  }
  if (state().join() !== before)
    throw new Problem('bad_file', `${copy} is being written to: take a copy with \`tranche backup\`.`)
}

/** Puts the restore on record in what is restored, and leaves all of it in one file. */
function noteRestore(aside: string, now: Instant, audit: AuditEntry): void {
  const db = openFile(aside)
  try {
    db.pragma('journal_mode = delete')
    createAuditLog(db).add(audit, now)
  } finally {
    db.close()
  }
}

/** Takes the database for itself, gives it a second name and lets the copy take the first: never is there none. */
function giveWay(file: string, { aside, kept }: { aside: string; kept: string }): void {
  const db = openFile(file)
  try {
    const isWhole = takeAlone(db, file)
    linkSync(file, kept)
    // A log that could not be folded into its damaged file must not be taken for the new one's.
    if (!isWhole) setAside(file, kept)
    renameSync(aside, file)
  } finally {
    db.close()
  }
}

/**
 * Leaves write-ahead logging, which folds the log into the file and takes a lock that no other open connection,
 * however idle, allows. False for a file that SQLite can no longer read: then what other processes hold has to be
 * asked of the system, because SQLite gives up before it comes to locks.
 */
function takeAlone(db: Database, file: string): boolean {
  try {
    if (db.pragma('journal_mode = delete', { simple: true }) === 'delete') {
      db.exec('begin exclusive')
      // Read again under the lock: another process may have been quick, and in its mode this lock keeps nobody out.
      if (db.pragma('journal_mode', { simple: true }) === 'delete') return true
    }
  } catch (error) {
    if (isUnreadable(error) && !isLockedByAnother(file)) return false
    if (!isBusy(error) && !isUnreadable(error)) throw error
  }
  throw new Problem('database_in_use', `${file} is open in another process: stop serve and cron first.`)
}

/** Moves what lies beside a database to beside its new name. */
function setAside(file: string, kept: string): void {
  for (const suffix of BESIDE) if (existsSync(file + suffix)) renameSync(file + suffix, kept + suffix)
}

/** Throws bad_file unless the file is a whole tranche database, and schema_newer when this program is too old for it. */
function verify(file: string, name: string): void {
  assertWhole(file, name)
  const db = openFile(file)
  try {
    if (migrationStates(db).every((state) => state.appliedAt === null)) throw new Error('it is empty')
  } catch (error) {
    if (error instanceof Problem && error.code === 'schema_newer') throw error
    throw new Problem('bad_file', `${name} is no tranche database: ${(error as Error).message}`)
  } finally {
    db.close()
  }
}
