// Waiting while another process holds the lock, without holding up the event loop.

import { Problem } from '../../../core/problem.ts'
import { isBusy } from './errors.ts'

/** How long a read or write waits for another process before it gives up. */
export const LOCK_WAIT_MAX_MS = 15_000
/** The longest pause between two tries; a process that holds the lock a lot leaves it free for longer than that. */
export const LOCK_LOOK_MS = 5
const BACKOFF_MS = [1, 1, 2, 2, 3, LOCK_LOOK_MS]

/** Tries `work` again for as long as another process holds the lock. Throws database_locked when it stays held. */
export async function whenFree<T>(work: () => T): Promise<T> {
  const end = performance.now() + LOCK_WAIT_MAX_MS
  for (let tries = 0; ; tries++) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (performance.now() >= end) throw lockedTooLong()
    }
    const ms = BACKOFF_MS[Math.min(tries, BACKOFF_MS.length - 1)] ?? LOCK_LOOK_MS
    await new Promise((resolve) => setTimeout(resolve, ms))
  }
}

const lockedTooLong = (): Problem =>
  new Problem(
    'database_locked',
    `The database stayed locked by another process for ${LOCK_WAIT_MAX_MS / 1000} s.`,
  )
