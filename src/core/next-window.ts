// Which window follows one that is over, and where on its grid a plan's window lies.

import { type Frequency, WINDOW_MS } from './frequency.ts'
import { type Instant, later, plus } from './instant.ts'
import type { Usd } from './money.ts'
import { type Opening, opening } from './window.ts'

/** A plan's window and the terms that decide which one comes next. */
export type OnGrid = { start: Instant; end: Instant; frequency: Frequency; amount: Usd }

/** The window that follows one that is over: on the same grid, past the windows slept through, with one budget only. */
export const roll = (over: OnGrid, now: Instant): Opening | null =>
  now < over.end ? null : windowSlotAt(over, now)

/**
 * The slot of a window's grid that contains `now`, wherever the window itself lies. Windows end where their slot does.
 */
function windowSlotAt({ end, frequency, amount }: OnGrid, now: Instant): Opening {
  const length = WINDOW_MS[frequency]
  return opening(gridSlot(plus(end, -length), length, now), frequency, amount)
}

/**
 * Where a plan's window belongs, wherever it lies: in the slot of its grid that is now, or at a start_date still ahead.
 */
export const slotDue = (window: OnGrid, startDate: Instant, now: Instant): Opening =>
  now < startDate ? opening(startDate, window.frequency, window.amount) : windowSlotAt(window, now)

/** What windows that started in a slot have spent and reserved, and the last of their starts that executions bear. */
export type SlotUse = { claimed: Usd; usedStart: Instant | null }

/**
 * The window for a slot that may have had windows before, because the clock was once ahead: it has what they left, and
 * starts a millisecond after them, so that no idempotency key comes twice. Null when too little is left, of the money
 * or of the slot.
 */
export function openSlot(slot: Opening, { claimed, usedStart }: SlotUse, floor: Usd): Opening | null {
  const budget = (slot.budget - claimed) as Usd
  if (claimed > 0n && budget < floor) return null
  const start = usedStart === null ? slot.start : plus(usedStart, 1)
  return start < slot.end ? { ...slot, start, budget } : null
}

export const slotAfter = ({ start, end, budget }: Opening): Opening => ({
  start: end,
  end: plus(end, end - start),
  budget,
})

/**
 * A plan's first window: the slot of its grid that is now, or the one at a start_date still ahead. Where windows of its
 * name may have started up to `usedUntil`, which a reset has removed, it starts a millisecond after that, so that no
 * idempotency key comes twice; it ends with the slot even so.
 */
export function firstWindow(
  { startDate, frequency, amount }: { startDate: Instant; frequency: Frequency; amount: Usd },
  usedUntil: Instant | null,
  now: Instant,
): Opening {
  const free = usedUntil === null ? now : later(now, plus(usedUntil, 1))
  const slot = opening(gridStart(startDate, WINDOW_MS[frequency], free), frequency, amount)
  return usedUntil === null ? slot : { ...slot, start: later(slot.start, plus(usedUntil, 1)) }
}

/** The slot of the grid start + n * length that contains `now`; `start` itself when it lies ahead. */
export function gridStart(start: Instant, lengthMs: number, now: Instant): Instant {
  return now <= start ? start : gridSlot(start, lengthMs, now)
}

/** The slot of the grid start + n * length that contains `now`, also for a start that lies ahead of it. */
const gridSlot = (start: Instant, lengthMs: number, now: Instant): Instant =>
  plus(start, Math.floor((now - start) / lengthMs) * lengthMs)
