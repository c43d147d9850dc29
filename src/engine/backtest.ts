// The backtest: the scheduler's own decisions over a price history, with one pass for each bar and windows that begin
// at every possible moment, and the prices that they paid. Their savings are in backtest-savings.ts.

import type { Trigger } from '../core/execution.ts'
import { type Price, priceAsNumber, usd, ZERO_USD } from '../core/money.ts'
import { FIRST_VOLATILITY, observe, sigma } from '../core/price.ts'
import { DAY_MS, earlier, type Instant, MINUTE_MS, plus } from '../core/time.ts'
import {
  type Frequency,
  failsafeLead,
  failsafeStart,
  freshSchedule,
  type Layout,
  LONGEST_WINDOW_MS,
  type Schedule,
  WINDOW_MS,
  type Window,
} from '../core/window.ts'
import { decide, layout as layoutOf, slotStart } from './slot-reserve.ts'

/** The windows of one frequency in columns, by their starts. Each way of buying has its average price in dollars. */
export type Windows = {
  frequency: Frequency
  layout: Layout
  starts: Starts
  /** Whole instants. */
  start: Float64Array
  /** The first bar of a window, and the bar after its last. */
  firstBar: Uint32Array
  endBar: Uint32Array
  /** The time-weighted average: equal dollars at each bar. */
  twap: Float64Array
  /** The policy, with a live price at each bar. */
  cost: Float64Array
  /** The policy without a price. */
  clock: Float64Array
  lump: Float64Array
  /** Equal dollars each day at the hour at which the window starts; in a daily window this equals the lump. */
  dca: Float64Array
  /** The whole budget at the lowest price, which nobody knows in advance. */
  minimum: Float64Array
  /** The shares of the budget that the policy spends on average in each of PROFILE_STEPS equal steps. */
  profile: Float64Array
}

/** A layout other than the policy's, and the period to cover. */
type Options = { layout?: Layout | null; since?: Instant | undefined; until?: Instant | undefined }

export function backtest(history: History, frequency: Frequency, options: Options = {}): Windows {
  const { since, until } = options
  const windowMs = WINDOW_MS[frequency]
  const layout =
    options.layout ?? layoutOf({ ...spanAt(0 as Instant, frequency), budget: BUDGET, floor: MIN_TRANCHE })
  const grid = gridOf(history, { windowMs, slots: layout.slots, since, until })
  const { first, stepMs, nth, points, width, bar } = grid
  const firstBar = points.map((point) => bar[point] ?? 0)
  const endBar = points.map((point) => bar[point + width] ?? 0)
  const column = (priceOf: (bars: Bars, i: number) => number): Float64Array =>
    Float64Array.from(points, (_, i) => priceOf({ firstBar: firstBar[i] ?? 0, endBar: endBar[i] ?? 0 }, i))
  const windows = {
    frequency,
    layout,
    starts: { first, stepMs, nth },
    start: Float64Array.from(points, (point) => instantAt(grid, point)),
    firstBar,
    endBar,
    twap: column(averager(history.inverse)),
    lump: column((bars) => history.value[bars.firstBar] ?? 0),
    dca: column(({ endBar }, i) => onceADay(history, grid, { point: points[i] ?? 0, endBar })),
    minimum: column(movingMinimum(history.value)),
  }
  const { paid: cost, profile } = buyAll(history, { ...windows, grid }, true)
  const { paid: clock } = buyAll(history, { ...windows, grid }, false)
  return { ...windows, cost, clock, profile }
}

const spanAt = (start: Instant, frequency: Frequency) => ({
  windowStart: start,
  windowEnd: plus(start, WINDOW_MS[frequency]),
})

// Windows share their slots. Until the failsafe of its window, a slot buys by the prices from its start on, whatever
// window it belongs to. So each slot is played once, and a window costs a few additions.

/** The steps into which a window is divided for the average spend profile. */
export const PROFILE_STEPS = 336

type Bought = Pick<Windows, 'frequency' | 'layout' | 'start' | 'firstBar' | 'endBar'> & { grid: Grid }

/** Buys every window, with live prices or by the clock. Its units count as equal, as they are to the cent. */
function buyAll(history: History, bought: Bought, live: boolean): Record<'paid' | 'profile', Float64Array> {
  const { frequency, layout, start, grid } = bought
  const { slots, unitsPerSlot } = layout
  const { bars, offsetOf } = slotsOf(history, bought, live)
  const profile = new Float64Array(PROFILE_STEPS)
  const paid = start.map((at, i) => {
    const [firstBar, endBar] = [bought.firstBar[i] ?? 0, bought.endBar[i] ?? 0]
    // Whatever has not fired when the failsafe begins fires then.
    const failsafeAt = failsafeStart(spanAt(at as Instant, frequency), history.leadMs)
    const lastBar = firstBarAt(history.at, failsafeAt, { firstBar, endBar })
    let coins = 0
    for (let slot = 0; slot < slots; slot++) {
      const offset = offsetOf(grid.points[i] ?? 0, slot)
      for (let unit = offset; unit < offset + unitsPerSlot; unit++) {
        const bar = Math.min(bars[unit] ?? 0, lastBar)
        coins += history.inverse[bar] ?? 0
        const step = Math.floor(((bar - firstBar) * PROFILE_STEPS) / (endBar - firstBar))
        profile[step] = (profile[step] ?? 0) + 1
      }
    }
    return (slots * unitsPerSlot) / coins
  })
  const units = start.length * slots * unitsPerSlot
  return { paid, profile: profile.map((fired) => fired / units) }
}

/** The bars at which the units of each slot fire, slot after slot; a slot's bars begin at its offset. */
type Slots = { bars: Uint32Array; offsetOf: (point: number, slot: number) => number }

/** The slots of windows, by the points at which they begin. A slot is played when it is first needed. */
function slotsOf(history: History, { grid, frequency, layout }: Bought, live: boolean): Slots {
  const { slots, unitsPerSlot } = layout
  const { hasSlots, nth, width, bar } = grid
  const places = hasSlots ? bar.length : Math.ceil(bar.length / nth) * slots
  const bars = new Uint32Array(places * unitsPerSlot)
  const isPlayed = new Uint8Array(places)
  const offsetOf = (point: number, slot: number): number => {
    const place = hasSlots ? point + (slot * width) / slots : (point / nth) * slots + slot
    const offset = place * unitsPerSlot
    if (isPlayed[place] === 0) {
      const start = slotStart(spanAt(instantAt(grid, point), frequency), slots, slot)
      playSlot(history, { start, frequency, layout, live }, bars.subarray(offset, offset + unitsPerSlot))
      isPlayed[place] = 1
    }
    return offset
  }
  return { bars, offsetOf }
}

type Slot = { start: Instant; frequency: Frequency; layout: Layout; live: boolean }

/** Plays a slot as the first one of a window. Units left at this window's end get the bar that follows it. */
function playSlot(history: History, { start, frequency, layout, live }: Slot, bars: Uint32Array): void {
  const span = barsIn(history.at, spanAt(start, frequency))
  const schedule = scheduleOf(start, { frequency, layout })
  bars.fill(span.endBar)
  let fired = 0
  for (const { bar, units } of play(history, span, { schedule, live, leadMs: 0, unitsMax: bars.length })) {
    bars.fill(bar, fired, fired + units)
    fired += units
  }
}

const instantAt = ({ first, stepMs }: Grid, point: number): Instant => plus(first, point * stepMs)

/** A tranche of a played window: the bar at which it fired, why, and how many units it had. */
export type Fire = { bar: number; trigger: Trigger; units: number }

/** Plays a single window for its tranches, which the columns do not have. */
export function tranchesOf(history: History, { frequency, layout, start }: Windows, i: number): Fire[] {
  const begin = (start[i] ?? 0) as Instant
  const schedule = scheduleOf(begin, { frequency, layout })
  const units = layout.slots * layout.unitsPerSlot
  const bars = barsIn(history.at, spanAt(begin, frequency))
  return play(history, bars, { schedule, live: true, leadMs: history.leadMs, unitsMax: units })
}

const BUDGET = usd('10000.00')
const MIN_TRANCHE = usd('5.00')

const WINDOW: Omit<Window, 'start' | 'end'> = {
  windowId: 0,
  planId: 0,
  budget: BUDGET,
  reserved: ZERO_USD,
  spent: ZERO_USD,
  excess: ZERO_USD,
  released: ZERO_USD,
  closed: null,
}

function scheduleOf(start: Instant, { frequency, layout }: Pick<Windows, 'frequency' | 'layout'>): Schedule {
  const end = plus(start, WINDOW_MS[frequency])
  return { ...freshSchedule({ ...WINDOW, start, end }, MIN_TRANCHE), layout }
}

/** Bars of a history, from `firstBar` to the one before `endBar`. */
type Bars = { firstBar: number; endBar: number }
type Player = { schedule: Schedule; live: boolean; leadMs: number }

/** Plays a window until `unitsMax` units have fired, with a pass at each bar at which the plan is due. */
function play(history: History, bars: Bars, player: Player & { unitsMax: number }): Fire[] {
  const { live, leadMs, unitsMax } = player
  const { endBar } = bars
  let { schedule } = player
  let fired = 0
  const fires: Fire[] = []
  const visitFrom = (bar: number): number =>
    nextVisit(history, { firstBar: bar, endBar }, { schedule, live, leadMs })
  for (let bar = visitFrom(bars.firstBar); bar < endBar && fired < unitsMax; bar = visitFrom(bar + 1)) {
    const decision = decide(schedule, {
      now: history.at[bar] as Instant,
      price: live ? (history.price[bar] as Price) : null,
      sigma: history.sigma[bar] ?? 0,
      leadMs,
    })
    schedule = decision.schedule
    const { tranche } = decision
    if (!tranche) continue
    fires.push({ bar, trigger: tranche.trigger, units: tranche.units })
    fired += tranche.units
  }
  return fires
}

/**
 * The first bar whose pass finds the plan due, or `endBar`. A waiting plan is due at known instants and at the first
 * price that is low enough, as in the store's indexes; the bars before it change nothing.
 */
function nextVisit(history: History, bars: Bars, { schedule, live, leadMs }: Player): number {
  const { nextRunAt, clockAt, limitPrice } = schedule
  let wakeAt = nextRunAt
  if (schedule.fireable >= schedule.floor) wakeAt = earlier(wakeAt, failsafeStart(schedule, leadMs))
  if (!live && clockAt !== null) wakeAt = earlier(wakeAt, clockAt)
  const endBar = firstBarAt(history.at, wakeAt, bars)
  if (!live || limitPrice === null) return endBar
  return firstBarUnder(history.value, priceAsNumber(limitPrice), { ...bars, endBar })
}

function barsIn(at: Float64Array, { windowStart, windowEnd }: ReturnType<typeof spanAt>): Bars {
  const firstBar = firstBarAt(at, windowStart, { firstBar: 0, endBar: at.length })
  return { firstBar, endBar: firstBarAt(at, windowEnd, { firstBar, endBar: at.length }) }
}

/** The first bar in a range at or after an instant, by binary search; `endBar` when all are before it. */
function firstBarAt(at: Float64Array, instant: number, { firstBar, endBar }: Bars): number {
  let [low, high] = [firstBar, endBar]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((at[middle] ?? 0) < instant) low = middle + 1
    else high = middle
  }
  return low
}

/** The first bar in a range with a price at or under a limit; `endBar` when there is none. */
function firstBarUnder(value: Float64Array, limit: number, { firstBar, endBar }: Bars): number {
  let bar = firstBar
  while (bar < endBar && (value[bar] ?? 0) > limit) bar += 1
  return bar
}

/** The average price of equal purchases, one a day at the hour of the start, while there are bars. */
function onceADay(
  history: History,
  grid: Grid,
  { point, endBar }: { point: number; endBar: number },
): number {
  const { stepMs, width } = grid
  let coins = 0
  let days = 0
  for (let at = point; at < point + width; at += DAY_MS / stepMs) {
    const bar = grid.bar[at] ?? 0
    if (bar >= endBar) break
    coins += history.inverse[bar] ?? 0
    days += 1
  }
  return days / coins
}

/** Returns a function that gives the average price of equal dollars at each bar of a range. */
function averager(inverse: Float64Array): (bars: Bars) => number {
  /** At each bar, the coins that a dollar at each earlier bar buys. */
  const coins = new Float64Array(inverse.length + 1)
  inverse.forEach((more, bar) => {
    coins[bar + 1] = (coins[bar] ?? 0) + more
  })
  return ({ firstBar, endBar }) => (endBar - firstBar) / ((coins[endBar] ?? 0) - (coins[firstBar] ?? 0))
}

/** Returns a function that gives the lowest price in a range of bars. Neither end of the range may move backwards. */
function movingMinimum(value: Float64Array): (bars: Bars) => number {
  // The bars that no later bar undercuts: their prices increase.
  const lows = new Uint32Array(value.length)
  let [head, tail, next] = [0, 0, 0]
  const priceOf = (i: number): number => value[lows[i] ?? 0] ?? 0
  return ({ firstBar, endBar }) => {
    for (; next < endBar; next++) {
      while (tail > head && priceOf(tail - 1) >= (value[next] ?? 0)) tail -= 1
      lows[tail] = next
      tail += 1
    }
    while ((lows[head] ?? 0) < firstBar) head += 1
    return priceOf(head)
  }
}

// A price history for the backtest: columns in time order, with the values that a scheduler would have known at each
// price.

/** Bars in time order, no two at one instant. */
export type History = {
  at: Float64Array
  /** The price, in units of 1e-8 dollars. */
  price: BigInt64Array
  /** The price in dollars, and the coins that a dollar buys. */
  value: Float64Array
  inverse: Float64Array
  /** The volatility that a scheduler knows after the prices up to this one. */
  sigma: Float64Array
  gapMs: number
  /** How early the failsafe begins when a pass comes with every price. */
  leadMs: number
}

/** Collects prices in any order, without keeping the batches; of several at one instant the first counts. */
export function gatherHistory() {
  let at = new Float64Array(1_024)
  let price = new BigInt64Array(1_024)
  let length = 0
  return {
    add(points: readonly { at: Instant; price: Price }[]): void {
      for (const point of points) {
        if (length === at.length) {
          at = new Float64Array(at.buffer.transfer(2 * at.byteLength))
          price = new BigInt64Array(price.buffer.transfer(2 * price.byteLength))
        }
        at[length] = point.at
        price[length] = point.price
        length += 1
      }
    },
    history: (): History =>
      historyOf(inOrder({ at: at.subarray(0, length), price: price.subarray(0, length) })),
  }
}

type Prices = Pick<History, 'at' | 'price'>

function inOrder(prices: Prices): Prices {
  const { at, price } = prices
  if (at.every((instant, i) => i === 0 || instant > (at[i - 1] ?? 0))) return prices
  const order = Uint32Array.from(at.keys())
    .sort((a, b) => (at[a] ?? 0) - (at[b] ?? 0) || a - b)
    .filter((bar, i, all) => i === 0 || at[bar] !== at[all[i - 1] ?? 0])
  return {
    at: Float64Array.from(order, (bar) => at[bar] ?? 0),
    price: BigInt64Array.from(order, (bar) => price[bar] ?? 0n),
  }
}

function historyOf({ at, price }: Prices): History {
  const value = new Float64Array(at.length)
  const sigmas = new Float64Array(at.length)
  let volatility = FIRST_VOLATILITY
  for (let bar = 0; bar < at.length; bar++) {
    const observed = price[bar] as Price
    volatility = observe(volatility, observed, at[bar] as Instant)
    value[bar] = priceAsNumber(observed)
    sigmas[bar] = sigma(volatility)
  }
  const gapMs = usualGap(at)
  // Passes are assumed to come as usual: holes in a history are not outages of a scheduler.
  const leadMs = failsafeLead([gapMs, gapMs])
  return { at, price, value, inverse: value.map((dollars) => 1 / dollars), sigma: sigmas, gapMs, leadMs }
}

function usualGap(at: Float64Array): number {
  const gaps = Float64Array.from(at.subarray(1, 1_001), (instant, i) => instant - (at[i] ?? 0)).sort()
  return gaps[Math.floor(gaps.length / 2)] ?? 0
}

// Repeatable random numbers, for simulations and statistics. Never for anything secret.

/** Numbers in [0, 1) that are the same for the same seed: mulberry32. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

// When the windows of a backtest begin: at every moment that the prices of its file can tell apart. A plan begins when
// its user likes, so no start is more typical than another, and a mean over some starts only is partly chance.

/** The first window starts this long after the first price, when the volatility is known. */
export const WARM_UP_DAYS = 14

/**
 * Possible distances between starts, in minutes. All of them divide four hours, and so each slot of the policy, so that
 * windows can share slots. Starts less than five minutes apart would give windows that differ by a price or two.
 */
const STEPS_MINUTES = [5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 40, 48, 60, 80, 120, 240]

/** The most slots that are played for one frequency: seconds of work. The policy has as many slots as starts. */
const SLOTS_PLAYED_MAX = 1_000_000

/** The wanted windows: of this length, beginning at `since` or later and ending at `until` or earlier. */
type Wanted = { windowMs: number; slots: number; since: Instant | undefined; until: Instant | undefined }

/** The moments at which windows begin: each `nth` point of a grid from `first` on, with points `stepMs` apart. */
type Starts = { first: Instant; stepMs: number; nth: number }

/** The grid on which windows begin, and mostly their slots too. */
type Grid = Starts & {
  points: Uint32Array
  width: number
  /** Whether every slot begins at a point of the grid. */
  hasSlots: boolean
  /** The first bar at or after each point; where there is none, the number of bars. */
  bar: Uint32Array
}

/**
 * The grid of every whole window in a history, with points as close as its prices: from five minutes to four hours. A
 * window without a price in its failsafe, because the history has a hole there, could not spend its budget. It is left
 * out.
 */
function gridOf({ at, gapMs, leadMs }: History, wanted: Wanted): Grid {
  const { windowMs, slots } = wanted
  const stepMs = (STEPS_MINUTES.find((minutes) => minutes * MINUTE_MS >= gapMs) ?? 240) * MINUTE_MS
  const { first, count } = everyStart(at, wanted, stepMs)
  const hasSlots = (windowMs / slots) % stepMs === 0
  const nth = thinning(hasSlots ? count : count * slots, stepMs)
  const width = windowMs / stepMs
  const bar = barsAt(at, { first, stepMs }, count === 0 ? 0 : count + width)
  const canSpend = (point: number): boolean => {
    const windowStart = plus(first, point * stepMs)
    const windowEnd = plus(windowStart, windowMs)
    const last = at[(bar[point + width] ?? 0) - 1] ?? 0
    return last >= failsafeStart({ windowStart, windowEnd }, leadMs)
  }
  const points = Uint32Array.from({ length: Math.ceil(count / nth) }, (_, i) => i * nth).filter(canSpend)
  return { first, stepMs, nth, points, width, hasSlots, bar }
}

function everyStart(
  at: Float64Array,
  { windowMs, since, until }: Wanted,
  stepMs: number,
): { first: Instant; count: number } {
  const earliest = plus((at[0] ?? 0) as Instant, WARM_UP_DAYS * DAY_MS)
  const skipped = Math.max(0, Math.ceil(((since ?? earliest) - earliest) / stepMs))
  const first = plus(earliest, skipped * stepMs)
  const end = Math.min(at.at(-1) ?? 0, until ?? Number.POSITIVE_INFINITY)
  return { first, count: Math.max(0, Math.floor((end - windowMs - first) / stepMs) + 1) }
}

/**
 * Where all starts would be too much work, as with a cut into slots that no two windows share, only every n-th start is
 * taken. The number has no factor in common with the points of two weeks, so that every hour of every weekday is
 * covered.
 */
function thinning(slotsToPlay: number, stepMs: number): number {
  let nth = Math.max(1, Math.ceil(slotsToPlay / SLOTS_PLAYED_MAX))
  while (commonDivisor(nth, LONGEST_WINDOW_MS / stepMs) > 1) nth += 1
  return nth
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b))

function barsAt(at: Float64Array, { first, stepMs }: Omit<Starts, 'nth'>, length: number): Uint32Array {
  let bar = 0
  return Uint32Array.from({ length }, (_, point) => {
    while (bar < at.length && (at[bar] ?? 0) < first + point * stepMs) bar += 1
    return bar
  })
}
