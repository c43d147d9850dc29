// How a row is measured: turns, medians, ratios within a round, goals.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import type { Backend } from './backend.ts'
import { measureRow } from './measure.ts'
import { type Contestant, type Figures, hasFailed, type Result, type Row, type Scale } from './row.ts'

const SCALE: Scale = { on: {} as Backend, quick: true, rounds: 3, pick: ({ quick }) => quick }

const ROW: Row = {
  name: 'row',
  what: 'a row',
  main: 'per_second',
  ratios: [
    {
      name: 'rate',
      better: 'more',
      isSteady: true,
      of: (seen) => seen('ours', 'per_second') / seen('floor', 'per_second'),
    },
  ],
  goals: [],
  prepare: async () => ({ on: 'nothing', contestants: [] }),
}

/** A contestant whose rounds give these figures, and which says when it has a turn. */
const contestant = (name: string, rounds: Figures[], said: string[] = []): Contestant => ({
  name,
  role: name === 'ours' ? 'ours' : 'floor',
  take: async (round) => {
    said.push(`${name} ${round}`)
    return rounds[round] ?? {}
  },
})

const rates = (...each: number[]): Figures[] => each.map((per_second) => ({ per_second }))

async function measure(row: Partial<Row>, contestants: Contestant[] = []): Promise<Result> {
  const prepare = async () => ({ on: 'nothing', contestants })
  const outcome = await measureRow({ ...ROW, prepare, ...row }, SCALE)
  assert.ok(!hasFailed(outcome), JSON.stringify(outcome))
  return outcome
}

test('the contestants take turns', async () => {
  const said: string[] = []
  await measure({}, [contestant('ours', rates(1, 2, 3), said), contestant('floor', rates(1, 2, 3), said)])
  assert.deepEqual(said, ['ours 0', 'floor 0', 'ours 1', 'floor 1', 'ours 2', 'floor 2'])
})

test('a figure is the median of its rounds, and a ratio that of the ratios within them', async () => {
  // A machine that is twice as slow in one round moves both sides, and the ratio not at all.
  const { contestants, ratios } = await measure({}, [
    contestant('ours', rates(50, 25, 60)),
    contestant('floor', rates(100, 50, 100)),
  ])
  assert.deepEqual(contestants[0], {
    name: 'ours',
    role: 'ours',
    figures: { per_second: { median: 50, least: 25, most: 60 } },
  })
  assert.deepEqual(ratios, {
    rate: { better: 'more', isSteady: true, spread: { median: 0.5, least: 0.5, most: 0.6 } },
  })
})

test('a figure that a round lacks is left out, and so are the ratios and goals that need it', async () => {
  const { contestants, ratios, goals } = await measure(
    {
      goals: [
        { ratio: 'rate', atLeast: 0.6 },
        { figure: 'p99_ms', atMost: 25 },
      ],
    },
    [contestant('ours', rates(1, 2, 3)), contestant('floor', rates(1, 2))],
  )
  assert.deepEqual(contestants[1]?.figures, {})
  assert.equal(ratios.rate?.spread, null)
  assert.deepEqual(goals, [
    { words: 'rate at least 0.6', unit: null, value: null, isMet: null },
    { words: 'at most 25 ms p99', unit: 'p99_ms', value: null, isMet: null },
  ])
})

test('a goal is met at its very bound', async () => {
  const goals: Row['goals'] = [
    { ratio: 'rate', atLeast: 0.5 },
    { ratio: 'rate', atLeast: 0.51 },
    { figure: 'per_second', atLeast: 15_000 },
    { figure: 'per_second', of: 'floor', atMost: 100 },
  ]
  const of = [contestant('ours', rates(50, 50, 50)), contestant('floor', rates(100, 100, 100))]
  assert.deepEqual((await measure({ goals }, of)).goals, [
    { words: 'rate at least 0.5', unit: null, value: 0.5, isMet: true },
    { words: 'rate at least 0.51', unit: null, value: 0.5, isMet: false },
    { words: 'at least 15,000/s', unit: 'per_second', value: 50, isMet: false },
    { words: 'floor: at most 100/s', unit: 'per_second', value: 100, isMet: true },
  ])
})

test('a row of long turns has fewer of them', async () => {
  const said: string[] = []
  const { rounds } = await measure({ roundsMax: 1 }, [contestant('ours', rates(1), said)])
  assert.equal(rounds, 1)
  assert.deepEqual(said, ['ours 0'])
})

test('what a row has made is gone afterwards, also when it could not be measured', async () => {
  const ended: string[] = []
  let folder = ''
  const outcome = await measureRow(
    {
      ...ROW,
      prepare: async (stage) => {
        folder = stage.folder
        stage.after(() => ended.push('first'))
        stage.after(() => ended.push('second'))
        throw new Error('no disk')
      },
    },
    SCALE,
  )
  assert.deepEqual(outcome, { name: 'row', what: 'a row', failed: 'no disk' })
  assert.deepEqual(ended, ['second', 'first'])
  assert.ok(folder !== '' && !existsSync(folder))
})
