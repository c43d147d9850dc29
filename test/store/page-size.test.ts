// The pages of a pass on a file are as long as others can wait for the write lock.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPageSize } from '../../src/store/sqlite/plan-page.ts'

/** The sizes of pages whose plans take so long each. */
function sizesOf(msOf: (at: number) => number, { pages = 12, isShared = false, max = 1_000 } = {}): number[] {
  const size = createPageSize()
  return Array.from({ length: pages }, (_, at) => {
    const plans = size.next(max, isShared)
    size.note({ plans, ms: plans * msOf(at) })
    return plans
  })
}

test('quick plans come in pages of as many as are allowed', () => {
  assert.deepEqual(
    sizesOf(() => 0.01, { pages: 4 }),
    [250, 500, 1_000, 1_000],
  )
  assert.equal(sizesOf(() => 0.01, { max: 300 }).at(-1), 300)
})

test('slow plans come in pages of 15 ms, and of 4 ms where others write', () => {
  assert.equal(sizesOf(() => 0.05).at(-1), 300)
  assert.equal(sizesOf(() => 0.025, { isShared: true }).at(-1), 160)
})

test('the slowest plans still come by the hundred', () => {
  assert.equal(sizesOf(() => 10).at(-1), 100)
})

test('a page that the disk held up makes the next one small, and those after it grow again', () => {
  const sizes = sizesOf((at) => (at === 3 ? 1 : 0.015), { pages: 9 })
  assert.deepEqual(sizes, [250, 500, 1_000, 1_000, 100, 200, 400, 800, 1_000])
})

test('a plan by itself says nothing of pages', () => {
  const size = createPageSize()
  size.note({ plans: 1, ms: 5 })
  assert.equal(size.next(1_000, false), 250)
})
