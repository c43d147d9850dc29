// How a window is cut into slots and units: how long a slot is, and when each of them comes.

import { WINDOW_MS } from '../../core/frequency.ts'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../../core/instant.ts'
import { floorToCents, type Usd } from '../../core/money.ts'
import type { Layout, Schedule } from '../../core/schedule-state.ts'

/** A schedule whose window is cut into slots. */
export type Planned = Schedule & { layout: Layout }

/** How long a slot of a window is, as long as the budget is enough for that many: three in a day, else two a day. */
export const slotMsOf = (windowMs: number): number =>
  windowMs <= WINDOW_MS.daily ? 8 * HOUR_MS : 12 * HOUR_MS

/**
 * Cuts a window into slots and units so that no unit is under the floor: wider slots, then one unit each, then fewer.
 */
export function layout(of: { windowStart: Instant; windowEnd: Instant; budget: Usd; floor: Usd }): Layout {
  const { budget, floor } = of
  const lengthMs = of.windowEnd - of.windowStart
  // What is left of a slot that had another window may be shorter than any of these.
  const days = Math.max(1, Math.round(lengthMs / DAY_MS))
  const most = Math.max(1, Math.round(lengthMs / slotMsOf(lengthMs)))
  const fits = (slots: number, unitsPerSlot: number): boolean =>
    floorToCents((budget / BigInt(slots * unitsPerSlot)) as Usd) >= floor
  const cut = (slots: number, unitsPerSlot: number): Layout => ({ slots, unitsPerSlot, unitsFired: 0 })
  if (fits(most, 2)) return cut(most, 2)
  if (fits(days, 2)) return cut(days, 2)
  const affordable = Number(budget / floor)
  return cut(Math.max(1, Math.min(days, affordable)), 1)
}

/** Where slot `i` of a window starts. */
export function slotStart(
  of: { windowStart: Instant; windowEnd: Instant },
  slots: number,
  i: number,
): Instant {
  return plus(of.windowStart, Math.ceil(((of.windowEnd - of.windowStart) * i) / slots))
}

/** Which slot of its window an instant is in. */
export function slotAt(seen: Planned, now: Instant): number {
  const length = seen.windowEnd - seen.windowStart
  return Math.min(seen.layout.slots - 1, Math.floor(((now - seen.windowStart) * seen.layout.slots) / length))
}

/** When unit `m` of a slot is due without a live price: spread over the slot, each in the middle of its share. */
export function clockTime(seen: Planned, slot: number, m: number): Instant {
  const { slots, unitsPerSlot } = seen.layout
  const from = slotStart(seen, slots, slot)
  const length = slotStart(seen, slots, slot + 1) - from
  return plus(from, Math.ceil(((m + 0.5) * length) / unitsPerSlot))
}
