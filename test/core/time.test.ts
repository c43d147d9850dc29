// Instants and months: accepted and refused texts of a time, and how it is written.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { monthsFrom, periodOf } from '../../src/core/month.ts'
import {
  DAY_MS,
  formatInstant,
  HOUR_MS,
  type Instant,
  later,
  MONTH_PATTERN,
  monthOf,
  parseInstant,
  plus,
  spellInstant,
} from '../../src/core/time.ts'
import { FREQUENCIES, opening, roll, WINDOW_MS } from '../../src/core/window.ts'

const at = (...parts: Parameters<typeof Date.UTC>): Instant => Date.UTC(...parts) as Instant

/** The first instant of a year with four digits. */
const FIRST = -62_135_596_800_000 as Instant

const READ: [text: string, at: Instant][] = [
  ['2026-01-05', at(2026, 0, 5)],
  ['2026-01-05T00:00:00Z', at(2026, 0, 5)],
  ['2026-01-05t23:59:59z', at(2026, 0, 5, 23, 59, 59)],
  ['2026-01-05 12:30:00Z', at(2026, 0, 5, 12, 30)],
  ['2026-01-05T12:30:00.1Z', at(2026, 0, 5, 12, 30, 0, 100)],
  ['2026-01-05T12:30:00.999999999Z', at(2026, 0, 5, 12, 30, 0, 999)],
  ['2026-01-05T12:30:00.1234567890Z', at(2026, 0, 5, 12, 30, 0, 123)],
  [`2026-01-05T12:30:00.9${'9'.repeat(200)}+00:00`, at(2026, 0, 5, 12, 30, 0, 999)],
  ['2026-01-05T01:00:00+02:00', at(2026, 0, 4, 23)],
  ['2025-12-31T20:15:00-05:45', at(2026, 0, 1, 2)],
  ['2026-01-05T00:00:00-00:00', at(2026, 0, 5)],
  ['2026-01-05T00:00:00+23:59', at(2026, 0, 4, 0, 1)],
  ['0001-01-01', FIRST],
  ['0001-01-01T00:00:00-00:01', plus(FIRST, 60_000)],
  ['9999-12-31T23:59:59.999Z', at(9999, 11, 31, 23, 59, 59, 999)],
]

const NO_DATETIME = [
  // Of another form, or a part of one.
  ...['', 'now', '2026', '2026-1-5', '20260105', '2026/01/05', ' 2026-01-05', '2026-01-05\n', '1736035200'],
  ...['2026-01-05T', '2026-01-05T12:00Z', '2026-01-05T12:00:00.Z', '2026-01-05T12:00:00.1:Z'],
  ...['2026-01-05T12:00:00 Z', '2026-01-05T12:00:00Z\n', '+02026-01-05T00:00:00Z', '-0001-01-01'],
  ...['2026-01-05T12:00:00+2:00', '2026-01-05T12:00:00+0200'],
  // No such day, time or offset.
  ...['2026-00-01', '2026-13-01', '2026-01-00', '2026-04-31', '2026-02-29', '1900-02-29', '0001-02-29'],
  ...['0000-01-01', '0000-12-31T23:59:59Z'],
  ...['2026-01-05T24:00:00Z', '2026-01-05T12:60:00Z', '2026-12-31T23:59:60Z'],
  ...['2026-01-05T12:00:00+24:00', '2026-01-05T12:00:00+02:60'],
  // An offset must not carry an instant out of the years that can be written back.
  ...['9999-12-31T23:59:59-00:01', '0001-01-01T00:00:00+00:01'],
]

test('RFC 3339 date-times in any offset, and bare dates, are read as UTC instants', () => {
  for (const [text, expected] of READ) assert.deepEqual(parseInstant(text), { ok: true, at: expected }, text)
})

test('what no clock shows and what is not a date-time is refused, with a reason', () => {
  for (const text of NO_DATETIME) {
    const parsed = parseInstant(text)
    assert.ok(!parsed.ok && parsed.problem === 'not_a_datetime' && parsed.why !== '', JSON.stringify(text))
  }
})

test('a date-time without an offset is told apart from one that is wrong', () => {
  for (const text of ['2026-01-05T12:00:00', '2026-01-05 12:00:00.5']) {
    assert.deepEqual(parseInstant(text), { ok: false, problem: 'no_offset' }, text)
  }
})

test('for people, an instant is written in UTC and to the second', () => {
  assert.equal(spellInstant(at(2026, 0, 5, 9, 30, 7, 999)), '2026-01-05 09:30:07')
})

const anyInstant = fc.integer({ min: FIRST + DAY_MS, max: at(9999, 11, 30) }) as fc.Arbitrary<Instant>

test('format and parse are inverse, in every offset', () => {
  fc.assert(
    fc.property(anyInstant, fc.integer({ min: -1439, max: 1439 }), (instant, offset) => {
      assert.deepEqual(parseInstant(formatInstant(instant)), { ok: true, at: instant })
      assert.match(formatInstant(instant), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      const local = formatInstant(plus(instant, offset * 60_000)).slice(0, -1)
      const minutes = Math.abs(offset)
      const hhmm = [Math.floor(minutes / 60), minutes % 60].map((n) => String(n).padStart(2, '0')).join(':')
      assert.deepEqual(parseInstant(`${local}${offset < 0 ? '-' : '+'}${hhmm}`), { ok: true, at: instant })
    }),
    { numRuns: 300 },
  )
})

test('the calendar is the one of the language, on every day of it and beyond the years of four digits', () => {
  const written = (instant: Instant): string =>
    Temporal.Instant.fromEpochMilliseconds(instant).toString({ fractionalSecondDigits: 3 })
  const isRight = (day: Instant): void => {
    assert.equal(formatInstant(day), written(day))
    assert.deepEqual(parseInstant(formatInstant(day)), { ok: true, at: day })
  }
  // The calendar repeats every 400 years; besides these, the days around the end of a year and of a February.
  for (let day = at(2000, 2, 1); day <= at(2400, 2, 1); day = plus(day, DAY_MS)) isRight(day)
  for (let year = 2; year <= 9999; year++) {
    for (const month of [1, 3]) {
      const first = new Temporal.PlainDateTime(year, month, 1).toZonedDateTime('UTC').epochMilliseconds
      for (const days of [-2, -1, 0]) isRight(plus(first as Instant, days * DAY_MS))
    }
  }
  isRight(FIRST)
  const anywhere = fc.integer({ min: -8.64e15, max: 8.64e15 }) as fc.Arbitrary<Instant>
  fc.assert(fc.property(anywhere, (instant) => assert.equal(formatInstant(instant), written(instant))))
  for (const broken of [Number.NaN, Number.POSITIVE_INFINITY, 0.5]) {
    assert.throws(() => formatInstant(broken as Instant), /whole number of milliseconds/)
  }
})

test('the month of an instant is a UTC month: half-open, from its first millisecond', () => {
  for (let month = 0; month < 48; month++) {
    const first = at(2023, month, 1)
    const name = `${2023 + Math.floor(month / 12)}-${String((month % 12) + 1).padStart(2, '0')}`
    assert.equal(monthOf(first), name)
    assert.notEqual(monthOf(plus(first, -1)), name)
    assert.equal(monthOf(plus(at(2023, month + 1, 1), -1)), name)
    assert.match(name, MONTH_PATTERN)
  }
  for (const text of ['2026-00', '2026-13', '2026-1', '26-01', '2026-01-01', '2026-01\n', '']) {
    assert.doesNotMatch(text, MONTH_PATTERN, JSON.stringify(text))
  }
})

test('windows keep their UTC time of day through every clock change of the machine it runs on', (t) => {
  const zone = process.env.TZ
  t.after(() => {
    if (zone === undefined) delete process.env.TZ
    else process.env.TZ = zone
  })
  for (const tz of ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'UTC']) {
    process.env.TZ = tz
    for (const frequency of FREQUENCIES) {
      let window = opening(at(2026, 0, 5, 2, 30), frequency, 1n as never)
      for (let day = 0; day < 400; day++) {
        const now = plus(at(2026, 0, 5, 2, 30), day * DAY_MS)
        window = roll({ ...window, frequency, amount: window.budget }, now) ?? window
        assert.equal(window.end - window.start, WINDOW_MS[frequency])
        assert.ok(window.start <= now && now < window.end)
        assert.match(formatInstant(window.start), /T02:30:00\.000Z$/)
      }
    }
  }
})

test('the later of two instants', () => {
  assert.equal(later(at(2026, 0), at(2027, 0)), at(2027, 0))
  assert.equal(later(at(2027, 0), at(2026, 0)), at(2027, 0))
  assert.equal(plus(at(2026, 0, 5), HOUR_MS), at(2026, 0, 5, 1))
})

// Billing months: their first and last instants, and texts that are not a month.

const utc = Date.UTC

const MONTHS: [month: string, start: number, end: number][] = [
  ['0001-01', Date.parse('0001-01-01T00:00:00Z'), Date.parse('0001-02-01T00:00:00Z')],
  ['0004-02', Date.parse('0004-02-01T00:00:00Z'), Date.parse('0004-03-01T00:00:00Z')],
  ['0099-12', Date.parse('0099-12-01T00:00:00Z'), Date.parse('0100-01-01T00:00:00Z')],
  ['0100-02', Date.parse('0100-02-01T00:00:00Z'), Date.parse('0100-02-28T00:00:00Z') + 86_400_000],
  ['1969-12', utc(1969, 11), 0],
  ['1970-01', 0, utc(1970, 1)],
  ['2024-02', utc(2024, 1), utc(2024, 1, 29) + 86_400_000],
  ['2026-02', utc(2026, 1), utc(2026, 1, 28) + 86_400_000],
  ['2026-12', utc(2026, 11), utc(2027, 0)],
  ['2100-02', utc(2100, 1), utc(2100, 1, 28) + 86_400_000],
  ['9999-12', utc(9999, 11), utc(9999, 11, 31) + 86_399_999],
]
for (const [month, start, end] of MONTHS) {
  test(`the period of ${month}`, () => assert.deepEqual(periodOf(month), { month, start, end }))
}
for (const month of ['2026-13', ' 2026-01', '0000-01', '10000-01', '-001-01', '']) {
  test(`${JSON.stringify(month)} is not a month`, () => assert.throws(() => periodOf(month), RangeError))
}

test('months from one to another, over the turn of a year and to the last there is', () => {
  assert.deepEqual(monthsFrom('2026-11', '2027-02', 12), ['2026-11', '2026-12', '2027-01', '2027-02'])
  assert.deepEqual(monthsFrom('9999-11', '9999-12', 12), ['9999-11', '9999-12'])
  assert.deepEqual(monthsFrom('0001-01', '0001-01', 12), ['0001-01'])
  assert.deepEqual(monthsFrom('2026-11', '2026-10', 12), [])
  assert.equal(monthsFrom('0001-01', '9999-12', 121).length, 121)
})
