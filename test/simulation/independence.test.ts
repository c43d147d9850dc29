// The model is a second witness only as long as it shares nothing with the program.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'

const ROOM = 'test/simulation'

/** The files that a file leads to, and the imports that lead out of the simulation. */
function follow(file: string, seen: Set<string>, outside: string[]): void {
  if (seen.has(file)) return
  seen.add(file)
  for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/from '([^']+)'/g)) {
    const to = path.startsWith('.') ? normalize(join(dirname(file), path)) : path
    if (to.startsWith(ROOM)) follow(to, seen, outside)
    else outside.push(`${file}: ${path}`)
  }
}

test('the model leads to no file of the program and to no package', () => {
  const seen = new Set<string>()
  const outside: string[] = []
  for (const file of globSync(`${ROOM}/model/*.ts`)) follow(file, seen, outside)
  assert.ok(seen.size > 8, [...seen].join(' '))
  assert.deepEqual(outside, [])
})
