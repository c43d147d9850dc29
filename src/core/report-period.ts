// What a report of a month covers; of a month that is not over, how far it goes by the time and by what was recorded.

import { CLOCK_DIFFERENCE_MAX_MS } from './clock-dispute.ts'
import { earlier, type Instant, later, plus } from './instant.ts'
import type { Period } from './month.ts'

/** A period to read: `end` is where the records so far end, and the month's own end once it is final. */
export type FixedPeriod = Period & { final: boolean }

/** `reportedUntil` is what no later write may be dated before; null leaves it where it is. */
export type Bound = { fixed: FixedPeriod; reportedUntil: Instant | null }

/** Of a month that is not over at `now`. `latest` is when the latest trade or adjustment was recorded. */
export function runningPeriod(period: Period, now: Instant, latest: Instant | null): Bound {
  // A trade or adjustment of this very millisecond belongs to what is there so far, one that comes later in it
  // does not. One that lies further ahead was dated by a clock that was wrong: it must not take all others along.
  const sofar = plus(latest ?? (0 as Instant), 1)
  const held = now < sofar && sofar - now <= CLOCK_DIFFERENCE_MAX_MS
  const end = earlier(period.end, later(held ? sofar : now, period.start))
  return { fixed: { ...period, end, final: false }, reportedUntil: held ? sofar : null }
}
