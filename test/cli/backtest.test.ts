// The backtest on paper and in a shell: its chart, which is well-formed, self-contained and agrees with the result, and
// its command.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { drawBacktest, medianWindow } from '../../src/cli/trial/chart.ts'
import { price } from '../../src/core/money.ts'
import { FREQUENCIES, type Frequency } from '../../src/core/window.ts'
import { backtest, type History } from '../../src/engine/backtest.ts'
import { type BacktestResult, resultOf, savingsOf } from '../../src/engine/backtest-savings.ts'
import { machineAt } from '../../src/machine.ts'
import { csv, walk } from '../price/histories.ts'
import { temporaryFolder } from '../support/database.ts'
import { historyOf } from '../support/samples.ts'
import { type Outcome, runHere, T0 } from '../support/service.ts'

const FREE = { fee_bps: 0, spread_bps: 0 }

const near = (actual: number, expected: number, within = 1e-9): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected}`)

/** Synthetic: forty days of hourly prices. */
const POINTS = walk(40 * 24, { seed: 6, everyMs: 3_600_000 })
const HISTORY = historyOf(POINTS)

const runsOf = (history: History, frequencies: readonly Frequency[] = FREQUENCIES, file = 'prices.csv') =>
  frequencies.map((frequency) => {
    const windows = backtest(history, frequency)
    return { windows, result: resultOf(windows, { file, history, costs: FREE }) }
  })

const textsOf = (xml: string): string[] =>
  [...xml.matchAll(/>([^<>]+)</g)].map(([, text = '']) => text).filter((text) => text.trim() !== '')

const drawings: [string, string][] = [
  ['three frequencies', drawBacktest(runsOf(HISTORY), HISTORY)],
  ['one frequency', drawBacktest(runsOf(HISTORY, ['weekly']), HISTORY)],
  ['a flat market', drawn(Array(40 * 24).fill('60000'))],
  ['a price of cents', drawn(Array.from({ length: 40 * 24 }, (_, i) => `0.0${(i % 7) + 1}`))],
  ['a crash', drawn(Array.from({ length: 40 * 24 }, (_, i) => (i < 700 ? '60000' : '600')))],
  ['one window', drawn(Array(15 * 24 + 1).fill('100'), ['daily'])],
]

function drawn(prices: string[], frequencies: readonly Frequency[] = FREQUENCIES): string {
  const points = walk(prices.length, { everyMs: 3_600_000 })
  const history = historyOf(points.map(({ at }, i) => ({ at, price: price(prices[i] ?? '1') })))
  return drawBacktest(runsOf(history, frequencies), history)
}

describe('the drawing of', () => {
  for (const [name, svg] of drawings) {
    test(name, () => {
      const texts = textsOf(svg)
      assert.match(svg, /^<svg role="img" [^>]*width="960" [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/)
      assert.doesNotMatch(svg, /NaN|Infinity|undefined|null/)
      // The chart fetches nothing and runs nothing.
      assert.doesNotMatch(svg, /href|url\(|<script|<image|<style|@import| on[a-z]+="|zr\d/)
      for (const said of [
        /overlapping windows of (24 hours|7 days|14 days), one begun every 60 minutes/,
        /A win rate says nothing without the mean and the worst cases/,
      ])
        assert.ok(texts.some((one) => said.test(one)))
    })
  }
})

test('the chart shows the figures of the result: mean, tails, and how many lie outside the drawing', () => {
  const runs = runsOf(HISTORY, ['daily'])
  const texts = textsOf(drawBacktest(runs, HISTORY)).join('\n')
  const result = runs[0]?.result
  assert.ok(result)
  const shown = (value: number, places: number): string =>
    `${value > 0 ? '+' : '\u2212'}${Math.abs(value).toFixed(places)}`
  for (const { mean_bp, worst_bp } of [result, ...Object.values(result.baselines)].slice(0, 3)) {
    assert.ok(texts.includes(shown(mean_bp, 2)), `mean ${mean_bp}`)
    assert.ok(texts.includes(shown(worst_bp, 0)), `worst ${worst_bp}`)
  }
  assert.ok(texts.includes(`5th percentile ${shown(result.p5_bp, 1)} bp`))
  assert.match(texts, /outside: \d+ down to \u2212[\d.]+ bp, \d+ up to \+[\d.]+ bp/)
  assert.match(texts, /slot start, \d+: a slot began/)
})

test('the example is the window with the median saving, the first of several', () => {
  const [run] = runsOf(HISTORY, ['daily'])
  assert.ok(run)
  const savings = savingsOf(run.windows, run.windows.cost, FREE)
  assert.equal(savings[medianWindow(savings)], run.result.median_bp)
  assert.equal(medianWindow(Float64Array.of(3, 2, 2, 1)), 1)
})

test('a file name is written as text, without its folders, whatever is in it', () => {
  const file = '/home/ops/<b>"a" & \'b\' \u0001.csv'
  const svg = drawBacktest(runsOf(HISTORY, ['daily'], file), HISTORY)
  assert.ok(textsOf(svg).some((one) => one.startsWith('&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39; \uFFFD.csv')))
  assert.doesNotMatch(svg, /home/)
})

// `tranche backtest FILE` as its users meet it: the table, the JSON, the chart, and files that are not price histories.

type Asked = { folder: string; file: string; backtest: (...args: string[]) => Promise<Outcome> }

function asked(t: TestContext, content = csv(POINTS)): Asked {
  const folder = temporaryFolder(t)
  const file = join(folder, 'prices.csv')
  writeFileSync(file, content)
  const { machine } = machineAt(T0)
  return { folder, file, backtest: (...args) => runHere(['backtest', file, ...args], { machine }) }
}

describe('--json', () => {
  test('--tranches cuts windows into as many', async (t) => {
    const { backtest } = asked(t)
    const mean = async (...args: string[]): Promise<number> =>
      JSON.parse((await backtest('--frequency', 'daily', '--json', ...args)).out).mean_bp
    const policy = await mean()
    assert.equal(await mean('--tranches', '6'), policy)
    assert.notEqual(await mean('--tranches', '3'), policy)
    // A single tranche fires at the first price: it equals the lump sum.
    const { baselines } = JSON.parse((await backtest('--frequency', 'daily', '--json')).out)
    assert.ok(Math.abs((await mean('--tranches', '1')) - baselines.lump.mean_bp) < 40)
  })
})

test('--since and --until choose the windows, --fee-bps and --spread-bps what a purchase costs', async (t) => {
  const { backtest } = asked(t)
  const daily = async (...args: string[]) =>
    JSON.parse((await backtest('--frequency', 'daily', '--json', ...args)).out) as BacktestResult
  const part = await daily('--since', '2026-01-25', '--until', '2026-02-01')
  const { first_start, last_end, windows } = part
  const ends = ['2026-01-25T00:00:00.000Z', '2026-02-01T00:00:00.000Z']
  assert.deepEqual([first_start, last_end, windows], [...ends, 6 * 24 + 1])
  const [free, costly] = [await daily(), await daily('--fee-bps', '12.5', '--spread-bps', '3')]
  assert.deepEqual([free.fee_bps, free.spread_bps, costly.fee_bps, costly.spread_bps], [0, 0, 12.5, 3])
  near(costly.mean_bp, 1e4 * (1 - 1.00125 * 1.00015 * (1 - free.mean_bp / 1e4)), 1e-6)

  const wrong = await backtest('--since', '2026-02-01', '--until', '2026-02-01')
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /--until is not after --since/)
  const none = await backtest('--since', '2026-02-13', '--frequency', 'weekly')
  assert.equal(none.code, 1)
  assert.match(none.err, /since 2026-02-13 is too short for weekly windows/)
})

test('files that cannot be played', async (t) => {
  for (const [content, why] of [
    [`${csv(POINTS)}2026-03-01T00:00:00Z,many\n`, /line 962: its price is "many"/],
    [csv(POINTS.slice(0, 15 * 24)), /too short for daily windows/],
  ] as const) {
    const { code, out, err } = await asked(t, content).backtest('--json')
    const { error } = JSON.parse(err)
    assert.deepEqual([code, out, error.code], [1, '', 'bad_file'])
    assert.match(error.message, why)
  }
})

test('--chart writes over a chart that is there, and the same bytes for the same prices', async (t) => {
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
