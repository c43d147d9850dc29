// The bench itself: its options, how a row is measured, its arithmetic, and the ratios on record.

import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import type { Backend } from './backend.ts'
import { broken, type Limits, measureRow, optionsOf, readLimits, recorded, writeLimits } from './bench.ts'
import {
  type Contestant,
  type Figures,
  hasFailed,
  inSeries,
  median,
  percentile,
  type Result,
  type Row,
  type Scale,
  spreadOf,
} from './row.ts'

const NAMES = { file: ['me', 'pass', 'day'], postgres: ['me', 'pass'] }
const ALL = { store: 'file', quick: false, only: null, rounds: 5, json: null, check: null, record: null }

test('everything by default, and fewer rounds when it has to be quick', () => {
  assert.deepEqual(optionsOf([], NAMES), ALL)
  assert.deepEqual(optionsOf(['--quick'], NAMES), { ...ALL, quick: true, rounds: 3 })
  assert.equal(optionsOf(['--quick', '--rounds', '7'], NAMES).rounds, 7)
})

test('one row or several', () => {
  assert.deepEqual(optionsOf(['--only', 'me'], NAMES).only, ['me'])
  assert.deepEqual(optionsOf(['--only', 'me', 'pass'], NAMES).only, ['me', 'pass'])
  assert.deepEqual(optionsOf(['--only', 'me', '--only', 'pass'], NAMES).only, ['me', 'pass'])
})

test('a file or a server, each with its own rows', () => {
  assert.equal(optionsOf(['--store', 'postgres'], NAMES).store, 'postgres')
  assert.deepEqual(optionsOf(['--only', 'day'], NAMES).only, ['day'])
  const missing = ['--store', 'postgres', '--only', 'me', 'day']
  assert.throws(() => optionsOf(missing, NAMES), /no row 'day' on postgres: its rows are me, pass/)
})

test('files to write and to be held against', () => {
  const files = ['--json', 'a.json', '--check', 'b.json', '--record', 'c.json']
  assert.deepEqual(optionsOf(files, NAMES), { ...ALL, json: 'a.json', check: 'b.json', record: 'c.json' })
})

test('what cannot be meant is refused', () => {
  const refused = '--only nothing|--only|--store|--store redis|--rounds 0|--rounds x|--json|--check|--fast|me'
  for (const line of refused.split('|')) assert.throws(() => optionsOf(line.split(' '), NAMES), Error, line)
  assert.throws(() => optionsOf(['--json', ''], NAMES), /name of a file/)
})

// How a row is measured: turns, medians, ratios within a round, goals.

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

// The ratios on record: what breaks them, and what a run writes.

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

// The arithmetic of the bench.

test('the median and the percentiles of values in any order', () => {
  assert.equal(median([3, 1, 2]), 2)
  assert.equal(median([4, 1, 3, 2]), 3)
  const hundred = Array.from({ length: 100 }, (_, i) => 100 - i)
  assert.deepEqual(
    [0, 0.5, 0.99, 1].map((share) => percentile(hundred, share)),
    [1, 51, 100, 100],
  )
  assert.equal(percentile([], 0.5), Number.NaN)
})

test('values are left in their order', () => {
  const values = [3, 1, 2]
  median(values)
  assert.deepEqual(values, [3, 1, 2])
})

test('a spread is of rounds that all have the figure', () => {
  assert.deepEqual(spreadOf([5, 1, 3]), { median: 3, least: 1, most: 5 })
  assert.deepEqual(spreadOf([7]), { median: 7, least: 7, most: 7 })
  assert.equal(spreadOf([]), null)
  assert.equal(spreadOf([1, Number.NaN]), null)
  assert.equal(spreadOf([1, Number.POSITIVE_INFINITY]), null)
})

test('rates in series are lower than the lowest of them', () => {
  assert.equal(inSeries(40, 40), 20)
  assert.equal(Math.round(inSeries(40_000, 97_000)), 28_321)
  assert.equal(inSeries(5), 5)
})
