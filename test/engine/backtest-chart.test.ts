// The chart of a backtest: well-formed, self-contained, and the same figures as the report beside it.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { drawBacktest, medianWindow } from '../../src/cli/trial/chart.ts'
import { element, scale, text, ticks } from '../../src/cli/trial/svg.ts'
import { price } from '../../src/core/money.ts'
import { FREQUENCIES, type Frequency } from '../../src/core/time.ts'
import type { History } from '../../src/engine/backtest.ts'
import { backtest, reportOf } from '../../src/engine/backtest.ts'
import { walk } from '../price/histories.ts'
import { historyOf } from '../support/samples.ts'

const HISTORY = historyOf(walk(40 * 24, { seed: 6, everyMs: 3_600_000 }))

const runsOf = (history: History, frequencies: readonly Frequency[] = FREQUENCIES, file = 'prices.csv') =>
  frequencies.map((frequency) => {
    const results = backtest(history, frequency)
    return { results, report: reportOf(results, { file, frequency, history }) }
  })

/** Reads XML as strictly as needed here: tags that nest, quoted attributes, escaped text. Answers the texts. */
function textsOf(xml: string): string[] {
  const open: string[] = []
  const texts: string[] = []
  const token =
    /<(\/?)([a-z]+)((?: [a-zA-Z][a-zA-Z0-9-]*="[^"<>&]*(?:&(?:amp|lt|gt|quot);[^"<>&]*)*")*)(\/?)>|([^<>&]|&(?:amp|lt|gt|quot);)+/y
  let at = 0
  while (at < xml.length) {
    token.lastIndex = at
    const found = token.exec(xml)
    assert.ok(found, `no XML at ${at}: ${xml.slice(at, at + 60)}`)
    at = token.lastIndex
    const [whole, closes, name, , empty] = found
    if (name === undefined) {
      if (open.length > 0) texts.push(whole)
      else assert.equal(whole.trim(), '')
    } else if (closes) assert.equal(open.pop(), name)
    else if (!empty) open.push(name)
  }
  assert.deepEqual(open, [])
  return texts.filter((one) => one.trim() !== '')
}

const drawings: [string, string][] = [
  ['three frequencies', drawBacktest(runsOf(HISTORY), HISTORY)],
  ['one frequency', drawBacktest(runsOf(HISTORY, ['weekly']), HISTORY)],
  ['a flat market', drawn(Array(40 * 24).fill('60000'))],
  ['a price of cents', drawn(Array.from({ length: 40 * 24 }, (_, i) => `0.0${(i % 7) + 1}`))],
  ['a crash', drawn(Array.from({ length: 40 * 24 }, (_, i) => (i < 700 ? '60000' : '600')))],
  [
    'one window',
    drawn(
      Array.from({ length: 15 * 24 + 1 }, (_, i) => String(100 + (i % 5))),
      ['daily'],
    ),
  ],
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
      assert.ok(svg.startsWith('<svg xmlns="http://www.w3.org/2000/svg" width="960"'))
      assert.doesNotMatch(svg, /NaN|Infinity|undefined|null/)
      // Nothing is fetched, nothing runs.
      assert.doesNotMatch(svg, /href|url\(|<script|<image|<style|@import|on[a-z]+="/)
      assert.ok(texts.some((one) => /overlapping windows?, one begun every 7 hours/.test(one)))
      assert.ok(texts.some((one) => /A win rate says nothing without the mean and the worst cases/.test(one)))
    })
  }
})

test('the chart shows the figures of the report: mean, tails, and how many lie outside the drawing', () => {
  const runs = runsOf(HISTORY, ['daily'])
  const texts = textsOf(drawBacktest(runs, HISTORY)).join('\n')
  const report = runs[0]?.report
  assert.ok(report)
  const shown = (value: number, places: number): string =>
    `${value > 0 ? '+' : '\u2212'}${Math.abs(value).toFixed(places)}`
  for (const { mean_bp, worst_bp } of [report, ...Object.values(report.baselines)].slice(0, 3)) {
    assert.ok(texts.includes(shown(mean_bp, 2)), `mean ${mean_bp}`)
    assert.ok(texts.includes(shown(worst_bp, 0)), `worst ${worst_bp}`)
  }
  assert.ok(texts.includes(`5th percentile\n${shown(report.p5_bp, 1)} bp`))
  assert.match(texts, /\d+ windows? outside\nworst \u2212\d+ bp/)
  assert.match(texts, /slot start \d+/)
})

test('the example is the window with the median saving, the first of several', () => {
  const [run] = runsOf(HISTORY, ['daily'])
  assert.ok(run)
  const chosen = medianWindow(run.results)
  const bp = 1e4 * (1 - chosen.cost / chosen.twap)
  assert.equal(bp, run.report.median_bp)
  assert.equal(medianWindow([chosen, { ...chosen }]), chosen)
})

test('a file name is written as text, without its folders, whatever is in it', () => {
  const file = '/home/ops/<b>"a" & \'b\' \u0001.csv'
  const svg = drawBacktest(runsOf(HISTORY, ['daily'], file), HISTORY)
  assert.ok(textsOf(svg).some((one) => one.startsWith("&lt;b&gt;&quot;a&quot; &amp; 'b' \uFFFD.csv")))
  assert.doesNotMatch(svg, /home/)
})

describe('the SVG writer', () => {
  test('escapes text and attributes, and refuses a coordinate that is not a number', () => {
    assert.equal(text(1, 2, 'a < b & "c"'), '<text x="1" y="2">a &lt; b &amp; &quot;c&quot;</text>')
    assert.equal(element('g', { id: '"&' }), '<g id="&quot;&amp;"/>')
    assert.equal(element('circle', { r: 1 / 3 }), '<circle r="0.33"/>')
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => element('circle', { r: value }))
    }
  })

  test('scales linearly, and puts what has no width in the middle', () => {
    const at = scale([0, 10], [100, 200])
    assert.deepEqual([0, 5, 10, -10].map(at), [100, 150, 200, 0])
    assert.equal(scale([3, 3], [0, 8])(3), 4)
  })

  const cases: [number, number, number, number[]][] = [
    [0, 10, 5, [0, 2, 4, 6, 8, 10]],
    [-0.35, 0.41, 7, [-0.2, 0, 0.2, 0.4]],
    [-0.29, 0.31, 8, [-0.2, -0.1, 0, 0.1, 0.2, 0.3]],
    [39_870, 44_020, 4, [40_000, 42_000, 44_000]],
    [5, 5, 4, [5]],
  ]
  for (const [low, high, most, expected] of cases) {
    test(`ticks from ${low} to ${high}`, () => assert.deepEqual(ticks([low, high], most), expected))
  }
})
