// SlotReserve: whether a tranche of a window fires now, and how much it spends. The scheduler and the backtest run this
// same code.

import type { Firing, Tranche, Trigger } from '../core/execution.ts'
import { floorToCents, lesser, type Price, type Usd, ZERO_USD } from '../core/money.ts'
import { assert } from '../core/problem.ts'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../core/time.ts'
import {
  ANY_PRICE,
  EXTRA_SPACING_MS,
  failsafeStart,
  type Layout,
  type Reference,
  type Schedule,
  WINDOW_MS,
} from '../core/window.ts'

/** The facts of a pass: its instant, a live price or none, the volatility, and how early the failsafe begins. */
export type Pass = { now: Instant; price: Price | null; sigma: number; leadMs: number }

type Decision = { schedule: Schedule; tranche: Tranche | null }

/**
 * Decides one plan in one pass. At most one tranche fires: all units due together are merged into it.
 * The window must not be over. A pass before the window's start (a clock set back) only waits.
 */
export function decide(schedule: Schedule, pass: Pass): Decision {
  assert(pass.now < schedule.windowEnd, 'a window that is over is rolled before it is timed')
  if (pass.now < schedule.windowStart) return rest(schedule, schedule.windowStart)
  const planned: Planned = { ...schedule, layout: schedule.layout ?? layout(schedule) }
  return pass.now >= failsafeStart(schedule, pass.leadMs) ? failsafe(planned, pass) : inSlot(planned, pass)
}

/**
 * Fires the next tranche before its time, for a sandbox; a tranche that is due anyway is the next one. Null when the
 * window has not begun or has too little left for an instruction.
 */
export function fireNext(schedule: Schedule, pass: Pass): Decision | null {
  if (pass.now < schedule.windowStart) return null
  const decision = decide(schedule, pass)
  if (decision.tranche) return decision
  const planned: Planned = { ...decision.schedule, layout: decision.schedule.layout ?? layout(schedule) }
  const left = planned.layout.slots * planned.layout.unitsPerSlot - planned.layout.unitsFired
  const slot = slotAt(planned, pass.now)
  // The next pass visits the plan again, and works out the wait for the following unit.
  const woken: Planned = { ...planned, nextRunAt: pass.now, limitPrice: null, clockAt: null }
  const firing = { trigger: 'clock', slot, reservationPrice: null, ...evidence(null, pass) } as const
  for (let units = 1; units <= left; units++) {
    const amount = worth(planned, units)
    if (amount >= planned.floor) return fire(woken, amount, { ...firing, units })
  }
  // Money that was returned after every unit had fired.
  const rest = floorToCents(planned.fireable)
  return rest >= planned.floor ? fire(woken, rest, { ...firing, units: 0 }) : null
}

function inSlot(planned: Planned, pass: Pass): Decision {
  const { slots, unitsPerSlot: k, unitsFired } = planned.layout
  const slot = slotAt(planned, pass.now)
  const reference = referenceOf(planned, slot, pass)
  const behind = Math.max(0, slot * k - unitsFired)
  let trigger: Trigger | null = null
  if (behind > 0) trigger = planned.slot === slot - 1 && behind <= k ? 'deadline' : 'catch_up'

  let m = Math.max(0, unitsFired - slot * k)
  let due = behind
  let limit: Price | null = null
  if (m < k && reference && pass.price !== null) {
    limit = reservationPrice(reference, m, k)
    if (pass.price <= limit) {
      trigger ??= m === 0 ? 'slot_start' : 'limit'
      m += 1
      due += 1
    }
  } else if (m < k && pass.price === null) {
    while (m < k && clockTime(planned, slot, m) <= pass.now) {
      trigger ??= 'clock'
      m += 1
      due += 1
    }
  }

  const nextRunAt = slotStart(planned, slots, slot + 1)
  const entered: Planned = { ...planned, slot, reference, nextRunAt, limitPrice: null, clockAt: null }
  const amount = worth(planned, due)
  // After the minimum was raised, units that are now too small wait for the next slot and merge with its units.
  if (due > 0 && amount < planned.floor) return { schedule: entered, tranche: null }

  const waiting: Planned =
    m < k
      ? {
          ...entered,
          limitPrice: reference ? reservationPrice(reference, m, k) : ANY_PRICE,
          clockAt: clockTime(planned, slot, m),
        }
      : entered
  if (trigger === null) return { schedule: waiting, tranche: null }
  return fire(waiting, amount, {
    trigger,
    slot,
    units: due,
    reservationPrice: limit,
    ...evidence(reference, pass),
  })
}

/** Near the window's end: fires everything that is left at once, then up to three extra tranches for returned money. */
function failsafe(planned: Planned, pass: Pass): Decision {
  const { slots, unitsPerSlot, unitsFired } = planned.layout
  const units = slots * unitsPerSlot - unitsFired
  const amount = floorToCents(planned.fireable)
  const resting = rest(planned, planned.windowEnd)
  if (amount < planned.floor) return resting
  const slot = slotAt(planned, pass.now)
  const firing: Firing = {
    trigger: 'failsafe',
    slot,
    units,
    reservationPrice: null,
    ...evidence(planned.slot === slot ? planned.reference : null, pass),
  }
  if (units > 0) return fire({ ...resting.schedule, layout: planned.layout }, amount, firing)
  if (planned.extrasLeft === 0 || pass.now < planned.nextExtraAt) return resting
  const extra = { extrasLeft: planned.extrasLeft - 1, nextExtraAt: plus(pass.now, EXTRA_SPACING_MS) }
  return fire({ ...resting.schedule, layout: planned.layout, ...extra }, amount, firing)
}

function fire(planned: Planned, amount: Usd, firing: Firing): Decision {
  return {
    schedule: {
      ...planned,
      fireable: (planned.fireable - amount) as Usd,
      trancheIndex: planned.trancheIndex + 1,
      layout: { ...planned.layout, unitsFired: planned.layout.unitsFired + firing.units },
    },
    tranche: { ...firing, amount },
  }
}

const rest = (schedule: Schedule, until: Instant): Decision => ({
  schedule: { ...schedule, nextRunAt: until, limitPrice: null, clockAt: null },
  tranche: null,
})

/**
 * The amount of `due` units: their share of the remaining budget, to the cent; the last unit takes the rest. A
 * remainder too small to fire alone, after the minimum was raised, is added, so that it is not lost.
 */
function worth(planned: Planned, due: number): Usd {
  const left = planned.layout.slots * planned.layout.unitsPerSlot - planned.layout.unitsFired
  if (due === 0 || left === 0) return ZERO_USD
  const share = floorToCents(
    lesser(planned.fireable, ((planned.fireable * BigInt(due)) / BigInt(left)) as Usd),
  )
  return share >= planned.floor && planned.fireable - share < planned.floor
    ? floorToCents(planned.fireable)
    : share
}

const evidence = (reference: Reference | null, pass: Pass): Pick<Firing, 'price' | 'reference'> => ({
  price: pass.price,
  reference: reference?.price ?? null,
})

// The prices that the units of a slot wait for. The rule is k-min search with reservation prices (Lorenz, Panagiotou
// and Steger, "Optimal algorithms for k-search with application in option pricing", Algorithmica 55, 2009).

/** Scales the half-width of the price band: hw = C * sigma * sqrt(hours of the slot). */
const C = 0.5
/** Fixed-point scale for applying a ratio to a price. */
const RATIO_ONE = 2 ** 40

/** The price at or under which unit `m` (0-based) of a slot with `k` units fires. */
export function reservationPrice(reference: Reference, m: number, k: number): Price {
  const ratio = Math.exp(reference.halfWidth * (1 - 2 * (1 + 1 / k) ** (m - k)))
  return ((reference.price * BigInt(Math.round(ratio * RATIO_ONE))) / BigInt(RATIO_ONE)) as Price
}

/** The slot's reference: fixed at its first live price, and kept while the feed is down. */
function referenceOf(
  planned: Planned,
  slot: number,
  pass: { price: Price | null; sigma: number },
): Reference | null {
  if (planned.slot === slot && planned.reference) return planned.reference
  if (pass.price === null) return null
  const hours = (planned.windowEnd - planned.windowStart) / planned.layout.slots / HOUR_MS
  return { price: pass.price, halfWidth: C * pass.sigma * Math.sqrt(hours) }
}

// How a window is cut into slots and units: the length of a slot, and the time of each.

/** A schedule whose window is cut into slots. */
type Planned = Schedule & { layout: Layout }

/** The length of a slot where the budget is large enough: three slots in a daily window, two a day in longer ones. */
export const slotMsOf = (windowMs: number): number =>
  windowMs <= WINDOW_MS.daily ? 8 * HOUR_MS : 12 * HOUR_MS

/**
 * Cuts a window into slots and units so that no unit is under the floor: wider slots, then one unit each, then fewer.
 */
export function layout(of: { windowStart: Instant; windowEnd: Instant; budget: Usd; floor: Usd }): Layout {
  const { budget, floor } = of
  const lengthMs = of.windowEnd - of.windowStart
  // A window that begins late in its cell may be shorter than any of these.
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
function slotAt(planned: Planned, now: Instant): number {
  const length = planned.windowEnd - planned.windowStart
  return Math.min(
    planned.layout.slots - 1,
    Math.floor(((now - planned.windowStart) * planned.layout.slots) / length),
  )
}

/**
 * When unit `m` of a slot is due without a live price: units are spread over the slot, each in the middle of its share.
 */
function clockTime(planned: Planned, slot: number, m: number): Instant {
  const { slots, unitsPerSlot } = planned.layout
  const from = slotStart(planned, slots, slot)
  const length = slotStart(planned, slots, slot + 1) - from
  return plus(from, Math.ceil(((m + 0.5) * length) / unitsPerSlot))
}
