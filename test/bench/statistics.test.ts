// The arithmetic of the bench.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inSeries, median, percentile, spreadOf } from './ratios.ts'

test('the median and the percentiles of values in any order', () => {
  assert.equal(median([3, 1, 2]), 2)
  assert.equal(median([4, 1, 3, 2]), 3)
  const hundred = Array.from({ length: 100 }, (_, i) => 100 - i)
  assert.deepEqual(
    [0, 0.5, 0.99, 1].map((share) => percentile(hundred, share)),
    [1, 51, 100, 100],
  )
  assert.equal(percentile([], 0.5), Number.NaN)
})

test('values are left in their order', () => {
  const values = [3, 1, 2]
  median(values)
  assert.deepEqual(values, [3, 1, 2])
})

test('a spread is of rounds that all have the figure', () => {
  assert.deepEqual(spreadOf([5, 1, 3]), { median: 3, least: 1, most: 5 })
  assert.deepEqual(spreadOf([7]), { median: 7, least: 7, most: 7 })
  assert.equal(spreadOf([]), null)
  assert.equal(spreadOf([1, Number.NaN]), null)
  assert.equal(spreadOf([1, Number.POSITIVE_INFINITY]), null)
})

test('rates in series are lower than the lowest of them', () => {
  assert.equal(inSeries(40, 40), 20)
  assert.equal(Math.round(inSeries(40_000, 97_000)), 28_321)
  assert.equal(inSeries(5), 5)
})
