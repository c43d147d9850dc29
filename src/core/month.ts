// Billing months: UTC, half-open from the first of the month to the first of the next.

import { CLOCK_DIFFERENCE_MAX_MS } from './clock.ts'
import { earlier, type Instant, LATEST, later, MONTH_PATTERN, midnightOf, monthOf, plus } from './time.ts'

export type Period = { month: string; start: Instant; end: Instant }

/** Whether a text is a month from 0001-01 to 9999-12. There is no year 0. */
export const isMonth = (text: string): boolean => MONTH_PATTERN.test(text) && !text.startsWith('0000')

/** The period of a `YYYY-MM`. Throws on any other text. */
export function periodOf(month: string): Period {
  if (!isMonth(month)) throw new RangeError(`not a month: ${JSON.stringify(month)}`)
  const year = Number(month.slice(0, 4))
  const index = Number(month.slice(5)) - 1
  const [nextYear, nextIndex] = index === 11 ? [year + 1, 0] : [year, index + 1]
  const next = midnightOf(nextYear, nextIndex + 1, 1)
  return { month, start: midnightOf(year, index + 1, 1), end: earlier(next, LATEST) }
}

/** The months from one to another, both included, at most `atMost`; none when the first is the later one. */
export function monthsFrom(first: string, last: string, atMost: number): string[] {
  const from = indexOf(first)
  const length = Math.min(Math.max(0, indexOf(last) - from + 1), atMost)
  return Array.from({ length }, (_, i) => monthAt(from + i))
}

export const monthBefore = (month: string): string => monthAt(indexOf(month) - 1)

const indexOf = (month: string): number => Number(month.slice(0, 4)) * 12 + Number(month.slice(5)) - 1
const monthAt = (index: number): string =>
  `${String(Math.floor(index / 12)).padStart(4, '0')}-${String((index % 12) + 1).padStart(2, '0')}`

export type Stage = 'ahead' | 'running' | 'over'

export function stageOf({ start, end }: Pick<Period, 'start' | 'end'>, now: Instant): Stage {
  if (now < start) return 'ahead'
  return now < end ? 'running' : 'over'
}

// When a month that is over becomes final, and which month must be closed for that.

/** Whether the records, and not only the clock, say that a month is over. Until then it is not final. */
export const isConfirmed = ({ end }: Period, reached: Instant): boolean => reached >= end

/**
 * The period of a month that the clock says is over. `closes` is the month to close, with all before it; null while
 * none may be closed. `first` is when the first partner was added. The months before that are empty and are closed
 * together, once, so that asking for each of them does not close each.
 */
export function overPeriod(
  period: Period,
  { now, reached }: { now: Instant; reached: Instant },
  first: Instant | null,
): Bound & { closes: Period | null } {
  const final = isConfirmed(period, reached)
  const empty = first === null ? period : periodOf(monthBefore(monthOf(first)))
  const together = period.end < empty.end && empty.end <= earlier(now, reached)
  const closes = !final ? null : together ? empty : period
  return { fixed: { ...period, final }, reportedUntil: closes?.end ?? null, closes }
}

// The period that a billing report of a month covers. For a month that is not over, the clock and the records decide
// where it ends.

/** A period to read: `end` is where the records end so far, and the month's own end once it is final. */
export type FixedPeriod = Period & { final: boolean }

/** No later write may be dated before `reportedUntil`; null leaves that bound unchanged. */
type Bound = { fixed: FixedPeriod; reportedUntil: Instant | null }

/** The period of a month that is not over at `now`. `latest` is when the latest trade or adjustment was recorded. */
export function runningPeriod(period: Period, now: Instant, latest: Instant | null): Bound {
  // A trade or adjustment of the present millisecond is included if it is recorded already, and excluded if it comes
  // later. One that lies further ahead was dated by a wrong clock, and must not extend the period.
  const sofar = plus(latest ?? (0 as Instant), 1)
  const held = now < sofar && sofar - now <= CLOCK_DIFFERENCE_MAX_MS
  const end = earlier(period.end, later(held ? sofar : now, period.start))
  return { fixed: { ...period, end, final: false }, reportedUntil: held ? sofar : null }
}
