// The backtest: its figures on histories small enough to work out by hand, its statistics, its chart and its command.

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { drawBacktest, medianWindow } from '../../src/cli/trial/chart.ts'
import { element, scale, text, ticks } from '../../src/cli/trial/svg.ts'
import { price } from '../../src/core/money.ts'
import {
  DAY_MS,
  FREQUENCIES,
  type Frequency,
  HOUR_MS,
  type Instant,
  MINUTE_MS,
  plus,
} from '../../src/core/time.ts'
import {
  backtest,
  type History,
  mean,
  meanInterval,
  quantile,
  reportOf,
  saving,
  seededRandom,
  type WindowResult,
} from '../../src/engine/backtest.ts'
import { machineAt } from '../../src/machine.ts'
import { csv, shuffled, walk } from '../price/histories.ts'
import { temporaryFolder } from '../support/database.ts'
import { historyOf } from '../support/samples.ts'
import { type Outcome, runHere, T0 } from '../support/service.ts'

const START = plus(T0, 14 * DAY_MS)

/** Two weeks at 100, then one daily window with a price every six hours, then the price that ends it. */
function handHistory(prices: readonly string[]): History {
  const quiet = Array.from({ length: 14 * 4 }, (_, i) => ({
    at: plus(T0, i * 6 * HOUR_MS),
    price: price('100'),
  }))
  const window = prices.map((usd, i) => ({ at: plus(START, i * 6 * HOUR_MS), price: price(usd) }))
  return historyOf([...quiet, ...window, { at: plus(START, DAY_MS), price: price('100') }])
}

const near = (actual: number, expected: number, within = 1e-9): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected}`)

function only<T>(values: readonly T[]): T {
  assert.equal(values.length, 1)
  return values[0] as T
}

describe('one window worked out by hand', () => {
  // Bars six hours apart make the failsafe begin twelve hours before the end: at the third price.
  const history = handHistory(['100', '200', '50', '100'])
  const window = only(backtest(history, 'daily'))

  test('its bounds, its average, its minimum and its lump', () => {
    assert.equal(window.start, START)
    assert.equal(window.end, plus(START, DAY_MS))
    assert.deepEqual([window.firstBar, window.bars, window.slots], [56, 4, 3])
    // 4 / (1/100 + 1/200 + 1/50 + 1/100): what equal dollars at each price would have paid.
    near(window.twap, 4 / 0.045)
    assert.equal(window.min, 50)
    assert.equal(window.lump, 100)
  })

  test('a unit at the first price, the rest in the failsafe, and what that cost', () => {
    const [first, rest, ...more] = window.fires
    assert.deepEqual(more, [])
    assert.deepEqual([first?.bar, first?.trigger], [0, 'slot_start'])
    assert.deepEqual([rest?.bar, rest?.trigger], [2, 'failsafe'])
    // To the cent of a budget of 10,000 dollars.
    near(first?.share ?? 0, 0.166666)
    near(rest?.share ?? 0, 0.833334)
    near(window.cost, 1 / (0.166666 / 100 + 0.833334 / 50))
    near(saving(window, window.cost), 1e4 * (1 - window.cost / window.twap))
  })

  test('the clock: a unit due at two hours fires at six, for want of a pass, and the rest in the failsafe', () => {
    near(window.clock, 1 / (0.333333 / 200 + 0.666667 / 50), 1e-4)
  })

  test('its report: capture, drift, skill and the baselines', () => {
    const report = reportOf([window], { file: 'f', frequency: 'daily', history })
    const bp = 1e4 * (1 - window.cost / window.twap)
    for (const value of [report.mean_bp, report.median_bp, report.p5_bp, report.worst_bp]) near(value, bp)
    assert.deepEqual(report.mean_bp_ci95, [report.mean_bp, report.mean_bp])
    assert.equal(report.windows, 1)
    assert.equal(report.win_rate, 1)
    near(report.capture, (window.twap - window.cost) / (window.twap - 50))
    // With one window the average spending is its own, so that the whole saving is drift.
    near(report.drift_bp, bp)
    near(report.skill_bp, 0)
    near(report.baselines.lump.mean_bp, 1e4 * (1 - 100 / window.twap))
    assert.equal(report.baselines.lump.win_rate, 0)
    near(report.baselines.minimum.capture, 1)
  })
})

test('drift is what the same average spending saves, and skill is the rest', () => {
  // Two windows that spend alike, one on a rising and one on a falling market: no skill in either.
  const history = historyOf(
    ['100', '110', '120', '130', '130', '120', '110', '100'].map((usd, i) => ({
      at: plus(T0, i * HOUR_MS),
      price: price(usd),
    })),
  )
  const spend = [
    { bar: 0, share: 0.5, trigger: 'clock' as const },
    { bar: 3, share: 0.5, trigger: 'clock' as const },
  ]
  const cost = 2 / (1 / 100 + 1 / 130)
  const twap = 4 / (1 / 100 + 1 / 110 + 1 / 120 + 1 / 130)
  const window = (firstBar: number, lump: number): WindowResult => ({
    ...{ start: plus(T0, firstBar * HOUR_MS), end: plus(T0, (firstBar + 4) * HOUR_MS) },
    ...{ cost, twap, min: 100, lump, clock: cost, slots: 1, fires: spend, firstBar, bars: 4 },
  })
  const report = reportOf([window(0, 100), window(4, 130)], { file: 'f', frequency: 'daily', history })
  near(report.drift_bp, 1e4 * (1 - cost / twap))
  near(report.skill_bp, 0)
  near(report.baselines.lump.mean_bp, 1e4 * (1 - 115 / twap))
  assert.equal(report.baselines.lump.win_rate, 0.5)
})

describe('the windows of a history', () => {
  const points = walk(20 * 96, { seed: 2 })
  const windows = backtest(historyOf(points), 'daily')

  test('begin every seven hours, fourteen days after the first price, while they are whole', () => {
    assert.equal(windows[0]?.start, START)
    const last = points.at(-1)?.at ?? 0
    windows.forEach((window, i) => {
      assert.equal(window.start, START + i * 7 * HOUR_MS)
      assert.ok(window.end <= last)
    })
    assert.ok((windows.at(-1)?.end ?? 0) + 7 * HOUR_MS > last)
  })

  test('hold the prices from their start on and none of their end', () => {
    for (const { firstBar, bars, start, end } of windows) {
      assert.ok((points[firstBar]?.at ?? 0) >= start && (points[firstBar - 1]?.at ?? 0) < start)
      assert.ok((points[firstBar + bars - 1]?.at ?? 0) < end && (points[firstBar + bars]?.at ?? end) >= end)
    }
  })

  test('spend all of their budget inside, at prices between the lowest and the highest', () => {
    for (const { fires, bars, cost, min } of windows) {
      near(
        fires.reduce((sum, fire) => sum + fire.share, 0),
        1,
      )
      assert.ok(fires.every(({ bar }) => 0 <= bar && bar < bars))
      assert.ok(cost >= min)
    }
  })

  test('are the same every time, and in whatever order the rows come', () => {
    assert.deepEqual(backtest(historyOf(points), 'daily'), windows)
    assert.deepEqual(backtest(historyOf(shuffled(points, 5)), 'daily'), windows)
    const doubled = [...points, ...points.map(({ at }) => ({ at, price: price('1') }))]
    assert.deepEqual(backtest(historyOf(doubled), 'daily'), windows)
  })

  test('are cut as asked', () => {
    const cut = { slots: 4, unitsPerSlot: 1, unitsFired: 0 }
    for (const { slots, fires } of backtest(historyOf(points), 'daily', cut)) {
      assert.equal(slots, 4)
      assert.ok(fires.length <= 4)
    }
  })

  test('with nothing to gain nothing is gained: a flat market saves zero, whatever is compared', () => {
    const flat = historyOf(points.map(({ at }) => ({ at, price: price('60000') })))
    const report = reportOf(backtest(flat, 'daily'), { file: 'f', frequency: 'daily', history: flat })
    for (const value of [report.mean_bp, report.worst_bp, report.drift_bp, report.baselines.lump.mean_bp]) {
      near(value, 0, 1e-6)
    }
    const { lump, clock, minimum } = report.baselines
    for (const { win_rate, capture } of [report, lump, clock, minimum]) {
      assert.deepEqual({ win_rate, capture }, { win_rate: 0, capture: 0 })
    }
  })
})

describe('statistics', () => {
  test('a quantile is one of the values: the smallest with so many at or under it', () => {
    const values = [5, 1, 4, 2, 3]
    const cases: [number, number][] = [
      [0, 1],
      [0.05, 1],
      [0.2, 1],
      [0.21, 2],
      [0.5, 3],
      [0.8, 4],
      [0.95, 5],
      [1, 5],
    ]
    for (const [q, expected] of cases) assert.equal(quantile(values, q), expected, `${q}`)
    assert.deepEqual(values, [5, 1, 4, 2, 3], 'the input stays as it is')
    assert.equal(quantile([-1, -10, 2], 0.5), -1)
  })

  test('an interval holds the mean, narrows with more blocks and is the same every time', () => {
    const random = seededRandom(11)
    const values = Array.from({ length: 3_000 }, () => random() - 0.3)
    const few = meanInterval(values, (i) => i % 10)
    const byBlock = (size: number) => meanInterval(values, (i) => Math.floor(i / size))
    const narrow = byBlock(5)
    for (const [low, high] of [few, narrow, byBlock(300)]) {
      assert.ok(low < mean(values) && mean(values) < high)
    }
    assert.deepEqual(byBlock(5), narrow)
    // Independent values of standard deviation 0.289: the mean of 3,000 lies within about 0.0103 of theirs.
    near(narrow[1] - narrow[0], 2 * 1.96 * (0.2887 / Math.sqrt(3_000)), 0.003)
  })

  test('values that move together make an interval wide, which drawing them one by one would hide', () => {
    const random = seededRandom(12)
    const blocks = Array.from({ length: 50 }, () => random() - 0.5)
    const values = blocks.flatMap((value) => new Array<number>(40).fill(value))
    const width = ([low, high]: [number, number]) => high - low
    const together = width(meanInterval(values, (i) => Math.floor(i / 40)))
    assert.ok(together > 4 * width(meanInterval(values, (i) => i)))
  })

  test('seeded numbers lie in [0, 1), differ by seed and repeat by seed', () => {
    const draw = (seed: number) => Array.from({ length: 1_000 }, seededRandom(seed))
    assert.deepEqual(draw(3), draw(3))
    assert.notDeepEqual(draw(3), draw(4))
    assert.ok(draw(3).every((value) => 0 <= value && value < 1))
    near(mean(draw(3)), 0.5, 0.03)
  })
})

test('a bar between two slots belongs to the later one, whatever the hour of the window', () => {
  const everyMs = 5 * MINUTE_MS
  const history = historyOf(walk(16 * 288, { seed: 4, everyMs }))
  for (const { start, fires, firstBar } of backtest(history, 'daily')) {
    const slotStarts = [0, 8, 16].map((hours) => plus(start, hours * HOUR_MS))
    const firstOf = (at: Instant) => history.at.findIndex((bar) => bar >= at)
    for (const { bar, trigger } of fires) {
      if (trigger !== 'slot_start' && trigger !== 'deadline') continue
      assert.ok(
        slotStarts.some((at) => firstOf(at) === firstBar + bar),
        `${trigger} at bar ${bar}`,
      )
    }
  }
})

// The chart of a backtest: well-formed, self-contained, and the same figures as the report beside it.

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

// `tranche backtest FILE` as its users meet it: the table, the JSON, the chart, and files that are not price histories.

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
