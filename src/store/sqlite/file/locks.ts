// A lock between processes that the system releases when its holder dies, however it dies: SQLite's own lock on an
// empty file beside the database. Nothing is ever written to it.

import { closeSync, constants } from 'node:fs'
import { Problem } from '../../../core/problem.ts'
import { openFile } from './connection.ts'
import { explained, isBusy } from './errors.ts'
import { lockFile, openOrCreate } from './files.ts'
import { LOCK_WAIT_MAX_MS } from './waiting.ts'

const heldHere = new Set<string>()

/**
 * Takes the lock and returns its release, or null when it is held, by another process or by this one. Throws
 * storage_failed for a disk that is full or has failed, and bad_file for a name at which there is no plain file.
 */
export function acquireLock(file: string): (() => void) | null {
  if (heldHere.has(file)) return null
  // Closed before it is locked, because closing it would release locks.
  closeSync(openOrCreate(file, constants.O_RDWR))
  const db = openFile(file, { fileMustExist: true })
  try {
    db.exec('begin immediate')
  } catch (error) {
    db.close()
    if (isBusy(error)) return null
    throw explained(error, file)
  }
  heldHere.add(file)
  return () => {
    // Only the first release counts: later, the lock may be somebody else's.
    if (!db.open) return
    heldHere.delete(file)
    db.close()
  }
}

// Keeps passes and migrations away from a file, for what must not meet either.

const LOCK_LOOK_MS = 50

/** Waits for a running pass, and holds off the next one and every migration. Throws database_locked about `what`. */
export async function haltPasses(file: string, what: string): Promise<() => void> {
  for (let waitedMs = 0; waitedMs < LOCK_WAIT_MAX_MS; waitedMs += LOCK_LOOK_MS) {
    const release = acquireLock(lockFile(file, 'pass'))
    if (release) return release
    await new Promise((resolve) => setTimeout(resolve, LOCK_LOOK_MS))
  }
  throw new Problem('database_locked', `${what}, but a tick has been running on it for too long.`)
}
