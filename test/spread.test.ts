// The costs by which test files are spread over processes: of files that exist, and every file is run once.

import assert from 'node:assert/strict'
import { existsSync, globSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import costs from './costs.json' with { type: 'json' }
import { spread } from './support/spread.ts'

const ROOT = join(import.meta.dirname, '..')

test('a cost is on record for files that are there', () => {
  const gone = Object.keys(costs).filter((file) => !existsSync(join(ROOT, file)))
  assert.deepEqual(gone, [])
})

test('every file is in one process, and no process has much more to do than another', () => {
  const files = globSync('test/**/*.process.test.ts', { cwd: ROOT }).sort()
  const batches = spread(files, 4)
  assert.deepEqual(batches.flat().sort(), files)
  const known: Record<string, number> = costs
  const sums = batches.map((batch) => batch.reduce((sum, file) => sum + (known[file] ?? 1), 0))
  assert.ok(Math.max(...sums) - Math.min(...sums) < 5, sums.join(', '))
  assert.deepEqual(spread(['b', 'a'], 3), [['b'], ['a']])
})
