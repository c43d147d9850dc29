// Text of others, made safe to read.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { visible, visibleCell } from '../../src/core/text.ts'

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
