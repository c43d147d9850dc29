// The list of plans that a pass looks at.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eachOnce } from '../../src/store/sqlite/pass.ts'

const list = (...ids: number[]): Float64Array => Float64Array.from(ids)

test('plans of several lists are listed once, in order', () => {
  assert.deepEqual(eachOnce([]), list())
  assert.deepEqual(eachOnce([list(), list()]), list())
  assert.deepEqual(
    eachOnce([list(10, 9, 100), list(), list(2, 100, 2 ** 52), list(9)]),
    list(2, 9, 10, 100, 2 ** 52),
  )
})
