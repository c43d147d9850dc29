// Passes at uneven intervals: when the failsafe of a window begins, and when a scheduler is late.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { LATENESS_PASSES, schedulerLateness } from '../../src/core/clock.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { FAILSAFE_LEAD_MIN_MS, failsafeLead, failsafeStart } from '../../src/core/window.ts'

const T0 = Date.UTC(2026, 0, 5) as Instant
const NEWEST = plus(T0, 10 * 24 * HOUR_MS)

/** Passes at every gap, the newest first, and plans that have waited since T0. */
const cron = (everyMs: number, passes = LATENESS_PASSES) => ({
  latestAt: Array.from({ length: passes }, (_, i) => plus(NEWEST, -i * everyMs)),
  lastFinishedAt: NEWEST,
  waitingSince: T0,
})

suite('a cron of its own cadence is in time until it has missed two', () => {
  for (const [name, everyMs, allowedMinutes] of [
    ['minutely', MINUTE_MS, 12],
    ['every five minutes', 5 * MINUTE_MS, 20],
    ['hourly', HOUR_MS, 130],
    ['six-hourly', 6 * HOUR_MS, 730],
  ] as const) {
    test(name, () => {
      const at = (minutes: number) => schedulerLateness(cron(everyMs), plus(NEWEST, minutes * MINUTE_MS))
      assert.equal(at(everyMs / MINUTE_MS).isLate, false)
      assert.equal(at(allowedMinutes).isLate, false)
      assert.equal(at(allowedMinutes + 1).isLate, true)
      assert.equal(at(0).usualGapMs, everyMs)
      assert.equal(at(0).allowedMs, allowedMinutes * MINUTE_MS)
    })
  }
})

test('without plans that wait nobody is late', () => {
  const seen = { ...cron(MINUTE_MS), waitingSince: null }
  assert.deepEqual(schedulerLateness(seen, plus(NEWEST, 1_000 * HOUR_MS)).waitedMs, null)
  assert.equal(schedulerLateness(seen, plus(NEWEST, 1_000 * HOUR_MS)).isLate, false)
})

test('plans that no pass has ever visited may wait for ten minutes', () => {
  const seen = { latestAt: [], lastFinishedAt: null, waitingSince: T0 }
  assert.equal(schedulerLateness(seen, plus(T0, 10 * MINUTE_MS)).isLate, false)
  assert.equal(schedulerLateness(seen, plus(T0, 10 * MINUTE_MS + 1)).isLate, true)
})

test('after a single pass an hourly cron is assumed', () => {
  const seen = cron(MINUTE_MS, 1)
  assert.equal(schedulerLateness(seen, plus(NEWEST, 130 * MINUTE_MS)).isLate, false)
  assert.equal(schedulerLateness(seen, plus(NEWEST, 131 * MINUTE_MS)).isLate, true)
})

test('the first plan after an idle time has waited only since it was created', () => {
  const waitingSince = plus(NEWEST, 100 * HOUR_MS)
  const seen = { ...cron(MINUTE_MS), waitingSince }
  assert.equal(schedulerLateness(seen, plus(waitingSince, 5 * MINUTE_MS)).isLate, false)
  assert.equal(schedulerLateness(seen, plus(waitingSince, 13 * MINUTE_MS)).isLate, true)
})

test('one outage does not make the usual gap longer', () => {
  const latestAt = [0, 1, 2, 3, 600, 601, 602].map((minutes) => plus(NEWEST, -minutes * MINUTE_MS))
  assert.equal(schedulerLateness({ ...cron(MINUTE_MS), latestAt }, NEWEST).usualGapMs, MINUTE_MS)
})

test('passes that break off do not put lateness off', () => {
  const seen = { ...cron(MINUTE_MS), lastFinishedAt: plus(NEWEST, -HOUR_MS) }
  assert.equal(schedulerLateness(seen, NEWEST).isLate, true)
})

test('a clock set back makes nobody late', () => {
  assert.equal(schedulerLateness(cron(MINUTE_MS), plus(NEWEST, -24 * HOUR_MS)).isLate, false)
})

// The start of a window's failsafe.

const windowStart = Date.UTC(2026, 0, 5) as Instant
const window = { windowStart, windowEnd: plus(windowStart, DAY_MS) }

test('it begins its lead before the end of the window, and never before the window', () => {
  assert.equal(failsafeStart(window, 2 * HOUR_MS), plus(windowStart, 22 * HOUR_MS))
  assert.equal(failsafeStart(window, DAY_MS), windowStart)
  assert.equal(failsafeStart(window, 36 * HOUR_MS), windowStart)
})

const LEADS: [what: string, gapsMinutes: number[], leadMinutes: number][] = [
  ['no pass yet', [], 15],
  ['one gap may be an outage', [6 * 60], 15],
  ['a minutely cron', [1, 1, 1, 1, 1, 1, 1, 1], 15],
  ['one outage does not count', [1, 1, 10_000, 1, 1, 1, 1, 1], 15],
  ['two do', [1, 600, 1, 1, 900, 1, 1, 1], 1_200],
  ['an hourly cron', [60, 60, 60, 60, 60, 60, 60, 60], 120],
  ['a six-hourly cron after an outage', [360, 360, 5_000, 360], 720],
  ['only the last eight gaps', [900, 900, 1, 1, 1, 1, 1, 1, 1, 1], 15],
  ['ties', [30, 30], 60],
]

test('the lead is twice the second-longest of the last eight gaps, so that one outage does not count', () => {
  assert.equal(FAILSAFE_LEAD_MIN_MS, 15 * MINUTE_MS)
  for (const [what, gaps, lead] of LEADS)
    assert.equal(failsafeLead(gaps.map((m) => m * MINUTE_MS)), lead * MINUTE_MS, what)
})
