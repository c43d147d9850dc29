// When the windows of a backtest begin: at every moment that the prices of its file can tell apart. A plan begins when
// its user likes, so no start is more typical than another, and a mean over only some of them is partly chance.

import { DAY_MS, type Instant, MINUTE_MS, plus, WINDOW_MS } from '../core/time.ts'
import { failsafeStart } from '../core/window.ts'

export const WARM_UP_DAYS = 14
/** So long after the first price of a history the first window starts: its volatility is known by then. */
const WARM_UP_MS = WARM_UP_DAYS * DAY_MS

/**
 * How far starts may be apart, in minutes. All of them divide four hours, and so each slot of the policy, which windows
 * can then share. With less than five minutes between their starts, windows would differ by a price or two.
 */
const STEPS_MINUTES = [5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 40, 48, 60, 80, 120, 240]

/** The most slots that are played for one frequency: seconds of work. Those of the policy are as many as the starts. */
const SLOTS_PLAYED_MAX = 1_000_000

/** Which windows are wanted: those of such a length that begin at `since` or later and end at `until` or earlier. */
type Wanted = { windowMs: number; slots: number; since: Instant | undefined; until: Instant | undefined }

/** The moments at which windows begin: each `nth` point of a grid from `first` on, with points `stepMs` apart. */
export type Starts = { first: Instant; stepMs: number; nth: number }

/** The grid on which windows begin, and mostly their slots too. */
export type Grid = Starts & {
  /** The points at which windows begin. */
  points: Uint32Array
  /** The points that a window reaches over. */
  width: number
  /** Whether the slots of all windows begin at points. */
  hasSlots: boolean
  /** The first bar at or after each point; where there is none, the number of bars. */
  bar: Uint32Array
}

type Prices = { at: Float64Array; gapMs: number; leadMs: number }

/**
 * The grid of every whole window in a history, with points as close as its prices: from five minutes to four hours. A
 * window without a price in its failsafe, because the history has a hole there, could not spend its budget. It is left
 * out.
 */
export function gridOf({ at, gapMs, leadMs }: Prices, wanted: Wanted): Grid {
  const { windowMs, slots } = wanted
  const stepMs = (STEPS_MINUTES.find((minutes) => minutes * MINUTE_MS >= gapMs) ?? 240) * MINUTE_MS
  const { first, count } = everyStart(at, wanted, stepMs)
  const hasSlots = (windowMs / slots) % stepMs === 0
  const nth = thinning(hasSlots ? count : count * slots, stepMs)
  const width = windowMs / stepMs
  const bar = barsAt(at, { first, stepMs, length: count === 0 ? 0 : count + width })
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
  const earliest = plus((at[0] ?? 0) as Instant, WARM_UP_MS)
  const skipped = Math.max(0, Math.ceil(((since ?? earliest) - earliest) / stepMs))
  const first = plus(earliest, skipped * stepMs)
  const end = Math.min(at.at(-1) ?? 0, until ?? Number.POSITIVE_INFINITY)
  return { first, count: Math.max(0, Math.floor((end - windowMs - first) / stepMs) + 1) }
}

/**
 * Where all starts would be too much work, as with a cut into slots that no two windows share, one in so many is taken.
 * The number has no factor in common with the points of two weeks, so that every hour of every weekday has its turn.
 */
function thinning(slotsToPlay: number, stepMs: number): number {
  let nth = Math.max(1, Math.ceil(slotsToPlay / SLOTS_PLAYED_MAX))
  while (commonDivisor(nth, WINDOW_MS['bi-weekly'] / stepMs) > 1) nth += 1
  return nth
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b))

type Points = { first: Instant; stepMs: number; length: number }

function barsAt(at: Float64Array, { first, stepMs, length }: Points): Uint32Array {
  let bar = 0
  return Uint32Array.from({ length }, (_, point) => {
    while (bar < at.length && (at[bar] ?? 0) < first + point * stepMs) bar += 1
    return bar
  })
}
