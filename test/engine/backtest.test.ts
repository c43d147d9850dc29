// The backtest: its figures on histories small enough to work out by hand, and its statistics.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { price } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import type { History } from '../../src/engine/backtest.ts'
import {
  backtest,
  mean,
  meanInterval,
  quantile,
  reportOf,
  saving,
  seededRandom,
  type WindowResult,
} from '../../src/engine/backtest.ts'
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
