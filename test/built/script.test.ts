// The sources of the executable: scripts without comments, and packages whose hashes the lock file has.

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

// The lock file: nothing is installed without a known hash, and no package runs a script on installation.

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
type Entry = { integrity?: string; link?: boolean; inBundle?: boolean; version?: string }
/** The second one is for the packages that a heavy test installs. */
const LOCKS = ['package-lock.json', 'fixtures/generators/package-lock.json']

test('every package is locked by version and SHA-512, or comes inside one that is', () => {
  for (const lock of LOCKS) {
    const { packages } = JSON.parse(read(lock)) as { packages: Record<string, Entry> }
    const { '': root, ...installed } = packages
    assert.ok(root)
    assert.ok(Object.keys(installed).length > 100)
    for (const [key, { version, integrity, link, inBundle }] of Object.entries(installed)) {
      assert.match(version ?? '', /^\d+\.\d+\.\d+/, key)
      assert.equal(link, undefined, key)
      if (inBundle) {
        const around = key.slice(0, key.lastIndexOf('/node_modules/'))
        assert.ok(packages[around]?.integrity, `${key} comes inside ${around}`)
      } else assert.match(integrity ?? '', /^sha512-[A-Za-z0-9+/]{86}==$/, key)
    }
  }
})

test('no package runs a script when it is installed, and every install in the build is npm ci', () => {
  assert.match(read('.npmrc'), /^ignore-scripts=true$/m)
  const installs = [...read('.ci/run').matchAll(/\bnpm (?:ci|i|install|add|update)\b/g)].map(String)
  assert.deepEqual([...new Set(installs)], ['npm ci'])
})
