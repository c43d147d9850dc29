// What a report of a month may cover, decided from what time it is and what has been recorded.

import { CLOCK_DIFFERENCE_MAX_MS } from './clock-dispute.ts'
import { earlier, type Instant, later, monthOf, plus } from './instant.ts'
import { monthBefore, type Period, periodOf } from './month.ts'

/** A period to read: `end` is where the records so far end, and the month's own end once it is final. */
export type FixedPeriod = Period & { final: boolean }

/** `reportedUntil` is what no later write may be dated before; null leaves it where it is. */
type Bound = { fixed: FixedPeriod; reportedUntil: Instant | null }

/** What a month that is over is judged by: what time it is, and how far time has come by what was recorded. */
type Known = { now: Instant; reached: Instant }

/** Whether a month that is over by the clock is over by what was recorded as well: until then it is not final. */
export const isConfirmed = ({ end }: Period, reached: Instant): boolean => reached >= end

/**
 * Of a month that is over by the clock. `closes` is the month that is closed for it, and all before that; null when it
 * cannot be yet. `first` is since when there are partners: nothing lies in the months before, so they are closed together,
 * at most once. Otherwise whoever asks for each of them would close each.
 */
export function overPeriod(
  period: Period,
  { now, reached }: Known,
  first: Instant | null,
): Bound & { closes: Period | null } {
  const final = isConfirmed(period, reached)
  const empty = first === null ? period : periodOf(monthBefore(monthOf(first)))
  const together = period.end < empty.end && empty.end <= earlier(now, reached)
  const closes = !final ? null : together ? empty : period
  return { fixed: { ...period, final }, reportedUntil: closes?.end ?? null, closes }
}

/** Of a month that is not over at `now`. `latest` is when the latest trade or adjustment was recorded. */
export function runningPeriod(period: Period, now: Instant, latest: Instant | null): Bound {
  // A trade or adjustment of this very millisecond belongs to what is there so far, one that comes later in it
  // does not. One that lies further ahead was dated by a clock that was wrong: it must not take all others along.
  const sofar = plus(latest ?? (0 as Instant), 1)
  const held = now < sofar && sofar - now <= CLOCK_DIFFERENCE_MAX_MS
  const end = earlier(period.end, later(held ? sofar : now, period.start))
  return { fixed: { ...period, end, final: false }, reportedUntil: held ? sofar : null }
}
