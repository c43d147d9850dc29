// The list of plans that a pass considers, with more plans in it than JavaScript's sets hold.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eachOnce } from '../../src/store/sqlite/pass.ts'

test('more plans than a Set can hold are due at once', () => {
  const ids = new Float64Array(2 ** 24 + 2)
  for (let i = 0; i < ids.length; i++) ids[i] = ids.length - i
  const all = eachOnce([ids, ids.subarray(0, 1)])
  assert.deepEqual([all.length, all[0], all.at(-1)], [ids.length, 1, ids.length])
})
