// The backtest plays each slot once for all windows that share it, and skips the bars at which a scheduler would leave
// a plan alone. Here windows are played one by one in the plainest way, every bar a pass: the tranches are the same,
// and so are the prices except for the rounding of sums.

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Price, price, priceAsNumber, usd, ZERO_USD } from '../../src/core/money.ts'
import { FIRST_VOLATILITY, observe, sigma } from '../../src/core/price.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import {
  FREQUENCIES,
  type Frequency,
  failsafeLead,
  freshSchedule,
  type Layout,
  type Schedule,
  WINDOW_MS,
} from '../../src/core/window.ts'
import { backtest, type Fire, seededRandom, tranchesOf } from '../../src/engine/backtest.ts'
import { decide } from '../../src/engine/slot-reserve.ts'
import { type Point, walk } from '../price/histories.ts'
import { historyOf } from '../support/samples.ts'

const BUDGET = usd('10000.00')
const MIN_TRANCHE = usd('5.00')

type Bar = Point & { sigma: number }

function barsOf(points: readonly Point[]): Bar[] {
  let seen = FIRST_VOLATILITY
  return points.map((point) => {
    seen = observe(seen, point.price, point.at)
    return { ...point, sigma: sigma(seen) }
  })
}

type Play = { schedule: Schedule; leadMs: number; live: boolean }

/** A single pass at every bar. */
function play(bars: readonly Bar[], { schedule, leadMs, live }: Play): Fire[] {
  const fires: Fire[] = []
  let seen = schedule
  for (const [bar, { at, price, sigma }] of bars.entries()) {
    const decision = decide(seen, { now: at, price: live ? price : null, sigma, leadMs })
    seen = decision.schedule
    const { tranche } = decision
    if (tranche) fires.push({ bar, units: tranche.units, trigger: tranche.trigger })
  }
  return fires
}

/** The average price that so many dollars pay at each of some bars. */
function average(bars: readonly Bar[], spent: readonly { bar: number; units: number }[]): number {
  const dollars = spent.reduce((sum, { units }) => sum + units, 0)
  const coins = spent.reduce(
    (sum, { bar, units }) => sum + units / priceAsNumber((bars[bar] as Bar).price),
    0,
  )
  return dollars / coins
}

/** The window that begins at an instant; null where its failsafe has no bar, so that it cannot spend its budget. */
function slowly(all: readonly Bar[], { start, frequency, layout, leadMs }: Slow) {
  const end = plus(start, WINDOW_MS[frequency])
  const bars = all.filter(({ at }) => start <= at && at < end)
  if ((bars.at(-1)?.at ?? 0) < Math.max(start, end - leadMs)) return null
  const window = { windowId: 0, planId: 0, start, end, budget: BUDGET, closed: null }
  const empty = { reserved: ZERO_USD, spent: ZERO_USD, excess: ZERO_USD, released: ZERO_USD }
  const schedule = { ...freshSchedule({ ...window, ...empty }, MIN_TRANCHE), layout }
  const fires = play(bars, { schedule, leadMs, live: true })
  const days = Array.from({ length: WINDOW_MS[frequency] / DAY_MS }, (_, day) => plus(start, day * DAY_MS))
  const purchases = days.map((at) => ({ bar: bars.findIndex((bar) => bar.at >= at), units: 1 }))
  return {
    fires,
    prices: {
      cost: average(bars, fires),
      clock: average(bars, play(bars, { schedule, leadMs, live: false })),
      twap: average(
        bars,
        bars.map((_, bar) => ({ bar, units: 1 })),
      ),
      minimum: Math.min(...bars.map(({ price }) => priceAsNumber(price))),
      lump: priceAsNumber((bars[0] as Bar).price),
      dca: average(
        bars,
        purchases.filter(({ bar }) => bar >= 0),
      ),
    },
  }
}

type Priced = 'cost' | 'clock' | 'twap' | 'minimum' | 'lump' | 'dca'
type Slow = { start: Instant; frequency: Frequency; layout: Layout | null; leadMs: number }

/** The starts of windows: from two weeks after the first price on, a divisor of four hours apart. */
function startsOf(points: readonly Point[], frequency: Frequency): { starts: Instant[]; leadMs: number } {
  const gaps = points.slice(1).map(({ at }, i) => at - (points[i]?.at ?? 0))
  const usual = gaps.slice(0, 1000).sort((a, b) => a - b)[Math.floor(Math.min(1000, gaps.length) / 2)] ?? 0
  const minutes = Array.from({ length: 236 }, (_, i) => i + 5).filter((step) => 240 % step === 0)
  const stepMs = (minutes.find((step) => step * MINUTE_MS >= usual) ?? 240) * MINUTE_MS
  const [first, last] = [points[0] as Point, points.at(-1) as Point]
  const starts: Instant[] = []
  for (let at = plus(first.at, 14 * DAY_MS); at + WINDOW_MS[frequency] <= last.at; at = plus(at, stepMs))
    starts.push(at)
  return { starts, leadMs: failsafeLead([usual, usual]) }
}

/** A history with some days missing and single prices missing everywhere, none of them at a regular time. */
function ragged(points: readonly Point[], seed: number): Point[] {
  const random = seededRandom(seed)
  const scattered = points.map(({ at, price }) => ({
    at: plus(at, Math.floor(random() * 4 * MINUTE_MS)),
    price,
  }))
  return scattered.filter((_, i) => random() < 0.6 && i % 2_000 > 300)
}

/** Recurring levels: prices that are exactly at a limit. */
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

/** The number of windows of a history that are played here. */
const SOME = 20

for (const [name, points] of HISTORIES) {
  describe(name, () => {
    for (const frequency of FREQUENCIES) {
      for (const [cut, layout] of LAYOUTS) {
        test(`${frequency}, ${cut}`, () => {
          const bars = barsOf(points)
          const history = historyOf(points)
          const { starts, leadMs } = startsOf(points, frequency)
          assert.ok(starts.length > 0)
          // A layout that windows cannot share is slow: only the first windows are played.
          const until =
            layout === null ? undefined : plus(starts[0] as Instant, WINDOW_MS[frequency] + 4 * HOUR_MS)
          const windows = backtest(history, frequency, { layout, until })
          const indexes = new Map([...windows.start].map((at, i) => [at, i]))
          // All starts of a short history; of a long one some, among them its first and its last.
          const asked = starts.filter((start) => until === undefined || start + WINDOW_MS[frequency] <= until)
          assert.equal(windows.starts.nth, 1)
          const every = Math.max(1, Math.floor(asked.length / SOME))
          for (const start of [...asked.filter((_, i) => i % every === 0), asked.at(-1) as Instant]) {
            const slow = slowly(bars, { start, frequency, layout, leadMs })
            const i = indexes.get(start)
            assert.equal(slow === null, i === undefined, `${start}`)
            if (slow === null || i === undefined) continue
            const first = windows.firstBar[i] ?? 0
            const fires = tranchesOf(history, windows, i).map((fire) => ({ ...fire, bar: fire.bar - first }))
            assert.deepEqual(fires, slow.fires)
            for (const [name, price] of Object.entries(slow.prices)) {
              const fast: number = windows[name as Priced][i] ?? 0
              assert.ok(Math.abs(fast / price - 1) < 1e-9, `${name} at ${start}: ${fast}, not ${price}`)
            }
          }
        })
      }
    }
  })
}
