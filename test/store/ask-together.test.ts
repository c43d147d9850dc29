// Questions that are answered together.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { askTogether } from '../../src/store/writes.ts'

test('the questions of one turn are answered by one look, each with its own answer', async () => {
  const looks: string[][] = []
  const ask = askTogether(async (questions: readonly string[]) => {
    looks.push([...questions])
    return questions.map((question) => question.toUpperCase())
  })
  assert.deepEqual(await Promise.all(['a', 'b', 'c'].map(ask)), ['A', 'B', 'C'])
  assert.equal(await ask('d'), 'D')
  assert.deepEqual(looks, [['a', 'b', 'c'], ['d']])
})

test('a question is never answered by a look that began before it was asked', async () => {
  let truth = 'old'
  const looking = Promise.withResolvers<void>()
  const ask = askTogether(async (questions: readonly string[]) => {
    const seen = truth
    await looking.promise
    return questions.map(() => seen)
  })
  const before = ask('x')
  await nextTurn()
  await nextTurn()
  truth = 'new'
  const after = ask('x')
  looking.resolve()
  assert.deepEqual(await Promise.all([before, after]), ['old', 'new'])
})

test('a look that fails fails those who asked, and nobody after them', async () => {
  let fails = true
  const ask = askTogether(async (questions: readonly number[]) => {
    if (fails) throw new Error('no look')
    return questions
  })
  const outcomes = await Promise.allSettled([ask(1), ask(2)])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  fails = false
  assert.equal(await ask(3), 3)
})
