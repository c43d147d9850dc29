// Places at a server: a tenant has its share, and the others always find one.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { createPlaces, type Whose } from '../../src/store/postgres/server/pool.ts'

const refusal = () => new Error('none was free')

/** Asks for so many at once; answers who was let in, in order, and how they leave. */
function crowd(max: number, stillMaxMs = 60_000) {
  const places = createPlaces({ max, stillMaxMs, refusal })
  const inside: { who: Whose; leave: () => void }[] = []
  const ask = async (who: Whose, times: number) => {
    const asked = Array.from({ length: times }, () =>
      places.take(who).then((leave) => void inside.push({ who, leave })),
    )
    for (const one of asked) one.catch(() => {})
    await setImmediate()
    return asked
  }
  const held = (who: Whose) => inside.filter((one) => one.who === who).length
  return { ask, inside, held }
}

test('a tenant in a crowd leaves places to the others, and they to those after them', async () => {
  const { ask, held } = crowd(10)
  for (const tenant of [1, 2, 3, 4]) await ask(tenant, 50)
  assert.deepEqual([1, 2, 3, 4].map(held), [4, 2, 1, 1])
  await ask(5, 1)
  assert.equal(held(5), 0)
  // What no call waits for comes in all the same, and keeps nobody's key from being looked up.
  await ask('none', 20)
  await ask('unknown', 2)
  assert.deepEqual([held('none'), held('unknown')], [1, 1])
})

test('who leaves lets the others in, in turns', async () => {
  const { ask, inside } = crowd(2)
  await ask(1, 4)
  await ask(2, 3)
  assert.deepEqual(
    inside.map(({ who }) => who),
    [1],
  )
  for (let left = 0; left < 7; left++) {
    inside[left]?.leave()
    inside[left]?.leave()
    await setImmediate()
    assert.equal(inside.length, Math.min(7, left + 2))
  }
  assert.deepEqual(
    inside.map(({ who }) => who),
    [1, 1, 2, 1, 2, 1, 2],
  )
})

test('one connection is enough for everybody', async () => {
  const { ask, inside } = crowd(1)
  await ask(1, 1)
  await ask('none', 1)
  inside[0]?.leave()
  await setImmediate()
  assert.deepEqual(
    inside.map(({ who }) => who),
    [1, 'none'],
  )
})

test('who waits in a line that stands still is refused, and takes no place any more', async () => {
  const { ask, inside } = crowd(1, 20)
  await ask(1, 1)
  const [late] = await ask(2, 1)
  await assert.rejects(late ?? Promise.resolve(), /none was free/)
  inside[0]?.leave()
  await ask(3, 1)
  assert.deepEqual(
    inside.map(({ who }) => who),
    [1, 3],
  )
})
