// Keeps passes and migrations away from a file, for what must not meet either.

import { Problem } from '../../../core/problem.ts'
import { lockFile } from './own-files.ts'
import { acquireLock } from './process-lock.ts'
import { LOCK_WAIT_MAX_MS } from './wait-for-lock.ts'

const LOCK_LOOK_MS = 50

/**
 * Waits for a running pass to end, and keeps the next pass and every other migration from starting. Throws
 * database_locked, with what is held up in the caller's words.
 */
export async function haltPasses(file: string, what: string): Promise<() => void> {
  for (let waitedMs = 0; waitedMs < LOCK_WAIT_MAX_MS; waitedMs += LOCK_LOOK_MS) {
    const release = acquireLock(lockFile(file, 'pass'))
    if (release) return release
    await new Promise((resolve) => setTimeout(resolve, LOCK_LOOK_MS))
  }
  throw new Problem('database_locked', `${what}, but a tick has been running on it for too long.`)
}
