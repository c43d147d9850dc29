// When a month that is over is final, and which month is closed for it.

import { earlier, type Instant, monthOf } from './instant.ts'
import { monthBefore, type Period, periodOf } from './month.ts'
import type { Bound } from './report-period.ts'

/** What a month that is over is judged by: what time it is, and how far time has come by what was recorded. */
type Known = { now: Instant; reached: Instant }

/** Whether a month that is over by the clock is over by what was recorded as well: until then it is not final. */
export const isConfirmed = ({ end }: Period, reached: Instant): boolean => reached >= end

/**
 * Of a month that is over by the clock. `closes` is the month that is closed for it, and all before that; null when it
 * cannot be yet. `first` is since when there are partners: nothing lies in the months before, so they are closed
 * together, at most once. Otherwise a caller that asks for each of them would close each.
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
