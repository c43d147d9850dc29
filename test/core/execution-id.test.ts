// Execution ids rise strictly, whatever the clock does, and cannot be guessed.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { type ExecutionId, nextExecutionId } from '../../src/core/execution.ts'
import type { Instant } from '../../src/core/time.ts'

const NOW = Date.UTC(2026, 0, 5) as Instant
const SHAPE = /^exec_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/
const ONES = new Uint8Array(10).fill(255)
const ZEROS = new Uint8Array(10)

test('an id is a version 7 UUID of its instant behind a prefix', () => {
  const id = nextExecutionId(null, NOW, randomBytes(10))
  assert.match(id, SHAPE)
  assert.equal(Number.parseInt(id.slice(5, 17), 16), NOW)
})

test('ids rise strictly, as numbers and as text, whatever the clock and the entropy do', () => {
  const step = fc.record({
    ms: fc.oneof(fc.constant(0), fc.integer({ min: -100_000, max: 100_000 })),
    bytes: fc.oneof(fc.constant(ONES), fc.constant(ZEROS), fc.uint8Array({ minLength: 10, maxLength: 16 })),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      let previous = null as ExecutionId | null
      let now: number = NOW
      for (const { ms, bytes } of steps) {
        now += ms
        const id = nextExecutionId(previous, now as Instant, bytes)
        assert.match(id, SHAPE)
        assert.ok(previous === null || id > previous, `${id} after ${previous}`)
        previous = id
      }
    }),
    { numRuns: 300 },
  )
})

test('when the random part of a millisecond is used up, the next id moves on to the next millisecond', () => {
  const last = `exec_${NOW.toString(16).padStart(12, '0')}7fffbfffffffffffffff` as ExecutionId
  assert.match(last, SHAPE)
  for (const now of [NOW, (NOW - 60_000) as Instant]) {
    const id = nextExecutionId(last, now, ONES)
    assert.ok(id > last)
    assert.match(id, SHAPE)
    assert.equal(Number.parseInt(id.slice(5, 17), 16), NOW + 1)
  }
})

test('a thousand ids of one millisecond are a thousand different ids in order', () => {
  let previous = null as ExecutionId | null
  const ids = Array.from({ length: 1_000 }, () => {
    previous = nextExecutionId(previous, NOW, randomBytes(10))
    return previous
  })
  assert.deepEqual([...new Set(ids)].sort(), ids)
})
