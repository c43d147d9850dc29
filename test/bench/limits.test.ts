// The ratios on record: what breaks them, and what a run writes.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { broken, type Limits, readLimits, recorded, writeLimits } from './ratios.ts'
import type { Result } from './row.ts'

type Given = { name: string; better: 'more' | 'less'; median: number | null; isSteady?: boolean }

function rowOf(name: string, ...ratios: Given[]): Result {
  const spread = (median: number | null) => (median === null ? null : { median, least: median, most: median })
  return {
    name,
    what: '',
    main: 'ms',
    on: '',
    rounds: 1,
    seconds: 1,
    contestants: [],
    goals: [],
    notes: [],
    ratios: Object.fromEntries(
      ratios.map(({ name, better, median, isSteady = true }) => [
        name,
        { better, isSteady, spread: spread(median) },
      ]),
    ),
  }
}

const LIMITS: Limits = { me: { cpu: { better: 'more', ratio: 0.5 }, size: { better: 'less', ratio: 2 } } }

const of = (cpu: number, size: number): string[] =>
  broken(
    [
      rowOf(
        'me',
        { name: 'cpu', better: 'more', median: cpu },
        { name: 'size', better: 'less', median: size },
      ),
    ],
    LIMITS,
  )

test('a ratio may be up to twice as bad as it was, and as good as it likes', () => {
  assert.deepEqual(of(0.5, 2), [])
  assert.deepEqual(of(0.25, 4), [])
  assert.deepEqual(of(5, 0.1), [])
})

test('one that is more than twice as bad is named, whichever way is better', () => {
  assert.deepEqual(of(0.2, 2), ['me: cpu is 0.200, 2.5 times worse than the 0.5 on record'])
  assert.deepEqual(of(0.5, 5), ['me: size is 5.000, 2.5 times worse than the 2 on record'])
})

test('a ratio on record that was not measured is named; a row that was not asked for is not', () => {
  const row = rowOf('me', { name: 'cpu', better: 'more', median: null })
  assert.deepEqual(broken([row], LIMITS), [
    'me: cpu is on record and was not measured',
    'me: size is on record and was not measured',
  ])
  assert.deepEqual(broken([], LIMITS), [])
  // It could not be measured, which fails the run by itself.
  assert.deepEqual(broken([{ name: 'me', what: '', failed: 'no disk' }], LIMITS), [])
})

test('steady ratios are recorded, and rows that were left out stay as they were', () => {
  const row = rowOf(
    'pass',
    { name: 'cpu', better: 'more', median: 0.41234 },
    { name: 'rate', better: 'more', median: 0.3, isSteady: false },
    { name: 'none', better: 'more', median: null },
  )
  const unsteady = rowOf('queue', { name: 'rate', better: 'more', median: 1, isSteady: false })
  assert.deepEqual(recorded([row, unsteady], LIMITS), {
    ...LIMITS,
    pass: { cpu: { better: 'more', ratio: 0.412 } },
  })
})

test('a file of limits is read as it was written, and refused when it is something else', (t) => {
  const file = join(temporaryFolder(t), 'limits.json')
  writeLimits(file, LIMITS)
  assert.deepEqual(readLimits(file), LIMITS)
  writeFileSync(file, '{"me": {"cpu": {"better": "more", "ratio": -1}}}')
  assert.throws(() => readLimits(file), /ratio/)
})
