// The queue in which lanes take turns.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLanes } from '../src/lanes.ts'

test('lanes take turns, and within a lane it is first come, first served', () => {
  const lanes = createLanes<{ name: string }>()
  const [crowd, other, seven] = [lanes.open(), lanes.open(), lanes.open()]
  for (let i = 1; i <= 4; i++) crowd({ name: `crowd ${i}` })
  other({ name: 'other 1' })
  seven({ name: 'seven 1' })
  other({ name: 'other 2' })
  assert.equal(lanes.size, 7)
  const taken: (string | undefined)[] = []
  for (let i = 0; i < 4; i++) taken.push(lanes.take()?.name)
  // A lane that comes back joins the end of the line.
  seven({ name: 'seven 2' })
  while (lanes.size > 0) taken.push(lanes.take()?.name)
  assert.deepEqual(taken, [
    'crowd 1',
    'other 1',
    'seven 1',
    'crowd 2',
    'other 2',
    'crowd 3',
    'seven 2',
    'crowd 4',
  ])
  assert.equal(lanes.take(), undefined)
})
