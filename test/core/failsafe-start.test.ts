// When the failsafe of a window begins.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { FAILSAFE_LEAD_MIN_MS, failsafeLead, failsafeStart } from '../../src/core/window.ts'

const windowStart = Date.UTC(2026, 0, 5) as Instant
const window = { windowStart, windowEnd: plus(windowStart, DAY_MS) }

test('it begins its lead before the end of the window, and never before the window', () => {
  assert.equal(failsafeStart(window, 2 * HOUR_MS), plus(windowStart, 22 * HOUR_MS))
  assert.equal(failsafeStart(window, DAY_MS), windowStart)
  assert.equal(failsafeStart(window, 36 * HOUR_MS), windowStart)
})

test('the lead is twice the second-longest gap, so that one outage does not count', () => {
  assert.equal(failsafeLead([]), FAILSAFE_LEAD_MIN_MS)
  assert.equal(failsafeLead([MINUTE_MS, DAY_MS]), FAILSAFE_LEAD_MIN_MS)
  assert.equal(failsafeLead([HOUR_MS, MINUTE_MS, DAY_MS]), 2 * HOUR_MS)
})
