// The backtest skips the bars at which a scheduler would leave a plan alone. Here every bar of every window is a pass,
// in the plainest way there is: the results are the same to the last digit.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Trigger } from '../../src/core/execution.ts'
import { type Price, price, priceAsNumber, usd, ZERO_USD } from '../../src/core/money.ts'
import { FIRST_VOLATILITY, observe, sigma } from '../../src/core/price.ts'
import {
  DAY_MS,
  FREQUENCIES,
  type Frequency,
  HOUR_MS,
  MINUTE_MS,
  plus,
  WINDOW_MS,
} from '../../src/core/time.ts'
import { failsafeLead, freshSchedule, type Layout, type Schedule } from '../../src/core/window.ts'
import { backtest, seededRandom } from '../../src/engine/backtest.ts'
import { decide } from '../../src/engine/slot-reserve.ts'
import { type Point, walk } from '../price/histories.ts'
import { historyOf } from '../support/samples.ts'

const BUDGET = usd('10000.00')
const MIN_TRANCHE = usd('5.00')

type Bar = Point & { sigma: number }
type Fire = { bar: number; share: number; trigger: Trigger }

function barsOf(points: readonly Point[]): Bar[] {
  let seen = FIRST_VOLATILITY
  return points.map((point) => {
    seen = observe(seen, point.price, point.at)
    return { ...point, sigma: sigma(seen) }
  })
}

type Play = { schedule: Schedule; leadMs: number; live: boolean }

/** One pass at every bar. */
function play(bars: readonly Bar[], { schedule, leadMs, live }: Play): { fires: Fire[]; slots: number } {
  const fires: Fire[] = []
  let seen = schedule
  for (const [bar, { at, price, sigma }] of bars.entries()) {
    const decision = decide(seen, { now: at, price: live ? price : null, sigma, leadMs })
    seen = decision.schedule
    const { tranche } = decision
    if (tranche) fires.push({ bar, share: Number(tranche.amount) / Number(BUDGET), trigger: tranche.trigger })
  }
  return { fires, slots: seen.layout?.slots ?? 1 }
}

const costOf = (bars: readonly Bar[], fires: readonly Fire[]): number =>
  fires.reduce((sum, { share }) => sum + share, 0) /
  fires.reduce((sum, { bar, share }) => sum + share / dollars(bars, bar), 0)

const dollars = (bars: readonly Bar[], bar: number): number => priceAsNumber((bars[bar] as Bar).price)

function slowly(points: readonly Point[], frequency: Frequency, layout: Layout | null) {
  const all = barsOf(points)
  const length = WINDOW_MS[frequency]
  const gaps = points.slice(1).map(({ at }, i) => at - (points[i]?.at ?? 0))
  const usual = gaps.slice(0, 1000).sort((a, b) => a - b)[Math.floor(Math.min(1000, gaps.length) / 2)] ?? 0
  const leadMs = failsafeLead([usual, usual])
  const results = []
  const [first, last] = [points[0] as Point, points.at(-1) as Point]
  for (let start = plus(first.at, 14 * DAY_MS); start + length <= last.at; start = plus(start, 7 * HOUR_MS)) {
    const end = plus(start, length)
    const bars = all.filter(({ at }) => start <= at && at < end)
    if (bars.length === 0) continue
    const window = { windowId: 0, planId: 0, start, end, budget: BUDGET, closed: null }
    const empty = { reserved: ZERO_USD, spent: ZERO_USD, excess: ZERO_USD, released: ZERO_USD }
    const schedule = { ...freshSchedule({ ...window, ...empty }, MIN_TRANCHE), layout }
    const { fires, slots } = play(bars, { schedule, leadMs, live: true })
    results.push({
      start,
      end,
      slots,
      cost: costOf(bars, fires),
      twap: bars.length / bars.reduce((sum, _, i) => sum + 1 / dollars(bars, i), 0),
      min: Math.min(...bars.map((_, i) => dollars(bars, i))),
      lump: dollars(bars, 0),
      clock: costOf(bars, play(bars, { schedule, leadMs, live: false }).fires),
      fires,
      firstBar: all.indexOf(bars[0] as Bar),
      bars: bars.length,
    })
  }
  return results
}

/** A history with days missing here and prices missing everywhere, none of them at a regular time. */
function ragged(points: readonly Point[], seed: number): Point[] {
  const random = seededRandom(seed)
  const scattered = points.map(({ at, price }) => ({
    at: plus(at, Math.floor(random() * 4 * MINUTE_MS)),
    price,
  }))
  return scattered.filter((_, i) => random() < 0.6 && i % 2_000 > 300)
}

/** Levels that come again and again: prices that are exactly at a limit. */
const stepped = (points: readonly Point[]): Point[] =>
  points.map((point) => ({ at: point.at, price: (point.price - (point.price % price('500'))) as Price }))

const HISTORIES: [string, readonly Point[]][] = [
  ['a price every five minutes', walk(30 * 288, { seed: 21, everyMs: 5 * MINUTE_MS })],
  ['a price every half hour', walk(32 * 48, { seed: 22, everyMs: 30 * MINUTE_MS })],
  ['a price every five hours', walk(120 * 5, { seed: 23, everyMs: 5 * HOUR_MS })],
  ['a price every two days', walk(60, { seed: 24, everyMs: 2 * DAY_MS })],
  ['a ragged history', ragged(walk(31 * 288, { seed: 25, everyMs: 5 * MINUTE_MS }), 25)],
  ['a few levels', stepped(walk(31 * 96, { seed: 26 }))],
]
const LAYOUTS: [string, Layout | null][] = [
  ['the policy', null],
  ['one tranche', { slots: 1, unitsPerSlot: 1, unitsFired: 0 }],
  ['a thousand tranches', { slots: 500, unitsPerSlot: 2, unitsFired: 0 }],
]

for (const [name, points] of HISTORIES) {
  describe(name, () => {
    for (const frequency of FREQUENCIES) {
      for (const [cut, layout] of LAYOUTS) {
        test(`${frequency}, ${cut}`, () => {
          const expected = slowly(points, frequency, layout)
          assert.ok(expected.length > 0)
          assert.deepEqual(backtest(historyOf(points), frequency, layout), expected)
        })
      }
    }
  })
}
