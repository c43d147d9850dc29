// The simulation itself: its model shares nothing with the program, and a failing trace is cut down.

import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { type Action, shrink } from './action.ts'

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

// A failing trace is cut down to the actions that it takes.

const trace = Array.from({ length: 50 }, (_, by): Action => ({ do: 'clock', by }))
const has = (among: readonly Action[], by: number) => among.some((one) => one.do === 'clock' && one.by === by)
const FAILURE = new Error('plan p1 differs')

test('what is left is what is needed, in its order', async () => {
  const replay = async (candidate: readonly Action[]) =>
    has(candidate, 7) && has(candidate, 31) ? new Error('plan p2 differs\nin another way') : null
  const left = await shrink(trace, FAILURE, { replay, budgetMs: 10_000 })
  assert.deepEqual(left, [
    { do: 'clock', by: 7 },
    { do: 'clock', by: 31 },
  ])
})

test('a trace that fails in another way is not what was found', async () => {
  const replay = async () => new Error('something else')
  assert.equal(await shrink(trace, FAILURE, { replay, budgetMs: 10_000 }), null)
})
