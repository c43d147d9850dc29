// The list of plans that a pass looks at.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eachOnce } from '../../src/store/sqlite/pass/plan-ids.ts'

const list = (...ids: number[]): Float64Array => Float64Array.from(ids)

test('plans of several lists are listed once, in order', () => {
  assert.deepEqual(eachOnce([]), list())
  assert.deepEqual(eachOnce([list(), list()]), list())
  assert.deepEqual(
    eachOnce([list(10, 9, 100), list(), list(2, 100, 2 ** 52), list(9)]),
    list(2, 9, 10, 100, 2 ** 52),
  )
})

test('more plans than a Set can hold are due at once', () => {
  const ids = new Float64Array(2 ** 24 + 2)
  for (let i = 0; i < ids.length; i++) ids[i] = ids.length - i
  const all = eachOnce([ids, ids.subarray(0, 1)])
  assert.deepEqual([all.length, all[0], all.at(-1)], [ids.length, 1, ids.length])
})
