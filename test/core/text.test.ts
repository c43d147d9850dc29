// Text for people: durations in words, and foreign text made safe to read.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spellFree, visible, visibleCell } from '../../src/core/text.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, spellBriefSpan, spellSpan } from '../../src/core/time.ts'

const SHOWN: [text: string, shown: string][] = [
  ['', ''],
  ['plan-1', 'plan-1'],
  ['Ärger, 計画, עברית, 👍, e\u0301', 'Ärger, 計画, עברית, 👍, e\u0301'],
  ['one\ntwo\r\n\tthree', 'one\\ntwo\\r\\n\\tthree'],
  ['\u0000\u001b[2J\u007f\u009b', '\\u0000\\u001b[2J\\u007f\\u009b'],
  ['a\u202egnp.exe', 'a\\u202egnp.exe'],
  ['\u2066\u2069\u200e\u200f\u061c', '\\u2066\\u2069\\u200e\\u200f\\u061c'],
  ['a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg', 'a\\u200bb\\u200cc\\u200dd\\u2060e\\ufefff\\u00adg'],
  ['\u2028\u2029', '\\u2028\\u2029'],
  ['\u3164\u115f\ufe0f\u034f', '\\u3164\\u115f\\ufe0f\\u034f'],
  ['\u{e0041}', '\\u{e0041}'],
  ['\ud800x', '\\ud800x'],
  ['back\\slash', 'back\\slash'],
]

const CELLS: [text: string, shown: string][] = [
  ['a\nb', 'a\\nb'],
  ['a\\nb \\u202e c:\\dir', 'a\\\\nb \\\\u202e c:\\dir'],
  ['u1   filled 10.00', 'u1 \\u0020\\u0020filled 10.00'],
  ['a\\\u00a0b', 'a\\\\\\u00a0b'],
  ['a\u2800\u2800b', 'a\\u2800\\u2800b'],
  [' two words ', ' two words '],
  ['a\u00a0b\u3000c', 'a\\u00a0b\\u3000c'],
]

for (const [text, shown] of SHOWN) {
  test(`${JSON.stringify(text)} is shown as ${JSON.stringify(shown)}`, () =>
    assert.equal(visible(text), shown))
}

for (const [text, shown] of CELLS) {
  test(`in a table ${JSON.stringify(text)} is shown as ${JSON.stringify(shown)}`, () =>
    assert.equal(visibleCell(text), shown))
}

test('the free space of a disk is said, also where it has none', () => {
  const said = [spellFree(0, 32 * 2 ** 20), spellFree(59, 100), spellFree(0, 0)]
  assert.deepEqual(said, ['0 B free of 32.0 MiB (0 %)', '59 B free of 100 B (59 %)', '0 B free of 0 B (0 %)'])
})

// Durations in words.

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
