// A lock between processes that the system releases when its holder dies, however it dies: SQLite's own lock on an
// empty file beside the database. Nothing is ever written to it.

import { closeSync, openSync } from 'node:fs'
import { isBusy, openFile } from './connection.ts'

const heldHere = new Set<string>()

/** Takes the lock and returns its release, or null when it is held, by another process or by this one. */
export function acquireLock(file: string): (() => void) | null {
  if (heldHere.has(file)) return null
  if (file.startsWith(':memory:')) return hold(file, () => {})
  closeSync(openSync(file, 'a', 0o600))
  const db = openFile(file)
  try {
    db.exec('begin immediate')
  } catch (error) {
    db.close()
    if (isBusy(error)) return null
    throw error
  }
  return hold(file, () => db.close())
}

function hold(file: string, free: () => void): () => void {
  heldHere.add(file)
  return () => {
    if (heldHere.delete(file)) free()
  }
}
