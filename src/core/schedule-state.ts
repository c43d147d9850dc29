// A schedule: the small, hot record of one plan's current window that a scheduler pass reads and writes.
// Its due conditions are plain comparisons of columns, so that a pass costs what it fires (docs/engine.md).

import { EXTRA_TRANCHES_MAX } from './failsafe-tries.ts'
import type { Instant } from './instant.ts'
import { leastInstruction } from './least-instruction.ts'
import type { Price, Usd } from './money.ts'
import { unreserved, type Window } from './window.ts'

/** How the window is cut into slots, each with the same number of units, and how many units are already out. */
export type Layout = { slots: number; unitsPerSlot: number; unitsFired: number }

/** The slot's first live price and the half-width of the band around it, as a logarithm. */
export type Reference = { price: Price; halfWidth: number }

export type Schedule = {
  planId: number
  windowId: number
  windowStart: Instant
  windowEnd: Instant
  budget: Usd
  /** What is neither reserved nor spent. */
  fireable: Usd
  /** The least an instruction may be (least-instruction.ts). */
  floor: Usd
  trancheIndex: number
  /** Null until the first pass of the window. */
  layout: Layout | null
  /** The slot last entered; -1 before the first. */
  slot: number
  reference: Reference | null
  /** The next instant at which the plan must be looked at whatever the price does. */
  nextRunAt: Instant
  /** The next unit fires at a live price at or under this one. */
  limitPrice: Price | null
  /** The next unit fires at this instant when there is no live price. */
  clockAt: Instant | null
  /** Extra tranches still allowed for money that comes back when no unit is left. */
  extrasLeft: number
  nextExtraAt: Instant
}

/** Above every price: the limit of a unit whose slot has had no live price yet, so that the first one is noticed. */
export const ANY_PRICE = (2n ** 62n) as Price

/** The price at or under which the next unit fires; null when it waits for none, or for the first one of its slot. */
export const awaitedPrice = ({ limitPrice }: Pick<Schedule, 'limitPrice'>): Price | null =>
  limitPrice === ANY_PRICE ? null : limitPrice

/** The schedule of a window no pass has seen yet: looked at as soon as it starts. */
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
