// This process's share of the write lock. SQLite hands the lock to whoever asks when it is free, and another process
// asks only every millisecond: one that commits without a break would never leave it a chance.

import type { Database } from 'better-sqlite3'
import { watchOthers } from './others.ts'
import { LOCK_LOOK_MS } from './when-free.ts'

/** How long the lock is held, in sum, before others get a chance to take it: when nobody else writes, and when some do. */
const HELD_MAX_MS = { alone: 200, shared: 20 }
/** That chance: longer than another process waits between two tries, with what a timer adds to that. */
const REST_MS = 3 * LOCK_LOOK_MS
/** How long after a write of others they are expected back. */
const SHARED_MS = 1_000

export type LockShare = {
  /** Resolves when this process may take the lock again. */
  turn: () => Promise<void>
  /** Counts the time that `work` holds it. */
  hold: (work: () => void) => void
}

export function createLockShare(db: Database): LockShare {
  const haveOthersWritten = watchOthers(db)
  let sharedUntil = Number.NEGATIVE_INFINITY
  let heldMs = 0
  let freeSince = Number.NEGATIVE_INFINITY

  function heldMaxMs(): number {
    if (haveOthersWritten()) sharedUntil = performance.now() + SHARED_MS
    return performance.now() < sharedUntil ? HELD_MAX_MS.shared : HELD_MAX_MS.alone
  }

  return {
    async turn() {
      const freeMs = performance.now() - freeSince
      if (freeMs < REST_MS) {
        if (heldMs < heldMaxMs()) return
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
