// The scripts of the executable: what they weigh in the memory of a process that has loaded them.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { script } from '../../bin/script.ts'
import { temporaryFolder } from '../support/database.ts'

const SOURCE = String.raw`
// A remark – at the top.
export const isWord = (text) =>
  /* one in the middle of an expression ± */
  /^[\wäöü\u{1F600}😀]+$/u.test(text)
export const greeting = 'grüß dich 😀'
export function namedFunction() {
  throw new Error('thrown')
}
`

test('a script is ASCII without remarks, and does the same', async (t) => {
  const file = join(temporaryFolder(t), 'script.cjs')
  await script(SOURCE, file, [])
  const text = readFileSync(file, 'utf8')
  assert.doesNotMatch(text, /[^\0-\x7F]/)
  assert.doesNotMatch(text, /remark|in the middle/)
  const { isWord, greeting, namedFunction } = await import(file)
  assert.equal(greeting, 'grüß dich 😀')
  assert.deepEqual(['löwe😀', 'x–y'].map(isWord), [true, false])
  assert.throws(namedFunction, (error: Error) => error.stack?.includes('namedFunction') === true)
})
