// This process's share of the write lock. SQLite gives the lock to the first process that asks while it is free, and
// others ask only every millisecond: a process that commits without a break would never leave them a chance.

import type { Database } from 'better-sqlite3'
import { watchOthers } from './others.ts'
import { LOCK_LOOK_MS } from './wait-for-lock.ts'

/**
 * How long the lock is held in total before others get a chance to take it: when nobody else writes, and when others
 * do.
 */
const HELD_MAX_MS = { alone: 200, shared: 20 }
/** How long that chance lasts: longer than another process waits between two tries, including what a timer adds. */
const REST_MS = 3 * LOCK_LOOK_MS
/** For how long after a write by others more writes of theirs are expected. */
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
