// Instants: whole milliseconds since 1970-01-01T00:00:00Z. Everything is UTC, so no day has 23 or 25 hours.

export type Instant = number & { readonly unit: 'ms' }

export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

export const plus = (at: Instant, ms: number): Instant => (at + ms) as Instant
export const earlier = (a: Instant, b: Instant): Instant => (a < b ? a : b)
export const later = (a: Instant, b: Instant): Instant => (a > b ? a : b)

/** `YYYY-MM-DDTHH:mm:ss.sssZ`, the only form the service writes. */
export const formatInstant = (at: Instant): string =>
  Temporal.Instant.fromEpochMilliseconds(at).toString({ fractionalSecondDigits: 3 })

/** The UTC month of an instant, `YYYY-MM`. */
export const monthOf = (at: Instant): string => formatInstant(at).slice(0, 7)

export const MONTH_PATTERN = /^\d{4}-(0[1-9]|1[0-2])$/

export type ParsedInstant =
  | { ok: true; at: Instant }
  | { ok: false; problem: 'not_a_datetime'; why: string }
  | { ok: false; problem: 'no_offset' }

const DATE = /^(\d{4})-(\d{2})-(\d{2})/
const TIME = /^[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?/
const OFFSET = /^([Zz]|([+-])(\d{2}):(\d{2}))$/
const OFFSET_HOURS_MAX = 23

/**
 * Reads an RFC 3339 date-time in any offset, or a bare `YYYY-MM-DD` as midnight UTC, of the years 1 to 9999. Digits
 * below a millisecond are cut, however many there are. Times that no clock shows (a thirteenth month, 29 February in a common year, second 60) are refused.
 */
export function parseInstant(text: string): ParsedInstant {
  const date = DATE.exec(text)
  if (!date) return invalid(text.length < 10 ? 'input is too short' : 'invalid date separator or digits')
  const [year, month, day] = [Number(date[1]), Number(date[2]), Number(date[3])]
  if (year === 0) return invalid('year is out of range')
  if (month < 1 || month > 12) return invalid('month value is outside expected range of 1-12')
  if (day < 1 || day > daysIn(year, month)) return invalid('day value is outside expected range')
  const rest = text.slice(10)
  const midnight = midnightOf(year, month, day)
  if (rest === '') return { ok: true, at: midnight }

  const time = TIME.exec(rest)
  if (!time) return invalid('invalid time separator or digits')
  const [hour, minute, second] = [Number(time[1]), Number(time[2]), Number(time[3])]
  if (hour > 23) return invalid('hour value is outside expected range of 0-23')
  if (minute > 59) return invalid('minute value is outside expected range of 0-59')
  if (second > 59) return invalid('second value is outside expected range of 0-59')
  const zone = rest.slice(time[0].length)
  if (zone === '') return { ok: false, problem: 'no_offset' }
  const offset = OFFSET.exec(zone)
  if (!offset) return invalid('invalid timezone')
  const [, , sign, hours, minutes] = offset
  if (Number(hours ?? 0) > OFFSET_HOURS_MAX || Number(minutes ?? 0) > 59) return invalid('invalid timezone')

  const millis = Number((time[4] ?? '').padEnd(3, '0').slice(0, 3))
  const shift = (sign === '-' ? 1 : -1) * (Number(hours ?? 0) * HOUR_MS + Number(minutes ?? 0) * MINUTE_MS)
  const at = plus(midnight, hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + millis + shift)
  return EARLIEST <= at && at <= LATEST ? { ok: true, at } : invalid('year is out of range')
}

const invalid = (why: string): ParsedInstant => ({ ok: false, problem: 'not_a_datetime', why })

/** After this many years the calendar repeats. */
const CYCLE_YEARS = 400
const CYCLE_MS = 146_097 * DAY_MS

/** Midnight UTC of a day. A calendar cycle later and back again, because Date.UTC reads the years 0 to 99 as 1900 to 1999. */
const midnightOf = (year: number, month: number, day: number): Instant =>
  (Date.UTC(year + CYCLE_YEARS, month - 1, day) - CYCLE_MS) as Instant

// An offset may push the instant out of the years that four digits can write.
const EARLIEST = midnightOf(1, 1, 1)
/** The last instant that `formatInstant` writes in its one form. */
export const LATEST = plus(midnightOf(10_000, 1, 1), -1)

function daysIn(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28
  return [4, 6, 9, 11].includes(month) ? 30 : 31
}
