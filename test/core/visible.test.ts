// Text of others, made safe to read.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { visible } from '../../src/core/visible.ts'

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

for (const [text, shown] of SHOWN) {
  test(`${JSON.stringify(text)} is shown as ${JSON.stringify(shown)}`, () =>
    assert.equal(visible(text), shown))
}
