// This process's share of the write lock. SQLite hands the lock to whoever asks when it is free, and another process
// asks only every few milliseconds: one that commits without a break would never leave it a chance.

import { LOCK_LOOK_MS } from './when-free.ts'

/** How long the lock is held, in sum, before others get a chance to take it. */
const HELD_MAX_MS = 200
/** That chance: longer than another process waits between two tries. */
const REST_MS = 2 * LOCK_LOOK_MS

export type LockShare = {
  /** Resolves when this process may take the lock again. */
  turn: () => Promise<void>
  /** Counts the time that `work` holds it. */
  hold: (work: () => void) => void
}

export function createLockShare(): LockShare {
  let heldMs = 0
  let freeSince = Number.NEGATIVE_INFINITY
  return {
    async turn() {
      const freeMs = performance.now() - freeSince
      if (freeMs < REST_MS) {
        if (heldMs < HELD_MAX_MS) return
        await new Promise((resolve) => setTimeout(resolve, REST_MS - freeMs))
      }
      heldMs = 0
    },
    hold(work) {
      const from = performance.now()
      work()
      freeSince = performance.now()
      heldMs += freeSince - from
    },
  }
}
