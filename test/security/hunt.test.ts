// The search for secrets, itself put to the test: it notices each form in which one could be left.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { huntFor } from './hunt.ts'

const RANDOM = 'q7Rk2mZx9TbWc4NvL1sYp8DfHj3GaUe6KoXi5BtM'
const SECRET = `sse_live_${RANDOM}C0ffee`
const hunt = huntFor({ key: SECRET })

const FORMS: Record<string, (text: string) => string | Buffer> = {
  'as it is': (text) => text,
  'lower-case hex': (text) => Buffer.from(text).toString('hex'),
  'upper-case hex': (text) => Buffer.from(text).toString('hex').toUpperCase(),
  'UTF-16': (text) => Buffer.from(text, 'utf16le'),
  base64: (text) => Buffer.from(text).toString('base64'),
  'base64 for URLs': (text) => Buffer.from(text).toString('base64url'),
}

for (const [name, form] of Object.entries(FORMS)) {
  test(`a secret is found: ${name}, wherever it is in a text`, () => {
    for (const secret of [SECRET, RANDOM]) {
      for (const before of ['', 'a', 'ab', 'abc', 'Authorization: Bearer '])
        for (const after of ['', 'x', 'xy', '\n'])
          assert.throws(() => hunt.assertClean(form(before + secret + after), 'a log'), /key .*is in a log/)
    }
  })

  test(`what is not a secret is not found: ${name}`, () => {
    hunt.assertClean(form(`sse_live_${RANDOM.toLowerCase()} ${RANDOM.slice(0, 30)}`), 'a log')
  })
}

test('a secret in a file of a folder is found, and a folder without a file is a mistake', (t) => {
  const folder = temporaryFolder(t)
  assert.throws(() => hunt.assertCleanFolder(folder))
  writeFileSync(join(folder, 'clean'), 'nothing')
  hunt.assertCleanFolder(folder)
  writeFileSync(join(folder, 'dirty'), SECRET)
  assert.throws(() => hunt.assertCleanFolder(folder), /key is in .*dirty/)
})

test('what is too short for a secret is refused: it would be found by accident', () => {
  assert.throws(() => huntFor({ token: 'short' }), /token is a secret/)
})
