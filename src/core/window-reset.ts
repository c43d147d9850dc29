// Whether a change of a plan resets its window, and where the new one starts.

import { type Frequency, WINDOW_MS } from './frequency.ts'
import { type Instant, later, plus } from './instant.ts'
import type { Usd } from './money.ts'

type Terms = { amount: Usd; frequency: Frequency; status: 'active' | 'paused' | 'cancelled' }

/** Where windows of a plan have started that had executions: no other may start there. */
export type UsedStarts = {
  /** Of those that are not in the past. */
  usedStarts: readonly Instant[]
  /** The latest that windows under the plan's name may have had before a reset of its sandbox; null for none. */
  usedBeforeReset: Instant | null
}

/**
 * Whether a window with the full amount begins in place of what is left of the current one: when the amount or the
 * frequency changes, and when a paused plan goes on.
 */
export function resetsWindow(before: Terms, after: Terms): boolean {
  const reactivated = before.status === 'paused' && after.status === 'active'
  return reactivated || after.amount !== before.amount || after.frequency !== before.frequency
}

/** Starts further ahead of a new window are those of a clock that was wrong: it does not have to come after them. */
const USED_AHEAD_MS = WINDOW_MS['bi-weekly']

/**
 * Where a reset window starts: now, or at the plan's start_date while that lies ahead; a millisecond after the last
 * window that already has executions, should the clock have gone back, and after all that a reset of the sandbox has
 * removed, so that no idempotency key is made twice.
 */
export function resetStart(
  { usedStarts, usedBeforeReset }: UsedStarts,
  startDate: Instant,
  now: Instant,
): Instant {
  const free = usedBeforeReset === null ? now : later(now, plus(usedBeforeReset, 1))
  const wanted = later(free, startDate)
  const near = usedStarts.filter((used) => wanted <= used && used < plus(wanted, USED_AHEAD_MS))
  let start = near.reduce((latest, used) => later(latest, plus(used, 1)), wanted)
  while (usedStarts.includes(start)) start = plus(start, 1)
  return start
}
