// What `npm run simulate` takes, and what it refuses.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionsOf } from './options.ts'

test('a minute of everything by default', () => {
  assert.deepEqual(optionsOf([], {}), {
    minutes: 1,
    crashes: null,
    shrinks: true,
    seed: null,
    steps: null,
  })
})

test('one seed is lived without crashes, unless they are asked for', () => {
  assert.equal(optionsOf([], { SEED: '7' }).crashes, false)
  const { seed, steps, crashes } = optionsOf(['--crashes'], { SEED: '7', STEPS: '20' })
  assert.deepEqual({ seed, steps, crashes }, { seed: 7, steps: 20, crashes: true })
})

test('what cannot be meant is refused', () => {
  for (const args of [['--minutes', '0'], ['--minutes', 'x'], ['--store', 'mysql'], ['--sed', '1'], ['5']]) {
    assert.throws(() => optionsOf(args, {}), Error, args.join(' '))
  }
  assert.throws(() => optionsOf([], { SEED: '1e9' }), /SEED is a whole number/)
  assert.throws(() => optionsOf([], { STEPS: '-1' }), /STEPS is a whole number/)
})
