// The gate before all calls: turns of the event loop stay short, and no connection's crowd delays another's call.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { CALLS_PER_TURN, createGates } from '../../src/http/turns.ts'

test('a turn begins so many calls and no more, and leaves none behind', async () => {
  const gate = createGates()()
  const begun: number[] = []
  for (let i = 0; i < 3 * CALLS_PER_TURN + 1; i++) gate(() => begun.push(i))
  for (const turns of [1, 2, 3]) {
    assert.equal(begun.length, turns * CALLS_PER_TURN)
    await turn()
  }
  assert.deepEqual(
    begun,
    Array.from({ length: 3 * CALLS_PER_TURN + 1 }, (_, i) => i),
  )
})

test('a call of a quiet connection waits for one call of each busy one, not for all of theirs', async () => {
  const openGate = createGates()
  const busy = [openGate(), openGate(), openGate()]
  const quiet = openGate()
  const begun: string[] = []
  for (let call = 0; call < 100; call++) for (const gate of busy) gate(() => begun.push('busy'))
  quiet(() => begun.push('quiet'))
  await turn()
  assert.ok(begun.slice(CALLS_PER_TURN, CALLS_PER_TURN + 4).includes('quiet'), begun.join())
})

test('what comes while others wait does not overtake them', async () => {
  const gate = createGates()()
  const begun: string[] = []
  for (let i = 0; i < CALLS_PER_TURN; i++) gate(() => {})
  gate(() => {
    begun.push('first')
    gate(() => begun.push('third'))
  })
  gate(() => begun.push('second'))
  await turn()
  await turn()
  assert.deepEqual(begun, ['first', 'second', 'third'])
})
