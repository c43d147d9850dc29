// Windows: their ledger, which one follows, the schedule that a pass reads, when the failsafe begins, and the smallest
// instruction. A window opens with a budget; tranches reserve from it, and confirmations turn reservations into
// spending or return them. Every amount stays with the window that reserved it.

import { lesser, type Price, type Usd, ZERO_USD } from './money.ts'
import { assert } from './problem.ts'
import { DAY_MS, type Instant, later, MINUTE_MS, plus } from './time.ts'

/** How often a plan buys: once in each window. */
export const FREQUENCIES = ['daily', 'weekly', 'bi-weekly'] as const
export type Frequency = (typeof FREQUENCIES)[number]

export const WINDOW_MS: Record<Frequency, number> = {
  daily: DAY_MS,
  weekly: 7 * DAY_MS,
  'bi-weekly': 14 * DAY_MS,
}
export const LONGEST_WINDOW_MS = WINDOW_MS['bi-weekly']

export type CloseReason = 'ended' | 'reset' | 'cancelled'

export type Window = {
  windowId: number
  planId: number
  start: Instant
  end: Instant
  budget: Usd
  /** The sum of its open executions. */
  reserved: Usd
  /** What its trades and adjustments took from the budget; their sum is `spent + excess`. */
  spent: Usd
  /** Dollars bought beyond a reservation or the budget, by an operator's decision. */
  excess: Usd
  /** Dollars that can no longer be spent: zero while the window is open, the whole rest once it is closed. */
  released: Usd
  closed: { at: Instant; reason: CloseReason } | null
}

/** A window about to be opened; the store gives it its id. */
export type Opening = { start: Instant; end: Instant; budget: Usd }

/** A window that has just been opened, with its whole budget unspent. */
export const opened = (
  { start, end, budget }: Opening,
  ids: { windowId: number; planId: number },
): Window => ({
  ...ids,
  start,
  end,
  budget,
  reserved: ZERO_USD,
  spent: ZERO_USD,
  excess: ZERO_USD,
  released: ZERO_USD,
  closed: null,
})

/** How much the current window can still put into tranches. */
export const unreserved = (window: Window): Usd => (window.budget - window.reserved - window.spent) as Usd

export function reserve(window: Window, amount: Usd): Window {
  assert(window.closed === null, 'only the current window reserves')
  return checked({ ...window, reserved: (window.reserved + amount) as Usd })
}

/**
 * The part of the budget that no reservation and no trade claims: still to be spent while the window is open, released
 * once it is closed.
 */
export const leftOf = (window: Window): Usd => (window.closed ? window.released : unreserved(window))

/**
 * Settles a reservation: `spent` of it was spent (zero for a failure), and the rest returns to this window, where it
 * first covers an excess.
 */
export function settle(window: Window, reservation: Usd, spent: Usd): Window {
  assert(0n <= spent && spent <= reservation, 'a fill is at most its reservation')
  const refund = reservation - spent
  const covered = lesser(refund, window.excess)
  return checked({
    ...window,
    reserved: (window.reserved - reservation) as Usd,
    spent: (window.spent + spent + covered) as Usd,
    excess: (window.excess - covered) as Usd,
    released: window.closed ? ((window.released + refund - covered) as Usd) : ZERO_USD,
  })
}

/**
 * Changes the total of an execution without an open reservation from `before` to `after`. An increase is taken from
 * what the window has left, up to the execution's own reservation; the rest is excess. A decrease reduces the window's
 * excess first, and only then returns to the window.
 */
export function adjustSpent(
  window: Window,
  { before, after, reservation }: { before: Usd; after: Usd; reservation: Usd },
): Window {
  const difference = after - before
  if (difference < 0n) return takeBack(window, -difference as Usd)
  const within = lesser(after, reservation) - lesser(before, reservation)
  const taken = lesser(within, leftOf(window))
  return checked({
    ...window,
    spent: (window.spent + taken) as Usd,
    excess: (window.excess + difference - taken) as Usd,
    released: window.closed ? ((window.released - taken) as Usd) : ZERO_USD,
  })
}

function takeBack(window: Window, amount: Usd): Window {
  const covered = lesser(amount, window.excess)
  const back = amount - covered
  return checked({
    ...window,
    spent: (window.spent - back) as Usd,
    excess: (window.excess - covered) as Usd,
    released: window.closed ? ((window.released + back) as Usd) : ZERO_USD,
  })
}

/** Closes a window: dollars neither spent nor reserved are released. */
export function close(window: Window, at: Instant, reason: CloseReason): Window {
  assert(window.closed === null, 'a window closes once')
  return checked({ ...window, released: unreserved(window), closed: { at, reason } })
}

export function opening(start: Instant, frequency: Frequency, budget: Usd): Opening {
  return { start, end: plus(start, WINDOW_MS[frequency]), budget }
}

function checked(window: Window): Window {
  const { budget, reserved, spent, excess, released } = window
  assert(reserved >= 0n && spent >= 0n && excess >= 0n && released >= 0n, 'no ledger column is negative')
  assert(reserved + spent + released <= budget, 'reserved + spent + released is at most the budget')
  assert(
    !window.closed || reserved + spent + released === budget,
    'a closed window accounts for its whole budget',
  )
  return window
}

// The window that follows one that is over, and the place of a plan's window on its grid.

/** A plan's window and the terms that decide which one follows. */
export type OnGrid = { start: Instant; end: Instant; frequency: Frequency; amount: Usd }

/** The window after one that is over: on the same grid, past any that were missed, with one budget only. */
export const roll = (over: OnGrid, now: Instant): Opening | null =>
  now < over.end ? null : windowCellAt(over, now)

/**
 * The cell of a window's grid that contains `now`, wherever the window itself lies. Windows end where their cell does.
 */
export function windowCellAt({ end, frequency, amount }: OnGrid, now: Instant): Opening {
  const length = WINDOW_MS[frequency]
  return opening(cellStart(plus(end, -length), length, now), frequency, amount)
}

/** The cell where a plan's window belongs: the present cell of its grid, or the one at a start_date still ahead. */
export const cellDue = (window: OnGrid, startDate: Instant, now: Instant): Opening =>
  now < startDate ? opening(startDate, window.frequency, window.amount) : windowCellAt(window, now)

/**
 * The amount that windows started in a cell have spent and reserved, and the last of their starts that executions bear.
 */
type CellUse = { claimed: Usd; usedStart: Instant | null }

/**
 * The window for a cell that may have had windows before, because the clock was once ahead. It has what they left, and
 * starts a millisecond after them, so that no idempotency key is repeated. Null when too little money or time is left.
 */
export function openCell(cell: Opening, { claimed, usedStart }: CellUse, floor: Usd): Opening | null {
  const budget = (cell.budget - claimed) as Usd
  if (claimed > 0n && budget < floor) return null
  const start = usedStart === null ? cell.start : plus(usedStart, 1)
  return start < cell.end ? { ...cell, start, budget } : null
}

export const cellAfter = ({ start, end, budget }: Opening): Opening => ({
  start: end,
  end: plus(end, end - start),
  budget,
})

/**
 * A plan's first window: the present cell of its grid, or the one at a start_date still ahead. If a reset of the
 * sandbox removed windows under the plan's name that may have started up to `usedUntil`, it starts a millisecond after
 * that, so that no idempotency key is repeated. It still ends with its cell.
 */
export function firstWindow(
  { startDate, frequency, amount }: { startDate: Instant; frequency: Frequency; amount: Usd },
  usedUntil: Instant | null,
  now: Instant,
): Opening {
  const free = usedUntil === null ? now : later(now, plus(usedUntil, 1))
  const cell = opening(gridStart(startDate, WINDOW_MS[frequency], free), frequency, amount)
  return usedUntil === null ? cell : { ...cell, start: later(cell.start, plus(usedUntil, 1)) }
}

/** The start of the cell that contains `now` on the grid start + n * length; `start` itself when it lies ahead. */
export function gridStart(start: Instant, lengthMs: number, now: Instant): Instant {
  return now <= start ? start : cellStart(start, lengthMs, now)
}

/** The start of the cell that contains `now`, also for a grid that starts later. */
const cellStart = (start: Instant, lengthMs: number, now: Instant): Instant =>
  plus(start, Math.floor((now - start) / lengthMs) * lengthMs)

// Whether a change of a plan resets its window, and where the new one starts.

type Terms = { amount: Usd; frequency: Frequency; status: 'active' | 'paused' | 'cancelled' }

/** The starts of a plan's windows that had executions: no other window may start there. */
export type UsedStarts = {
  /** The starts that are not in the past. */
  usedStarts: readonly Instant[]
  /** The latest start that windows under the plan's name may have had before a reset of its sandbox; null for none. */
  usedBeforeReset: Instant | null
}

/**
 * Whether a window with the full amount replaces what is left of the current one: when the amount or the frequency
 * changes, and when a paused plan becomes active.
 */
export function resetsWindow(before: Terms, after: Terms): boolean {
  const reactivated = before.status === 'paused' && after.status === 'active'
  return reactivated || after.amount !== before.amount || after.frequency !== before.frequency
}

/** Starts further ahead than this come from a wrong clock: a new window need not come after them. */
const USED_AHEAD_MS = LONGEST_WINDOW_MS

/**
 * Where a reset window starts: now, or at the plan's start_date while that lies ahead. If the clock has gone back, it
 * starts a millisecond after the last window that already has executions, and after all that a reset of the sandbox
 * removed, so that no idempotency key is repeated.
 */
export function resetStart(
  { usedStarts, usedBeforeReset }: UsedStarts,
  startDate: Instant,
  now: Instant,
): Instant {
  const free = usedBeforeReset === null ? now : later(now, plus(usedBeforeReset, 1))
  const wanted = later(free, startDate)
  const near = usedStarts.filter((used) => wanted <= used && used < plus(wanted, USED_AHEAD_MS))
  let start = near.reduce((latest, used) => later(latest, plus(used, 1)), wanted)
  while (usedStarts.includes(start)) start = plus(start, 1)
  return start
}

// A schedule: the small record of one plan's current window that a scheduler pass reads and writes. Its due conditions
// are plain comparisons of columns, so that the cost of a pass depends on what it fires (docs/engine.md).

/** How the window is cut into slots of equally many units, and how many units have fired. */
export type Layout = { slots: number; unitsPerSlot: number; unitsFired: number }

/** The slot's first live price and the half-width of the band around it, as a logarithm. */
export type Reference = { price: Price; halfWidth: number }

export type Schedule = {
  planId: number
  windowId: number
  windowStart: Instant
  windowEnd: Instant
  budget: Usd
  /** The part of the budget neither reserved nor spent. */
  fireable: Usd
  /** The smallest instruction. */
  floor: Usd
  trancheIndex: number
  /** Null until the first pass of the window. */
  layout: Layout | null
  /** The slot last entered; -1 before the first. */
  slot: number
  reference: Reference | null
  /** The next time at which the plan must be looked at, whatever the price. */
  nextRunAt: Instant
  /** The next unit fires at a live price at or under this one. */
  limitPrice: Price | null
  /** The next unit fires at this instant when there is no live price. */
  clockAt: Instant | null
  /** Extra tranches still allowed for returned money when no unit is left. */
  extrasLeft: number
  nextExtraAt: Instant
}

/** Above every price: the limit of a unit whose slot has had no live price yet, so that the first one is noticed. */
export const ANY_PRICE = (2n ** 62n) as Price

/**
 * The price at or under which the next unit fires; null when it waits for no price, or for the first one of its slot.
 */
export const awaitedPrice = ({ limitPrice }: Pick<Schedule, 'limitPrice'>): Price | null =>
  limitPrice === ANY_PRICE ? null : limitPrice

/** The schedule of a window that no pass has visited: the first visit is due at its start. */
export function freshSchedule(window: Window, minTranche: Usd): Schedule {
  return {
    planId: window.planId,
    windowId: window.windowId,
    windowStart: window.start,
    windowEnd: window.end,
    budget: window.budget,
    fireable: unreserved(window),
    floor: leastInstruction(minTranche, window.budget),
    trancheIndex: 0,
    layout: null,
    slot: -1,
    reference: null,
    nextRunAt: window.start,
    limitPrice: null,
    clockAt: null,
    extrasLeft: EXTRA_TRANCHES_MAX,
    nextExtraAt: window.start,
  }
}

/**
 * The schedule after tranches that were bought without the ledger knowing: `next` is the index of the next tranche, and
 * `taken` is what they took from the window's budget. They count as units of the slots; the next pass works out the
 * wait for the following unit.
 */
export function pastTranches(
  schedule: Schedule,
  { next, taken }: { next: number; taken: Usd },
  now: Instant,
): Schedule {
  const { layout, fireable, trancheIndex } = schedule
  return {
    ...schedule,
    fireable: (fireable - taken) as Usd,
    trancheIndex: next,
    layout: layout && { ...layout, unitsFired: unitsAfter(layout, { fireable, taken }, next - trancheIndex) },
    nextRunAt: now,
    limitPrice: null,
    clockAt: null,
  }
}

/** How many units the tranches took: to the nearest one, and at least one for each tranche. */
function unitsAfter(
  { slots, unitsPerSlot, unitsFired }: Layout,
  { fireable, taken }: { fireable: Usd; taken: Usd },
  tranches: number,
): number {
  const total = slots * unitsPerSlot
  const worth = fireable === 0n ? 0n : (2n * taken * BigInt(total - unitsFired) + fireable) / (2n * fireable)
  return Math.min(total, unitsFired + Math.max(tranches, Number(worth)))
}

// When a window's failsafe begins, given how often passes have come lately.

export const FAILSAFE_LEAD_MIN_MS = 15 * MINUTE_MS
/** The number of gaps between the last passes that decides how early a failsafe begins. */
export const PASS_GAPS_SEEN = 8

/** How early the failsafe begins: twice the second-longest of the last gaps, so that one outage does not count. */
export function failsafeLead(passGapsMs: readonly number[]): number {
  const longestFirst = passGapsMs.slice(-PASS_GAPS_SEEN).sort((a, b) => b - a)
  return Math.max(FAILSAFE_LEAD_MIN_MS, 2 * (longestFirst[1] ?? 0))
}

/** When the failsafe of a window begins: `leadMs` before its end, but not before the window itself. */
export const failsafeStart = (
  { windowStart, windowEnd }: { windowStart: Instant; windowEnd: Instant },
  leadMs: number,
): Instant => later(windowStart, plus(windowEnd, -leadMs))

// How often the failsafe tries again with returned money.

/** The most extra tranches that a window may fire for returned money during its failsafe. */
export const EXTRA_TRANCHES_MAX = 3
/** The least time between them. */
export const EXTRA_SPACING_MS = 5 * MINUTE_MS

// The smallest instruction of a window. src/store/sql/fragments.ts has the same rule in SQL.

/** The partner's minimum tranche, or the whole budget where that is smaller. */
export const leastInstruction = (minTranche: Usd, budget: Usd): Usd => lesser(minTranche, budget)
