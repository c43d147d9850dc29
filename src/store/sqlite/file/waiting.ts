// Waiting while another process holds the lock, without holding up the event loop.

import { Problem } from '../../../core/problem.ts'
import { isBusy } from './errors.ts'

/** How long a read or write waits for another process before it gives up. */
export const LOCK_WAIT_MAX_MS = 15_000
/** The pause between two tries; a process that holds the lock often leaves it free for longer than that. */
export const LOCK_LOOK_MS = 1

/** Tries `work` again for as long as another process holds the lock. Throws database_locked when it stays held. */
export async function whenFree<T>(work: () => T): Promise<T> {
  const end = performance.now() + LOCK_WAIT_MAX_MS
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (performance.now() >= end)
        throw new Problem(
          'database_locked',
          `The database stayed locked by another process for ${LOCK_WAIT_MAX_MS / 1000} s.`,
        )
    }
    await new Promise((resolve) => setTimeout(resolve, LOCK_LOOK_MS))
  }
}
