// Where a window that is reset starts: when terms change, or a paused plan goes on.

import { WINDOW_MS } from './frequency.ts'
import { type Instant, later, plus } from './instant.ts'

/** Starts further ahead of a new window are those of a clock that was wrong: it does not have to come after them. */
const USED_AHEAD_MS = WINDOW_MS['bi-weekly']

/**
 * Where a reset window starts: now, or at the plan's start_date while that lies ahead; and a millisecond after the
 * last window that already has executions, should the clock have gone back, so that no idempotency key is made twice.
 */
export function resetStart(usedStarts: readonly Instant[], startDate: Instant, now: Instant): Instant {
  const wanted = later(now, startDate)
  const near = usedStarts.filter((used) => wanted <= used && used < plus(wanted, USED_AHEAD_MS))
  let start = near.reduce((latest, used) => later(latest, plus(used, 1)), wanted)
  while (usedStarts.includes(start)) start = plus(start, 1)
  return start
}
