// A copy of a database under a name of its own: whole, private and on disk before anybody can see it there.

import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, linkSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { Problem } from '../../../core/problem.ts'
import { type Database, openFile } from './connection.ts'

/** What SQLite may lay beside a database under its name. */
export const BESIDE = ['-wal', '-shm', '-journal'] as const

/**
 * Writes one consistent moment of `db` under the name `copy`, which appears only when the copy is complete, verified
 * and on disk. Throws file_exists when the name is taken and may not be replaced. Whatever fails leaves nothing behind;
 * a kill leaves at most a `.partial-` file.
 */
export function copyTo(db: Database, copy: string, { replace }: { replace: boolean }): void {
  const aside = `${copy}.partial-${randomUUID()}`
  try {
    // Private from the first byte: SQLite fills an empty file that is there.
    closeSync(openSync(aside, 'wx', 0o600))
    // A read transaction of its own: it waits for nobody and nobody for it.
    db.prepare('vacuum into ?').run(aside)
    assertWhole(aside, 'The copy')
    sync(aside)
    if (replace) renameSync(aside, copy)
    else nameNew(aside, copy)
    sync(dirname(copy))
  } finally {
    for (const suffix of ['', ...BESIDE]) rmSync(aside + suffix, { force: true })
  }
}

/** Throws bad_file when SQLite finds anything wrong with the file. `name` is what its reader knows it by. */
export function assertWhole(file: string, name = file): void {
  let found: unknown
  try {
    const db = openFile(file)
    try {
      ;[found] = db.prepare('pragma integrity_check(1)').pluck().all()
    } finally {
      db.close()
    }
  } catch (error) {
    found = (error as Error).message
  }
  if (found !== 'ok') throw new Problem('bad_file', `${name} is damaged: ${found}`)
}

/** Gives a finished file its name unless somebody has it by now; a rename would take it from them without a word. */
export function nameNew(aside: string, name: string): void {
  try {
    linkSync(aside, name)
  } catch (error) {
    // A memory stick or a share may know no second names.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' || existsSync(name)) throw nameTaken(name)
    renameSync(aside, name)
  }
}

export const nameTaken = (name: string): Problem =>
  new Problem('file_exists', `${name} is there already; --force replaces it.`)

/** Waits until a file, or the names in a folder, are on disk. */
export function sync(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
