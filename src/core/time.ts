// Time: instants, which are whole milliseconds since 1970-01-01T00:00:00Z, and spans. Everything is UTC, so no day has
// 23 or 25 hours.

import { assert } from './problem.ts'

export type Instant = number & { readonly unit: 'ms' }

export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

export const plus = (at: Instant, ms: number): Instant => (at + ms) as Instant
export const earlier = (a: Instant, b: Instant): Instant => (a < b ? a : b)
export const later = (a: Instant, b: Instant): Instant => (a > b ? a : b)

/** `YYYY-MM-DDTHH:mm:ss.sssZ`, the only form the service writes. Faster than `Date`: an export has millions. */
export function formatInstant(at: Instant): string {
  assert(Number.isSafeInteger(at), 'an instant is a whole number of milliseconds')
  const days = Math.floor(at / DAY_MS)
  const ms = at - days * DAY_MS
  const seconds = Math.floor(ms / SECOND_MS)
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  const time = `${two(hours)}:${two(minutes - 60 * hours)}:${two(seconds - 60 * minutes)}`
  return `${dayText(days)}T${time}.${padded(ms - seconds * SECOND_MS, 3)}Z`
}

export const formatInstantOrNull = (at: Instant | null): string | null =>
  at === null ? null : formatInstant(at)

/** The day written last: consecutive instants mostly share a day. */
const last = { days: Number.NaN, text: '' }

/** ISO 8601 writes a year that does not fit four digits with a sign and six digits. */
function dayText(days: number): string {
  if (days !== last.days) {
    last.days = days
    last.text = new Date(days * DAY_MS).toISOString().slice(0, -'T00:00:00.000Z'.length)
  }
  return last.text
}

const padded = (value: number, length: number): string => String(value).padStart(length, '0')
const TWO = Array.from({ length: 100 }, (_, value) => padded(value, 2))
const two = (value: number): string => TWO[value] ?? ''

/** To the second, for people: `2026-01-05 09:30:00`, in UTC. */
export const spellInstant = (at: Instant): string => formatInstant(at).slice(0, 19).replace('T', ' ')

/** The UTC day of an instant, `YYYY-MM-DD`. */
export const utcDate = (at: Instant): string => formatInstant(at).slice(0, 10)

/** The UTC month of an instant, `YYYY-MM`. */
export const monthOf = (at: Instant): string => formatInstant(at).slice(0, 7)

export const MONTH_PATTERN = /^\d{4}-(0[1-9]|1[0-2])$/

type ParsedInstant =
  | { ok: true; at: Instant }
  | { ok: false; problem: 'not_a_datetime'; why: string }
  | { ok: false; problem: 'no_offset' }

const DATE = /^\d{4}-\d{2}-\d{2}/
const DATE_AND_TIME = /^.{10}[Tt ]\d{2}:\d{2}:\d{2}/
const ZONE = /^([Zz]|([+-])(\d{2}):(\d{2}))$/
const OFFSET_HOURS_MAX = 23

/**
 * Reads an RFC 3339 date-time in any offset, or a bare `YYYY-MM-DD` as midnight UTC, of the years 1 to 9999. Digits
 * below a millisecond are cut, however many there are. Times that do not exist (a thirteenth month, 29 February in a
 * common year, second 60) are refused.
 */
export function parseInstant(text: string): ParsedInstant {
  if (!DATE.test(text))
    return invalid(text.length < 10 ? 'input is too short' : 'invalid date separator or digits')
  const year = digits(text, 0, 4)
  const month = digits(text, 5, 7)
  const day = digits(text, 8, 10)
  if (year === 0) return invalid('year is out of range')
  if (month < 1 || month > 12) return invalid('month value is outside expected range of 1-12')
  const midnight = midnightOf(year, month, day)
  if (day < 1 || midnight >= midnightOf(year, month + 1, 1))
    return invalid('day value is outside expected range')
  if (text.length === 10) return { ok: true, at: midnight }

  if (!DATE_AND_TIME.test(text)) return invalid('invalid time separator or digits')
  const hour = digits(text, 11, 13)
  const minute = digits(text, 14, 16)
  const second = digits(text, 17, 19)
  if (hour > 23) return invalid('hour value is outside expected range of 0-23')
  if (minute > 59) return invalid('minute value is outside expected range of 0-59')
  if (second > 59) return invalid('second value is outside expected range of 0-59')
  const zoneFrom = fractionEnd(text, 19)
  if (zoneFrom === text.length) return { ok: false, problem: 'no_offset' }
  const offset = offsetOf(text.slice(zoneFrom))
  if (offset === null) return invalid('invalid timezone')

  const millis = digits(text.slice(20, zoneFrom).padEnd(3, '0'), 0, 3)
  const at = plus(midnight, hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + millis - offset)
  return EARLIEST <= at && at <= LATEST ? { ok: true, at } : invalid('year is out of range')
}

/** The number written by the digits between two positions. */
function digits(text: string, from: number, to: number): number {
  let value = 0
  for (let i = from; i < to; i++) value = 10 * value + text.charCodeAt(i) - ZERO
  return value
}

const ZERO = 48
const NINE = 57

/** Where a fraction of a second that starts with a point at `from` ends; `from` when there is none. */
function fractionEnd(text: string, from: number): number {
  let end = from + 1
  while (ZERO <= text.charCodeAt(end) && text.charCodeAt(end) <= NINE) end += 1
  return text[from] === '.' && end > from + 1 ? end : from
}

/** How far a zone is ahead of UTC, in milliseconds; null for any other text. */
function offsetOf(zone: string): number | null {
  if (zone === 'Z') return 0
  const parts = ZONE.exec(zone)
  if (!parts) return null
  const [, , sign, hours, minutes] = parts
  if (Number(hours ?? 0) > OFFSET_HOURS_MAX || Number(minutes ?? 0) > 59) return null
  return (sign === '-' ? -1 : 1) * (Number(hours ?? 0) * HOUR_MS + Number(minutes ?? 0) * MINUTE_MS)
}

const invalid = (why: string): ParsedInstant => ({ ok: false, problem: 'not_a_datetime', why })

/** After this many years, of so many days, the calendar repeats. */
const [CYCLE_YEARS, CYCLE_DAYS] = [400, 146_097]

/** Computed a cycle later, because `Date.UTC` takes a year below 100 for one of the twentieth century. */
export const midnightOf = (year: number, month: number, day: number): Instant =>
  (Date.UTC(year + CYCLE_YEARS, month - 1, day) - CYCLE_DAYS * DAY_MS) as Instant

// An offset may move an instant out of the years of four digits.
export const EARLIEST = midnightOf(1, 1, 1)
/** The last instant that `formatInstant` writes with four digits. */
export const LATEST = plus(midnightOf(10_000, 1, 1), -1)

const SPAN_UNIT_MS: Record<string, number> = { s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS }
/** A hundred years: the longest lifetime of a key, the longest advance of a sandbox. */
export const SPAN_MAX_DAYS = 36_500

/** Reads `60s`, `15m`, `24h` or `90d`, from a second to `daysMax` days, in ms; null for anything else. */
export function parseSpan(text: string, daysMax = SPAN_MAX_DAYS): number | null {
  const parts = /^(\d{1,9})([smhd])$/.exec(text)
  const ms = Number(parts?.[1]) * (SPAN_UNIT_MS[parts?.[2] ?? ''] ?? Number.NaN)
  return SECOND_MS <= ms && ms <= daysMax * DAY_MS ? ms : null
}

const UNITS = [
  [DAY_MS, 'd'],
  [HOUR_MS, 'h'],
  [MINUTE_MS, 'min'],
  [SECOND_MS, 's'],
] as const

/** Exact to the second, without units that are zero: "7 d 5 min". A negative span counts as zero. */
export function spellSpan(ms: number): string {
  let rest = Math.max(0, Math.round(ms / SECOND_MS) * SECOND_MS)
  const parts: string[] = []
  for (const [unit, name] of UNITS) {
    if (rest >= unit) parts.push(`${Math.floor(rest / unit)} ${name}`)
    rest %= unit
  }
  return parts.join(' ') || '0 s'
}

/** `spellSpan` for spans that are often shorter than a minute: "84 ms", "1.2 s". */
export function spellBriefSpan(ms: number): string {
  if (ms < SECOND_MS) return `${Math.max(0, Math.round(ms))} ms`
  // From 59.95 s on, one decimal place would round to 60.
  return ms < MINUTE_MS - 50 ? `${(ms / SECOND_MS).toFixed(1)} s` : spellSpan(ms)
}
