// The backtest: its figures on histories small enough to calculate by hand, its statistics, and its texts.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { finding, foundInMoney } from '../../src/cli/trial/verdict.ts'
import { price, usd } from '../../src/core/money.ts'
import { MIN_TRANCHE_DEFAULT } from '../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { FREQUENCIES, WINDOW_MS } from '../../src/core/window.ts'
import { backtest, type History, seededRandom, tranchesOf, type Windows } from '../../src/engine/backtest.ts'
import {
  type BacktestResult,
  mean,
  meanInterval,
  quantile,
  resultOf,
  savingsOf,
} from '../../src/engine/backtest-savings.ts'
import { layout } from '../../src/engine/slot-reserve.ts'
import { shuffled, walk } from '../price/histories.ts'
import { historyOf } from '../support/samples.ts'
import { T0 } from '../support/service.ts'

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

const FREE = { fee_bps: 0, spread_bps: 0 }

const reported = (windows: Windows, history: History, costs = FREE): BacktestResult =>
  resultOf(windows, { file: 'f', history, costs })

describe('one window worked out by hand', () => {
  // Bars six hours apart make the failsafe begin twelve hours before the end: at the third price.
  const history = handHistory(['100', '200', '50', '100'])
  const windows = backtest(history, 'daily')
  const [cost = 0, twap = 0] = [windows.cost[0], windows.twap[0]]

  test('its bounds, its average, its minimum and its lump', () => {
    assert.deepEqual([...windows.start], [START])
    assert.deepEqual([windows.firstBar[0], windows.endBar[0], windows.layout.slots], [56, 60, 3])
    // 4 / (1/100 + 1/200 + 1/50 + 1/100): the mean price of equal dollars at each price.
    near(twap, 4 / 0.045)
    assert.equal(windows.minimum[0], 50)
    assert.equal(windows.lump[0], 100)
    assert.equal(windows.dca[0], 100)
  })

  test('a unit at the first price, the rest in the failsafe, and what that cost', () => {
    const fires = tranchesOf(history, windows, 0)
    assert.deepEqual(fires, [
      { bar: 56, trigger: 'slot_start', units: 1 },
      { bar: 58, trigger: 'failsafe', units: 5 },
    ])
    near(cost, 6 / (1 / 100 + 5 / 50))
    near(savingsOf(windows, windows.cost, FREE)[0] ?? 0, 1e4 * (1 - cost / twap))
  })

  test('the clock: a unit due at two hours fires at six, for want of a pass, and the rest in the failsafe', () => {
    near(windows.clock[0] ?? 0, 6 / (2 / 200 + 4 / 50))
  })

  test('its report: capture, drift, skill, the baselines, its only start and its only year', () => {
    const report = reported(windows, history)
    const bp = 1e4 * (1 - cost / twap)
    for (const value of [report.mean_bp, report.median_bp, report.p5_bp, report.worst_bp]) near(value, bp)
    assert.deepEqual(report.mean_bp_ci95, [report.mean_bp, report.mean_bp])
    assert.equal(report.windows, 1)
    assert.equal(report.win_rate, 1)
    near(report.capture, (twap - cost) / (twap - 50))
    // With one window the average spending is its own, so that the whole saving is drift.
    near(report.drift_bp, bp)
    near(report.skill_bp, 0)
    near(report.baselines.lump.mean_bp, 1e4 * (1 - 100 / twap))
    assert.equal(report.baselines.lump.win_rate, 0)
    near(report.baselines.minimum.capture, 1)
    near(report.over_dca_bp, (1e4 * (100 - cost)) / twap)
    assert.deepEqual(report.starts, { every_minutes: 240, plans: 1, lowest_mean_bp: bp, highest_mean_bp: bp })
    const [year] = report.years
    assert.deepEqual([year?.year, year?.windows, year?.mean_bp], [2026, 1, bp])
    near(year?.dca_mean_bp ?? 0, report.baselines.dca.mean_bp)
    assert.deepEqual(
      [report.first_start, report.last_end],
      ['2026-01-19T00:00:00.000Z', '2026-01-20T00:00:00.000Z'],
    )
  })
})

/** Hand-made windows of the same four bars. */
function windowsOf(of: Partial<Windows> & Pick<Windows, 'start'>): Windows {
  const filled = (value: number) => of.start.map(() => value)
  return {
    frequency: 'daily',
    layout: { slots: 1, unitsPerSlot: 1, unitsFired: 0 },
    starts: { first: (of.start[0] ?? 0) as Instant, stepMs: HOUR_MS, nth: 1 },
    firstBar: new Uint32Array(of.start.length),
    endBar: new Uint32Array(of.start.length).fill(4),
    ...{ twap: filled(100), cost: filled(100), clock: filled(100), lump: filled(100), dca: filled(100) },
    ...{ minimum: filled(90), profile: new Float64Array(336) },
    ...of,
  }
}

test('a history with a hole is judged by the gap that is usual in it', () => {
  const points = [0, 1, 2, 10].map((hours) => ({ at: plus(START, hours * HOUR_MS), price: price('100') }))
  assert.equal(historyOf(points).gapMs, HOUR_MS)
})

test('drift is what the same average spending saves, and skill is the rest', () => {
  // Two windows that spend alike, one on a rising and one on a falling market: no skill in either.
  const history = historyOf(
    ['100', '110', '120', '130', '130', '120', '110', '100'].map((usd, i) => ({
      at: plus(T0, i * HOUR_MS),
      price: price(usd),
    })),
  )
  const cost = 2 / (1 / 100 + 1 / 130)
  const twap = 4 / (1 / 100 + 1 / 110 + 1 / 120 + 1 / 130)
  // Half of it at the first of four bars, and half at the last.
  const profile = new Float64Array(336)
  profile[0] = 0.5
  profile[3 * 84] = 0.5
  const both = (value: number) => Float64Array.of(value, value)
  const windows = windowsOf({
    ...{
      start: Float64Array.of(T0, T0 + 4 * HOUR_MS),
      firstBar: Uint32Array.of(0, 4),
      endBar: Uint32Array.of(4, 8),
    },
    ...{ profile, cost: both(cost), twap: both(twap), lump: Float64Array.of(100, 130) },
  })
  const report = reported(windows, history)
  near(report.drift_bp, 1e4 * (1 - cost / twap))
  near(report.skill_bp, 0)
  near(report.baselines.lump.mean_bp, 1e4 * (1 - 115 / twap))
  assert.equal(report.baselines.lump.win_rate, 0.5)
})

describe('the windows of a history', () => {
  const points = walk(20 * 96, { seed: 2 })
  const history = historyOf(points)
  const windows = backtest(history, 'daily')
  const last = points.at(-1)?.at ?? 0

  test('begin with every price from fourteen days after the first one on, while they are whole', () => {
    const starts = points.map(({ at }) => at).filter((at) => START <= at && at + DAY_MS <= last)
    assert.deepEqual([...windows.start], starts)
  })

  test('spend all of their budget inside', () => near(mean(windows.profile) * windows.profile.length, 1))

  test('are the same every time, and in whatever order the rows come', () => {
    assert.deepEqual(backtest(historyOf(points), 'daily'), windows)
    assert.deepEqual(backtest(historyOf(shuffled(points, 5)), 'daily'), windows)
    const doubled = [...points, ...points.map(({ at }) => ({ at, price: price('1') }))]
    assert.deepEqual(backtest(historyOf(doubled), 'daily'), windows)
  })

  test('with nothing to gain nothing is gained: a flat market saves zero, whatever is compared', () => {
    const flat = historyOf(points.map(({ at }) => ({ at, price: price('60000') })))
    const report = reported(backtest(flat, 'daily'), flat)
    for (const value of [report.mean_bp, report.worst_bp, report.drift_bp, report.baselines.lump.mean_bp]) {
      near(value, 0, 1e-6)
    }
    const { lump, clock, dca, minimum } = report.baselines
    for (const { win_rate, capture } of [report, lump, clock, dca, minimum]) {
      assert.deepEqual({ win_rate, capture }, { win_rate: 0, capture: 0 })
    }
  })
})

describe('every start counts', () => {
  const points = walk(30 * 24, { seed: 31, everyMs: HOUR_MS })
  const since = plus(START, DAY_MS)
  const from = (dropped: number, more = {}): Windows =>
    backtest(historyOf(points.slice(dropped)), 'daily', { since, ...more })

  test('so that hours dropped from the beginning of a file neither add nor remove a window', () => {
    const all = from(0)
    for (let dropped = 1; dropped <= 7; dropped++) {
      const windows = from(dropped)
      assert.deepEqual(windows.start, all.start)
      assert.deepEqual(windows.twap.length, all.twap.length)
      const means = [all, windows].map((of) => mean(savingsOf(of, of.cost, FREE)))
      // Only the volatility differs a little, as fewer prices are known.
      near(means[0] ?? 0, means[1] ?? 0, 0.02)
    }
  })

  test('as close together as the prices, but neither closer than five minutes nor further apart than four hours', () => {
    const cases: [everyMs: number, stepMs: number][] = [
      [MINUTE_MS, 5 * MINUTE_MS],
      [5 * MINUTE_MS, 5 * MINUTE_MS],
      [7 * MINUTE_MS, 8 * MINUTE_MS],
      [HOUR_MS, HOUR_MS],
      [6 * HOUR_MS, 4 * HOUR_MS],
    ]
    for (const [everyMs, stepMs] of cases) {
      const length = Math.ceil((16 * DAY_MS) / everyMs)
      const { starts, start } = backtest(historyOf(walk(length, { seed: 32, everyMs })), 'daily')
      assert.deepEqual([starts.stepMs, starts.nth], [stepMs, 1], `${everyMs}`)
      assert.equal((start[1] ?? 0) - (start[0] ?? 0), stepMs)
    }
  })

  test('but where slots are too many to play, one in so many, which meets every hour of every weekday', () => {
    const cut = { slots: 500, unitsPerSlot: 2, unitsFired: 0 }
    const long = historyOf(walk(120 * 24, { seed: 33, everyMs: HOUR_MS }))
    const { starts, start } = backtest(long, 'daily', { layout: cut })
    assert.deepEqual(starts.nth, 5)
    const hours = new Set(start.map((at) => (at / HOUR_MS) % 168))
    assert.equal(hours.size, 168)
  })

  test('inside the period that is asked for: from its first moment on, ended by its last', () => {
    const until = plus(START, 5 * DAY_MS)
    const { start } = from(0, { until })
    assert.deepEqual([start[0], start.at(-1)], [since, until - DAY_MS])
    assert.equal(start.length, 3 * 24 + 1)
    assert.equal(from(0, { until: plus(since, DAY_MS) }).start.length, 1)
    assert.equal(from(0, { until: plus(since, DAY_MS - 1) }).start.length, 0)
    // The policy knows earlier prices all the same.
    const alone = backtest(historyOf(points), 'daily')
    assert.equal(from(0).cost[0], alone.cost[24])
  })

  test('and how far the plans that begin at each of them are apart is said', () => {
    // Three windows of two plans: a day has 24 starts, and the third is the first plan's next one.
    const start = Float64Array.of(T0, plus(T0, HOUR_MS), plus(T0, DAY_MS))
    const windows = windowsOf({ start, cost: Float64Array.of(99, 101, 98) })
    const { starts } = reported(windows, historyOf(points))
    assert.deepEqual([starts.every_minutes, starts.plans], [60, 2])
    near(starts.lowest_mean_bp, -100)
    near(starts.highest_mean_bp, 150)
  })

  test('and the reading of the reference is there to compare with: a window every seven hours', () => {
    const windows = from(0)
    const { every_7h: every } = reported(windows, historyOf(points))
    const saved = savingsOf(windows, windows.cost, FREE).filter((_, i) => i % 7 === 0)
    assert.equal(every.windows, saved.length)
    near(every.mean_bp, mean(saved))
  })
})

test('a window whose end falls into a hole of the history could not spend its budget, and is left out', () => {
  const hours = walk(17 * 24, { seed: 34, everyMs: HOUR_MS })
  const hole = { from: plus(START, 30 * HOUR_MS), to: plus(START, 40 * HOUR_MS) }
  const history = historyOf(hours.filter(({ at }) => at <= hole.from || hole.to <= at))
  const ends = new Set(backtest(history, 'daily').start.map((at) => (at + DAY_MS - START) / HOUR_MS))
  // With the price of hour 30 a window that ends up to two hours later still spends the rest.
  assert.deepEqual(
    [...ends].filter((hour) => 30 <= hour && hour <= 42),
    [30, 31, 32, 41, 42],
  )
})

describe('fee and spread', () => {
  const history = historyOf(walk(40 * 24, { seed: 6, everyMs: HOUR_MS }))
  const windows = backtest(history, 'daily')
  const free = reported(windows, history)
  const costly = reported(windows, history, { fee_bps: 25, spread_bps: 10 })
  const factor = 1.0025 * 1.0005

  test('are paid by every way of buying, and not by the average that savings are measured from', () => {
    for (const key of ['mean_bp', 'median_bp', 'p5_bp', 'worst_bp', 'drift_bp'] as const)
      near(costly[key], 1e4 * (1 - factor * (1 - free[key] / 1e4)), 1e-6)
    for (const way of ['lump', 'clock', 'dca', 'minimum'] as const)
      near(costly.baselines[way].mean_bp, 1e4 * (1 - factor * (1 - free.baselines[way].mean_bp / 1e4)), 1e-6)
    near(costly.skill_bp, factor * free.skill_bp, 1e-6)
    assert.deepEqual([costly.fee_bps, costly.spread_bps], [25, 10])
    near(costly.baselines.minimum.capture, 1)
  })
})

test('savings by year: a window belongs to the year in which it begins', () => {
  const start = Float64Array.from([-2, -1, 0, 1].map((hour) => Date.UTC(2025, 0, 1, hour)))
  const windows = windowsOf({
    start,
    cost: Float64Array.of(99, 101, 98, 98),
    dca: Float64Array.of(100, 99, 100, 97),
  })
  const { years } = reported(windows, historyOf(walk(4, {})))
  const shown = years.map(({ year, windows: n, mean_bp, worst_bp, win_rate, dca_mean_bp }) =>
    [year, n, mean_bp, worst_bp, win_rate, dca_mean_bp].map((value) => Math.round(1e6 * value) / 1e6),
  )
  assert.deepEqual(shown, [
    [2024, 2, 0, -100, 0.5, 50],
    [2025, 2, 200, 200, 1, 150],
  ])
})

describe('what was found, in words', () => {
  const history = historyOf(walk(40 * 24, { seed: 6, everyMs: HOUR_MS }))
  const measured: BacktestResult = { ...reported(backtest(history, 'daily'), history), blocks: 12 }
  const of = (mean_bp: number, mean_bp_ci95: [number, number], more = {}): BacktestResult => ({
    ...{ ...measured, mean_bp, mean_bp_ci95, over_dca_bp: -2, over_dca_bp_ci95: [-8, 5] },
    ...more,
  })

  test('a mean with its interval: on one side of zero, on both, and where it rounds to nothing', () => {
    assert.equal(
      finding(of(1.64, [0.64, 2.56])),
      'Daily windows paid 1.6 bp less than the average price (95 %: 0.6 to 2.6 bp less)',
    )
    assert.equal(
      finding(of(-3.2, [-8.6, 2.3])),
      'Daily windows paid 3.2 bp more than the average price (95 %: 8.6 bp more to 2.3 bp less)',
    )
    assert.equal(
      finding(of(-3.2, [-8.6, -2.3])),
      'Daily windows paid 3.2 bp more than the average price (95 %: 2.3 to 8.6 bp more)',
    )
    assert.match(finding(of(-0.03, [-1, 1])), /^Daily windows paid the average price to 0\.1 bp \(/)
  })

  test('money: of a stated amount, with the intervals and the worst year', () => {
    const [year] = measured.years
    const years = [
      { ...year, year: 2021, mean_bp: 5 },
      { ...year, year: 2022, mean_bp: -0.81 },
    ]
    assert.equal(
      foundInMoney(of(1.64, [0.64, 2.56], { years })),
      'In money: of 12,000 USD a year, 32.85 a window, a plan paid 1.97 USD less than spending evenly (95 %: 0.77 to ' +
        '3.07 USD less) and 2.40 USD more than plain DCA (95 %: 9.60 USD more to 6.00 USD less); in the worst year, ' +
        '2022, 0.97 USD more than evenly. No fee or spread is in it.',
    )
  })

  test('the amount keeps units above the default minimum, so that windows are cut as they were played', () => {
    const amounts = [32.85, 229.98, 459.96]
    for (const [i, frequency] of FREQUENCIES.entries()) {
      assert.match(foundInMoney(of(1, [0, 2], { frequency })), new RegExp(` ${amounts[i]} a window`))
      const { slots, unitsPerSlot } = layout({
        ...{ windowStart: T0, windowEnd: plus(T0, WINDOW_MS[frequency]) },
        ...{ budget: usd(String(amounts[i])), floor: MIN_TRANCHE_DEFAULT },
      })
      assert.deepEqual([slots, unitsPerSlot], [[3, 14, 28][i], 2])
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
