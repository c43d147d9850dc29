// A copy of a database under a name of its own: whole, private and on disk before anybody can see it there.

import { dirname, resolve } from 'node:path'
import { Problem, reasonInWords } from '../../../core/problem.ts'
import { createPrivate } from '../../../plain-file.ts'
import { giveName, nameAside, sync, syncFolder } from '../../../whole-file.ts'
import { type Database, openFile } from './connection.ts'
import { inOneLine, isBusy, isCorrupt, isNoDatabase, isUnreadable, roomAdvice } from './errors.ts'
import { removeUnfinished } from './files.ts'

/**
 * Writes one consistent moment of `db` under the name `copy`, which appears only when the copy is complete, verified
 * and on disk. Throws file_exists when the name is taken and may not be replaced, and storage_failed. A failure leaves
 * nothing behind; a kill leaves at most a `.partial-` file, which the next copy to that name removes.
 */
export function copyTo(db: Database, copy: string, { replace }: { replace: boolean }): void {
  const aside = nameAside(copy)
  let hasName = false
  try {
    // Private from the first byte: SQLite fills an empty file that already exists.
    createPrivate(aside)
    // A read transaction of its own: it waits for nobody, and nobody waits for it.
    db.prepare('vacuum into ?').run(aside)
    assertWhole(aside, 'The copy')
    sync(aside)
    giveName(aside, copy, { replace })
    hasName = true
    syncFolder(dirname(copy))
  } catch (error) {
    if (error instanceof Problem || isBusy(error) || isUnreadable(error)) throw error
    const { code = '' } = error as NodeJS.ErrnoException
    const message = reasonInWords(error)
    if (hasName)
      throw new Problem(
        'storage_failed',
        `${copy} is complete, but a power cut may undo that: its folder could not be synced (${message}). Copy to another disk.`,
      )
    const room = roomAdvice(code, dirname(resolve(copy)))
    const advice = room ? `${room}, or` : 'run it again, or'
    throw new Problem(
      'storage_failed',
      `${copy} could not be made (${message}): ${advice} copy to another disk.`,
    )
  } finally {
    removeUnfinished(aside)
  }
}

// Whether a file is a whole database: a backup as it is made, and before it is restored.

/** Throws bad_file for a fault that SQLite finds, errors of the disk unchanged. `name` is what the user calls it. */
export function assertWhole(file: string, name = file): void {
  // To SQLite, a read that fails once looks like damage.
  const fault = faultIn(file, name) && faultIn(file, name)
  if (fault) throw new Problem('bad_file', `${name} is damaged: ${inOneLine(fault)}`)
}

/** The first fault that SQLite finds; null for none. Throws errors of the disk unchanged. */
function faultIn(file: string, name: string): string | null {
  try {
    using db = openFile(file)
    const found = db.prepare<[], string>('pragma integrity_check(1)').pluck().get()
    return found === 'ok' ? null : String(found)
  } catch (error) {
    if (isNoDatabase(error)) throw new Problem('bad_file', `${name} is not a database.`)
    if (!isCorrupt(error)) throw error
    return (error as Error).message
  }
}
