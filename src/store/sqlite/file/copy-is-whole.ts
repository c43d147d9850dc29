// Whether a file is a whole database: a backup as it is made, and before it is restored.

import { Problem } from '../../../core/problem.ts'
import { openFile } from './connection.ts'
import { inOneLine, isCorrupt, isNoDatabase } from './error-kinds.ts'

/**
 * Throws bad_file when SQLite finds anything wrong with the file, and errors of the disk unchanged. `name` is the name
 * that the user knows it by.
 */
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
    if (isNoDatabase(error)) throw new Problem('bad_file', `${name} is not a database.`)
    if (!isCorrupt(error)) throw error
    found = (error as Error).message
  }
  if (found !== 'ok') throw new Problem('bad_file', `${name} is damaged: ${inOneLine(String(found))}`)
}
