// Billing months: their first and last instants, and what is not a month.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { monthsFrom, periodOf } from '../../src/core/month.ts'

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
for (const month of [
  '2026-00',
  '2026-13',
  '2026-1',
  '26-01',
  '2026-01-01',
  ' 2026-01',
  '0000-01',
  '10000-01',
  '-001-01',
  '',
]) {
  test(`${JSON.stringify(month)} is not a month`, () => assert.throws(() => periodOf(month), RangeError))
}

test('months from one to another, over the turn of a year and to the last there is', () => {
  assert.deepEqual(monthsFrom('2026-11', '2027-02', 12), ['2026-11', '2026-12', '2027-01', '2027-02'])
  assert.deepEqual(monthsFrom('9999-11', '9999-12', 12), ['9999-11', '9999-12'])
  assert.deepEqual(monthsFrom('0001-01', '0001-01', 12), ['0001-01'])
  assert.deepEqual(monthsFrom('2026-11', '2026-10', 12), [])
  assert.equal(monthsFrom('0001-01', '9999-12', 121).length, 121)
})
