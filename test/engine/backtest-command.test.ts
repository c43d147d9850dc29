// `tranche backtest FILE` as its users meet it: the table, the JSON, the chart, and files that are not price histories.

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { FREQUENCIES } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { csv, shuffled, walk } from '../price/histories.ts'
import { temporaryFolder } from '../support/database.ts'
import { type Outcome, runHere, T0 } from '../support/service.ts'

/** Synthetic: forty days of hourly prices. */
const POINTS = walk(40 * 24, { seed: 6, everyMs: 3_600_000 })

type Asked = { folder: string; file: string; backtest: (...args: string[]) => Promise<Outcome> }

function asked(t: TestContext, content = csv(POINTS)): Asked {
  const folder = temporaryFolder(t)
  const file = join(folder, 'prices.csv')
  writeFileSync(file, content)
  const { machine } = machineAt(T0)
  return { folder, file, backtest: (...args) => runHere(['backtest', file, ...args], { machine }) }
}

const SUMMARY = ['mean_bp', 'mean_bp_ci95', 'median_bp', 'win_rate', 'p5_bp', 'worst_bp', 'capture']

describe('--json', () => {
  test('answers one object for one frequency, with every field and nothing but numbers in it', async (t) => {
    const { file, backtest } = asked(t)
    const { code, out, err } = await backtest('--frequency', 'weekly', '--json')
    assert.equal(code, 0, err)
    const report = JSON.parse(out)
    assert.deepEqual(Object.keys(report).sort(), [
      ...[
        'baselines',
        'block_days',
        'blocks',
        'drift_bp',
        'file',
        'frequency',
        'skill_bp',
        'skill_bp_ci95',
        'windows',
        ...SUMMARY,
      ].sort(),
    ])
    assert.deepEqual([report.file, report.frequency], [file, 'weekly'])
    // The 26 days less an hour after the first fourteen hold 19 days of starts: every seven hours, both ends included.
    assert.equal(report.windows, Math.floor(((40 - 14 - 7) * 24 - 1) / 7) + 1)
    assert.deepEqual([report.blocks, report.block_days], [1, 60])
    assert.deepEqual(Object.keys(report.baselines), ['lump', 'clock', 'minimum'])
    for (const summary of [report, ...Object.values<Record<string, unknown>>(report.baselines)]) {
      for (const name of SUMMARY) {
        for (const value of [summary[name]].flat()) assert.ok(Number.isFinite(value), `${name} is ${value}`)
      }
      assert.ok(0 <= summary.win_rate && summary.win_rate <= 1)
      assert.ok(summary.worst_bp <= summary.p5_bp && summary.p5_bp <= summary.median_bp)
      assert.ok(summary.mean_bp_ci95[0] <= summary.mean_bp && summary.mean_bp <= summary.mean_bp_ci95[1])
    }
    assert.ok(report.baselines.minimum.mean_bp > report.mean_bp)
  })

  test('answers the three without one, the same bytes every time and for rows in any order', async (t) => {
    const { file, backtest } = asked(t)
    const first = await backtest('--json')
    const reports = JSON.parse(first.out)
    assert.deepEqual(
      reports.map(({ frequency }: { frequency: string }) => frequency),
      FREQUENCIES,
    )
    assert.deepEqual(JSON.parse((await backtest('--json', '--frequency', 'daily')).out), reports[0])
    writeFileSync(file, csv(shuffled(POINTS, 8)))
    const second = await backtest('--json')
    assert.equal(second.out, first.out)
    assert.equal(second.err, '')
  })

  test('--tranches cuts windows into as many', async (t) => {
    const { backtest } = asked(t)
    const mean = async (...args: string[]): Promise<number> =>
      JSON.parse((await backtest('--frequency', 'daily', '--json', ...args)).out).mean_bp
    const policy = await mean()
    assert.equal(await mean('--tranches', '6'), policy)
    assert.notEqual(await mean('--tranches', '3'), policy)
    // One tranche fires at the first price: that is the lump.
    const { baselines } = JSON.parse((await backtest('--frequency', 'daily', '--json')).out)
    assert.ok(Math.abs((await mean('--tranches', '1')) - baselines.lump.mean_bp) < 40)
    for (const wrong of ['0', '1001', '2.5', 'six'])
      assert.equal((await backtest('--tranches', wrong)).code, 2)
    assert.equal((await backtest('--frequency', 'monthly')).code, 2)
  })
})

test('the table never shows a win rate without the mean, its interval and the worst cases', async (t) => {
  const { backtest } = asked(t)
  const { code, out } = await backtest()
  assert.equal(code, 0)
  const [head = '', ...rows] = out.split('\n')
  assert.match(head, /MEAN BP +95 % +MEDIAN +WINS +P5 +WORST +CAPTURE +DRIFT +SKILL/)
  for (const name of ['daily', 'weekly', 'bi-weekly', '  clock', '  lump at start', '  the minimum']) {
    const row = rows.find((line) => line.startsWith(name)) ?? ''
    assert.match(
      row,
      /[+-][\d.]+ +\[[+-][\d.]+, [+-][\d.]+\] +[+-][\d.]+ +[\d.]+ % +-?[\d.]+ +-?[\d.]+ +-?[\d.]+ %/,
    )
  }
  assert.doesNotMatch(out, /NaN|Infinity|undefined/)
  assert.match(out, /an interval that holds zero is not evidence/)
})

test('a person is told which intervals rest on too little; a script reads numbers only', async (t) => {
  const { backtest } = asked(t)
  const { err } = await backtest('--frequency', 'weekly')
  assert.equal(err, 'Few 60-day blocks (1): do not rely on the intervals of weekly windows.\n')
  assert.equal((await backtest('--frequency', 'weekly', '--json')).err, '')
  const years = walk(12 * 30 * 4, { seed: 3, everyMs: 6 * 3_600_000 })
  assert.equal((await asked(t, csv(years)).backtest('--frequency', 'daily')).err, '')
})

describe('files that cannot be played', () => {
  const cases: [string, string, RegExp][] = [
    ['empty', '', /line 1: expected the header time,price/],
    ['another header', 'a,b\n', /line 1: expected the header/],
    ['a bad row', `${csv(POINTS)}2026-03-01T00:00:00Z,many\n`, /line 962: its price is "many"/],
    ['no rows', 'time,price\n', /too short/],
    ['one row', csv(POINTS.slice(0, 1)), /too short/],
    ['too short', csv(POINTS.slice(0, 15 * 24)), /too short for daily windows/],
  ]
  for (const [name, content, why] of cases) {
    test(name, async (t) => {
      const { code, out, err } = await asked(t, content).backtest('--json')
      assert.equal(code, 1)
      assert.equal(out, '')
      assert.equal(JSON.parse(err).error.code, 'bad_file')
      assert.match(JSON.parse(err).error.message, why)
    })
  }

  test('a file that is not there', async (t) => {
    const { folder } = asked(t)
    const { code, err } = await runHere(['backtest', join(folder, 'no.csv')], {
      machine: machineAt(T0).machine,
    })
    assert.equal(code, 4)
    assert.match(err, /There is no file .*no\.csv/)
  })
})

describe('--chart', () => {
  test('writes over a chart that is there, and the same bytes for the same prices', async (t) => {
    const { folder, backtest } = asked(t)
    const charts = ['a.svg', 'b.svg'].map((name) => join(folder, name))
    writeFileSync(charts[1] ?? '', `<svg>${'x'.repeat(1_000_000)}`)
    for (const chart of charts) {
      const { code, err } = await backtest('--chart', chart)
      assert.equal(code, 0)
      assert.ok(err.startsWith(`The chart is in ${chart}.\n`), err)
    }
    const [first, second] = charts.map((chart) => readFileSync(chart, 'utf8'))
    assert.equal(first, second)
  })

  test('that cannot be written exits 1 and says so; the price file is never written over', async (t) => {
    const { folder, file, backtest } = asked(t)
    mkdirSync(join(folder, 'there'))
    for (const place of [join(folder, 'no', 'chart.svg'), join(folder, 'there'), file]) {
      const { code, out, err } = await backtest('--chart', place, '--json')
      assert.equal(code, 1)
      assert.equal(out, '')
      assert.ok(JSON.parse(err).error.message.startsWith(`Cannot write the chart ${place}: `), err)
    }
    assert.equal(readFileSync(file, 'utf8'), csv(POINTS))
  })
})
