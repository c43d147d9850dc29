// Billing months: UTC, half-open from the first of the month to the first of the next.

import { type Instant, MONTH_PATTERN } from './instant.ts'

export type Period = { month: string; start: Instant; end: Instant }

/** The period of a `YYYY-MM`. Throws on any other text. */
export function periodOf(month: string): Period {
  if (!MONTH_PATTERN.test(month)) throw new RangeError(`not a month: ${JSON.stringify(month)}`)
  const year = Number(month.slice(0, 4))
  const index = Number(month.slice(5)) - 1
  return { month, start: utc(year, index), end: utc(year, index + 1) }
}

function utc(year: number, month: number): Instant {
  // Date.UTC reads the years 0 to 99 as 1900 to 1999.
  assertYear(year)
  return Date.UTC(year, month) as Instant
}

function assertYear(year: number): void {
  if (year < 1970) throw new RangeError(`a month before 1970: ${year}`)
}
