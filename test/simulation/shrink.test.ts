// A failing trace is cut down to the actions that it takes.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Action } from './action.ts'
import { shrink } from './shrink.ts'

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
