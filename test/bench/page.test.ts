// The figures of a report in words: on the page, in the terminal's table, in the chart.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { capacityOf, capacityOfServer, drawGrowth, withFigures } from './page.ts'
import { type Report, tableOf } from './report.ts'
import type { Result } from './row.ts'

const ROW: Result = {
  name: 'growth',
  what: 'a tick',
  main: 'per_second',
  on: '10,000 and 1,000,000 plans',
  rounds: 3,
  seconds: 1,
  contestants: [
    {
      name: 'ours, 10,000 plans',
      role: 'ours',
      figures: {
        per_second: { median: 25_301.4, least: 24_000, most: 26_000 },
        cpu_us: { median: 41.24, least: 40, most: 42 },
        errors: { median: 0, least: 0, most: 0 },
      },
    },
    {
      name: 'ours, 1,000,000 plans',
      role: 'ours',
      figures: {
        per_second: { median: 24_000, least: 24_000, most: 24_000 },
        cpu_us: { median: 44, least: 43, most: 45 },
      },
    },
    {
      name: 'raw',
      role: 'floor',
      figures: { per_second: { median: 60_000, least: 59_000, most: 61_000 } },
    },
  ],
  ratios: {
    'rate to raw': { better: 'more', isSteady: false, spread: { median: 0.4217, least: 0.4, most: 0.44 } },
    'rate to b|c': { better: 'more', isSteady: false, spread: null },
  },
  goals: [
    { words: 'at least 60,000/s', unit: 'per_second', value: 25_301.4, isMet: false },
    { words: 'rate to raw at least 0.4', unit: null, value: 0.4217, isMet: true },
    { words: 'at most 0 errors', unit: 'errors', value: 0, isMet: true },
  ],
  notes: ['A note.'],
}

const REPORT: Report = {
  at: '2026-01-05T00:00:00.000Z',
  commit: 'abc1234',
  quick: true,
  machine: {
    cores: 2,
    processor: 'A CPU',
    memoryGib: 24,
    node: '26.10.0',
    sqlite: '3.54.1',
    system: 'linux x64',
  },
  rows: [ROW, { name: 'me', what: 'GET /me', failed: 'no port' }],
}

const SERVER = { ...REPORT.machine, postgres: '15.18' }
const REPORTS = { file: REPORT, postgres: { ...REPORT, machine: SERVER } }

const PAGE = [
  'before\n<!-- bench: figures -->\nold\n<!-- end -->\n',
  'between\n<!-- bench: capacity -->\n<!-- end -->\n',
  '<!-- bench: postgres figures -->\n<!-- end -->\n<!-- bench: postgres capacity -->\n<!-- end -->\nafter\n',
].join('')

test('the page gets the figures between its marks, and the same ones again change nothing', () => {
  const written = withFigures(PAGE, REPORTS)
  assert.ok(written.startsWith('before\n<!-- bench: figures -->\n\nMeasured 2026-01-05 at commit `abc1234`'))
  assert.match(written, /no port\n\n<!-- end -->\nbetween\n<!-- bench: capacity -->\n/)
  assert.match(
    written,
    /with `npm run bench -- --store postgres --quick`: .*\n.*, SQLite 3.54.1, PostgreSQL 15.18\.\n/,
  )
  assert.ok(written.endsWith('\n\n<!-- end -->\nafter\n'))
  assert.equal(withFigures(written, REPORTS), written)
  assert.throws(() => withFigures('no marks', REPORTS), /has no/)
})

test('the page has each goal on a line, and then each row by itself', () => {
  const written = withFigures(PAGE, REPORTS).split('<!-- end -->')[0] ?? ''
  assert.deepEqual(written.split('\n').slice(6, -1), [
    '| row | goal | measured |  |',
    '|---|---|---|---|',
    '| `growth` | at least 60,000/s | 25,301/s | MISSED |',
    '| `growth` | rate to raw at least 0.4 | 0.42 | met |',
    '| `me` |  |  | not measured |',
    '',
    '**`growth`**: a tick, on 10,000 and 1,000,000 plans; 3 rounds.',
    '',
    '|  | /s | µs CPU |',
    '|---|---|---|',
    '| ours, 10,000 plans | 25,301 (24,000 to 26,000) | 41.2 |',
    '| ours, 1,000,000 plans | 24,000 | 44.0 |',
    '| raw | 60,000 (59,000 to 61,000) |  |',
    '',
    '- rate to raw: 0.42 (0.40 to 0.44)',
    '- rate to b|c: not measured',
    '- A note.',
    '',
    '**`me`**: GET /me. Not measured: no port',
    '',
  ])
})

test('the table of the terminal has a line for each contestant', () => {
  const table = tableOf(REPORT.rows)
  for (const words of [
    'ours, 10,000 plans',
    'raw',
    '25,301/s (24,000 to 26,000)',
    'MISSED',
    'NOT MEASURED: no port',
  ])
    assert.ok(table.includes(words), words)
})

test('the chart has a panel for each figure of two sizes, and the same bytes each time', () => {
  const svg = drawGrowth(ROW)
  assert.equal(svg, drawGrowth(ROW))
  assert.match(svg, /^<svg /)
  assert.match(svg, /processor time of a tranche \(µs\)/)
  assert.match(svg, />1,000,000</)
  // No such figure was measured.
  assert.doesNotMatch(svg, /the file/)
})

test('rates and sizes are said as what one file carries', () => {
  const named = (name: string): Result => ({ ...ROW, name })
  const growth: Result = {
    ...ROW,
    contestants: [
      ['ours, 10,000 plans', 3],
      ['ours, 1,010,000 plans', 303],
    ].map(([name, mib]) => {
      const file_mib = { median: Number(mib), least: Number(mib), most: Number(mib) }
      return { name: String(name), role: 'ours', figures: { file_mib } }
    }),
  }
  const said = capacityOf({ rows: [named('confirm'), named('pass'), growth] })
  assert.equal(said.length, 3)
  assert.match(said[0] ?? '', /about 25,000 instructions a second: the first tranches of 91,000,000 plans/)
  assert.match(said[0] ?? '', /all 6 tranches a day of 360,000,000 daily plans/)
  assert.match(said[1] ?? '', /more than 1,500,000 plans fire at once/)
  assert.match(said[2] ?? '', /about 310 bytes of the file, indexes included: a million of them 0.29 GiB/)
  assert.deepEqual(capacityOf({ rows: [{ name: 'confirm', what: '', failed: 'no port' }] }), [])
})

test('what a server does is said in ratios to a file, rates, log and disk', () => {
  const spread = (median: number) => ({ median, least: median, most: median })
  const ratios = { 'rate to a file': { better: 'more', isSteady: false, spread: spread(0.512) } } as const
  const confirm: Result = { ...ROW, name: 'confirm', ratios }
  const pass: Result = {
    ...ROW,
    name: 'pass',
    ratios,
    contestants: [{ name: 'ours', role: 'ours', figures: { wal_bytes: spread(1_640) } }],
  }
  const said = capacityOfServer({ rows: [confirm, pass, { ...ROW, name: 'pass-together' }] })
  assert.equal(said.length, 4)
  assert.match(said[0] ?? '', /`confirm` 0.51, `pass` 0.51/)
  assert.match(said[1] ?? '', /about 25,000 a second/)
  assert.match(said[2] ?? '', /about 25,000 tranches a second, where one alone fires 24,000/)
  assert.match(said[3] ?? '', /about 1,600 bytes of the log/)
  assert.deepEqual(capacityOfServer({ rows: [] }), [])
})
