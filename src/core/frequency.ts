// How often a plan buys: the length of its windows and of their slots, and the grid that windows lie on.

import { DAY_MS, HOUR_MS, type Instant, plus } from './instant.ts'

export const FREQUENCIES = ['daily', 'weekly', 'bi-weekly'] as const
export type Frequency = (typeof FREQUENCIES)[number]

export const WINDOW_MS: Record<Frequency, number> = {
  daily: DAY_MS,
  weekly: 7 * DAY_MS,
  'bi-weekly': 14 * DAY_MS,
}

/** How long a slot of a window is, as long as the budget is enough for that many: three in a day, else two a day. */
export const slotMsOf = (windowMs: number): number =>
  windowMs <= WINDOW_MS.daily ? 8 * HOUR_MS : 12 * HOUR_MS

/** The slot of the grid start + n * length that contains `now`; `start` itself when it lies ahead. */
export function gridStart(start: Instant, lengthMs: number, now: Instant): Instant {
  return now <= start ? start : plus(start, Math.floor((now - start) / lengthMs) * lengthMs)
}

/** The slot of the grid start + n * length that contains `now`, also for a start that lies ahead of it. */
export const gridSlot = (start: Instant, lengthMs: number, now: Instant): Instant =>
  plus(start, Math.floor((now - start) / lengthMs) * lengthMs)
