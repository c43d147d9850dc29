// Billing months: UTC, half-open from the first of the month to the first of the next.

import { DAY_MS, earlier, type Instant, MONTH_PATTERN } from './instant.ts'

export type Period = { month: string; start: Instant; end: Instant }

/** Whether a text is a month from 0001-01 to 9999-12. There is no year 0. */
export const isMonth = (text: string): boolean => MONTH_PATTERN.test(text) && !text.startsWith('0000')

/** The period of a `YYYY-MM`. Throws on any other text. */
export function periodOf(month: string): Period {
  if (!isMonth(month)) throw new RangeError(`not a month: ${JSON.stringify(month)}`)
  const year = Number(month.slice(0, 4))
  const index = Number(month.slice(5)) - 1
  return { month, start: utc(year, index), end: earlier(utc(year, index + 1), LATEST) }
}

/** The months from one to another, both included; none when the first is the later one. At most `atMost` of them. */
export function monthsFrom(first: string, last: string, atMost: number): string[] {
  const from = indexOf(first)
  const length = Math.min(Math.max(0, indexOf(last) - from + 1), atMost)
  return Array.from({ length }, (_, i) => monthAt(from + i))
}

export const monthBefore = (month: string): string => monthAt(indexOf(month) - 1)

const indexOf = (month: string): number => Number(month.slice(0, 4)) * 12 + Number(month.slice(5)) - 1
const monthAt = (index: number): string =>
  `${String(Math.floor(index / 12)).padStart(4, '0')}-${String((index % 12) + 1).padStart(2, '0')}`

/** What state a month is in at an instant. */
export type Stage = 'ahead' | 'running' | 'over'

export function stageOf({ start, end }: Pick<Period, 'start' | 'end'>, now: Instant): Stage {
  if (now < start) return 'ahead'
  return now < end ? 'running' : 'over'
}

/** The first of a month; of the month 12, of the next January. */
function utc(year: number, month: number): Instant {
  // Date.UTC reads the years 0 to 99 as 1900 to 1999. Four hundred years are whole weeks and whole leap cycles.
  return (Date.UTC(year + 400, month) - FOUR_CENTURIES_MS) as Instant
}

/** The last instant that can be written with a year of four digits; the last month ends with it. */
const LATEST = Date.UTC(9999, 11, 31, 23, 59, 59, 999) as Instant

const FOUR_CENTURIES_MS = 146_097 * DAY_MS
