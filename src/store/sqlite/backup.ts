// Copies of a database: one taken while it is in use, and one put back in its place.

import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { formatInstant, type Instant } from '../../core/instant.ts'
import { Problem } from '../../core/problem.ts'
import { type Database, isBusy, openFile, whenFree } from './connection.ts'
import { migrationStates } from './migrate.ts'

/** Copies `file` to `copy` while others go on reading and writing: one consistent moment, checked, on disk, 0600. */
export async function backUp(file: string, copy: string): Promise<void> {
  const db = openFile(file)
  const aside = `${copy}.${randomUUID()}`
  try {
    // A read transaction of its own: it waits for nobody and nobody for it.
    await whenFree(() => db.prepare('vacuum into ?').run(aside))
    chmodSync(aside, 0o600)
    verify(aside)
    sync(aside)
    renameSync(aside, copy)
    sync(dirname(copy))
  } finally {
    db.close()
    rmSync(aside, { force: true })
  }
}

/**
 * Puts a copy in the place of `file`. The copy is verified first and stays; the replaced database is kept under the
 * name that is returned, null when there was none. Throws database_in_use while another process has it open.
 */
export function restore(copy: string, file: string, now: Instant): string | null {
  verify(copy)
  const aside = `${file}.${randomUUID()}`
  try {
    copyFileSync(copy, aside)
    chmodSync(aside, 0o600)
    verify(aside)
    sync(aside)
    const kept = existsSync(file) ? keep(file, aside, now) : (renameSync(aside, file), null)
    sync(dirname(file))
    return kept
  } finally {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(aside + suffix, { force: true })
  }
}

/** Takes the database for itself, gives it a second name and lets the copy take the first: never is there none. */
function keep(file: string, aside: string, now: Instant): string {
  const kept = `${file}.replaced-${formatInstant(now).replaceAll(':', '-')}`
  const db = openFile(file)
  try {
    takeAlone(db, file)
    linkSync(file, kept)
    renameSync(aside, file)
    return kept
  } finally {
    db.close()
  }
}

/** Leaving write-ahead logging takes a lock that no other open connection, however idle, allows. */
function takeAlone(db: Database, file: string): void {
  try {
    if (db.pragma('journal_mode = delete', { simple: true }) === 'delete') {
      db.exec('begin exclusive')
      return
    }
  } catch (error) {
    if (!isBusy(error)) throw error
  }
  throw new Problem('database_in_use', `${file} is open in another process: stop serve and cron first.`)
}

/** Throws bad_file unless the copy is a whole tranche database of a schema this program knows. */
function verify(copy: string): void {
  if (!existsSync(copy)) throw new Problem('bad_file', `There is no file ${copy}.`)
  let db: Database | null = null
  try {
    db = openFile(copy)
    const [first] = db.prepare('pragma integrity_check(1)').pluck().all()
    if (first !== 'ok') throw new Error(String(first))
    const applied = migrationStates(db).filter((state) => state.appliedAt !== null)
    if (applied.length === 0) throw new Error('it holds no tranche database')
  } catch (error) {
    if (error instanceof Problem && error.code === 'schema_newer') throw error
    throw new Problem('bad_file', `${copy} cannot be used: ${(error as Error).message}`)
  } finally {
    db?.close()
  }
}

function sync(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
