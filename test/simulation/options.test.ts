// What `npm run simulate` takes, and what it refuses.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionsOf } from './options.ts'

test('a minute of everything by default', () => {
  const everything = { minutes: 1, store: 'sqlite', crashes: null, shrinks: true, seed: null, steps: null }
  assert.deepEqual(optionsOf([]), everything)
  assert.deepEqual(optionsOf(['--no-crashes', '--no-shrink']), {
    ...everything,
    crashes: false,
    shrinks: false,
  })
})

test('one seed is lived without crashes, unless they are asked for', () => {
  assert.equal(optionsOf(['--seed', '7']).crashes, false)
  const { seed, steps, crashes } = optionsOf(['--crashes', '--seed', '7', '--steps', '20'])
  assert.deepEqual({ seed, steps, crashes }, { seed: 7, steps: 20, crashes: true })
})

test('the environment names a seed and a number of steps', (t) => {
  t.after(() => {
    delete process.env.SEED
    delete process.env.STEPS
  })
  Object.assign(process.env, { SEED: '7', STEPS: '20' })
  const { seed, steps } = optionsOf([])
  assert.deepEqual({ seed, steps }, { seed: 7, steps: 20 })
  process.env.SEED = '1e9'
  assert.throws(() => optionsOf([]), /whole number/)
})

test('what cannot be meant is refused', () => {
  const refused = '--minutes 0|--minutes x|--store mysql|--sed 1|5|--seed -1|--seed 1e9|--steps 0|--seed'
  for (const line of refused.split('|')) assert.throws(() => optionsOf(line.split(' ')), Error, line)
})
