// Spans of time in words.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS, spellBriefSpan, spellSpan } from '../../src/core/time.ts'

const SPANS: [ms: number, words: string][] = [
  [-5_000, '0 s'],
  [0, '0 s'],
  [499, '0 s'],
  [59_499, '59 s'],
  [59_998, '1 min'],
  [90_000, '1 min 30 s'],
  [2 * HOUR_MS, '2 h'],
  [7 * DAY_MS + 5 * MINUTE_MS, '7 d 5 min'],
  [3_650 * DAY_MS + 23 * HOUR_MS + 59 * MINUTE_MS + 59_000, '3650 d 23 h 59 min 59 s'],
]

for (const [ms, words] of SPANS) {
  test(`${ms} ms is ${words}`, () => assert.equal(spellSpan(ms), words))
}

const BRIEF_SPANS: [ms: number, words: string][] = [
  [-1, '0 ms'],
  [84, '84 ms'],
  [999, '999 ms'],
  [1_000, '1.0 s'],
  [59_949, '59.9 s'],
  [59_950, '1 min'],
  [90_000, '1 min 30 s'],
]

for (const [ms, words] of BRIEF_SPANS) {
  test(`${ms} ms is briefly ${words}`, () => assert.equal(spellBriefSpan(ms), words))
}
