// When the model fires: the rule of the timing engine, written anew from its description (docs/engine.md).

import { leftOf } from './ledger.ts'
import { type Plan, type Timing, usedBeginnings, WINDOW_LENGTH } from './state.ts'
import { DAY, HOUR, least, MINUTE, toCents } from './units.ts'

/**
 * What a pass knows: its instant, a live price or none, the volatility, and how long before its end a window is
 * emptied.
 */
export type Known = { now: number; price: bigint | null; sigma: number; lead: number }

export type Fired = { amount: bigint; trigger: string }

/** How early everything left fires: twice the second-longest of the last eight gaps between passes. */
export function leadOf(passes: readonly { at: number }[]): number {
  const last = passes.slice(-9).map(({ at }) => at)
  const gaps = last.slice(1).map((at, i) => Math.max(0, at - (last[i] ?? at)))
  gaps.sort((a, b) => b - a)
  return Math.max(15 * MINUTE, 2 * (gaps[1] ?? 0))
}

/** Whether a pass has to look at a plan at all. */
export function isDue(
  { window, floor, nextRun, limit, clock }: Timing,
  { now, price, lead }: Known,
): boolean {
  if (nextRun <= now) return true
  if (window.end <= now + lead && window.start <= now && leftOf(window) >= floor) return true
  if (price === null) return clock !== null && clock <= now
  return limit !== null && Number(price) <= limit
}

/** What fires of a plan whose window is not over, if anything does. */
export function fire(timing: Timing, known: Known): Fired | null {
  const { window } = timing
  const { now } = known
  if (now < window.start) return wait(timing, window.start)
  timing.cut ??= cut(timing)
  const emptied = Math.max(window.start, window.end - known.lead)
  return now >= emptied ? fireAll(timing, timing.cut, now) : fireUnits(timing, timing.cut, known)
}

function wait(timing: Timing, until: number): null {
  timing.nextRun = until
  timing.limit = null
  timing.clock = null
  return null
}

/**
 * As many slots and units as the budget has minimum tranches for: slots of a day first, then one unit each, then fewer.
 */
function cut({ window, floor }: Timing): NonNullable<Timing['cut']> {
  const length = window.end - window.start
  // A window may be shorter than its frequency says: it begins behind one that used the same slot.
  const atLeastOne = (lengthOfOne: number) => Math.max(1, Math.round(length / lengthOfOne))
  const days = atLeastOne(DAY)
  const most = atLeastOne(length <= DAY ? 8 * HOUR : 12 * HOUR)
  for (const slots of [most, days]) {
    if (toCents(window.budget / BigInt(2 * slots)) >= floor) return { slots, perSlot: 2, fired: 0 }
  }
  const affordable = Number(window.budget / floor)
  return { slots: Math.max(1, Math.min(days, affordable)), perSlot: 1, fired: 0 }
}

type Cut = NonNullable<Timing['cut']>

/** In the failsafe span: what is left at once, then up to three tranches more of money that came back. */
function fireAll(timing: Timing, cut: Cut, now: number): Fired | null {
  const { window } = timing
  wait(timing, window.end)
  const amount = toCents(leftOf(window))
  if (amount < timing.floor) return null
  const total = cut.slots * cut.perSlot
  if (cut.fired === total) {
    if (timing.extras === 0 || now < timing.nextExtra) return null
    timing.extras -= 1
    timing.nextExtra = now + 5 * MINUTE
  }
  cut.fired = total
  timing.index += 1
  return { amount, trigger: 'failsafe' }
}

const slotBegin = ({ window }: Timing, { slots }: Cut, slot: number): number =>
  window.start + Math.ceil(((window.end - window.start) * slot) / slots)

function fireUnits(timing: Timing, cut: Cut, { now, price, sigma }: Known): Fired | null {
  const { window } = timing
  const { slots, perSlot } = cut
  const slot = Math.min(slots - 1, Math.floor(((now - window.start) * slots) / (window.end - window.start)))
  const before = timing.slot
  if (before !== slot) timing.reference = null
  timing.slot = slot
  if (price !== null) {
    const hours = (window.end - window.start) / slots / HOUR
    timing.reference ??= { price, halfWidth: 0.5 * sigma * Math.sqrt(hours) }
  }

  const missed = Math.max(0, slot * perSlot - cut.fired)
  let trigger = missed === 0 ? null : before === slot - 1 && missed <= perSlot ? 'deadline' : 'catch_up'
  let unit = Math.max(0, cut.fired - slot * perSlot)
  let due = missed
  const begin = slotBegin(timing, cut, slot)
  const end = slotBegin(timing, cut, slot + 1)
  const clockOf = (m: number) => begin + Math.ceil(((m + 0.5) * (end - begin)) / perSlot)
  if (price !== null && unit < perSlot && Number(price) <= limitOf(timing, cut, unit)) {
    trigger ??= unit === 0 ? 'slot_start' : 'limit'
    unit += 1
    due += 1
  } else if (price === null) {
    for (; unit < perSlot && clockOf(unit) <= now; unit++) {
      trigger ??= 'clock'
      due += 1
    }
  }

  wait(timing, end)
  const amount = worth(timing, cut, due)
  // Too little for the venue: it joins the units of the next slot.
  if (due > 0 && amount < timing.floor) return null
  if (unit < perSlot) {
    timing.limit = timing.reference ? limitOf(timing, cut, unit) : Number.POSITIVE_INFINITY
    timing.clock = clockOf(unit)
  }
  if (trigger === null) return null
  cut.fired += due
  timing.index += 1
  return { amount, trigger }
}

/** The price at or under which a unit of the slot fires. */
function limitOf({ reference }: Timing, { perSlot }: Cut, unit: number): number {
  if (!reference) return Number.NEGATIVE_INFINITY
  const share = 1 - 2 * (1 + 1 / perSlot) ** (unit - perSlot)
  return Number(reference.price) * Math.exp(reference.halfWidth * share)
}

/** What so many units are worth, with a rest that would be too small to fire alone. */
function worth({ window, floor }: Timing, { slots, perSlot, fired }: Cut, due: number): bigint {
  const left = leftOf(window)
  const units = slots * perSlot - fired
  if (due === 0 || units === 0) return 0n
  const share = toCents(least(left, (left * BigInt(due)) / BigInt(units)))
  return share >= floor && left - share < floor ? toCents(left) : share
}

/** The slot of a window's grid that contains now: after one that is over, past those that were slept through. */
export function nextSlot(plan: Plan, { end }: { end: number }, now: number) {
  const length = WINDOW_LENGTH[plan.frequency]
  const start = end + Math.floor((now - end) / length) * length
  return { start, end: start + length, budget: plan.amount }
}

/** The first slot from one on that has money left, after the windows it has had. */
export function freeSlot(
  plan: Plan,
  slot: { start: number; end: number; budget: bigint },
): { start: number; end: number; budget: bigint } {
  const floor = least(plan.tenant.partner.minTranche, plan.amount)
  for (let { start, end } = slot; ; [start, end] = [end, end + end - start]) {
    const within = (at: number) => start <= at && at < end
    let claimed = 0n
    for (const window of plan.windows) if (within(window.start)) claimed += window.spent + window.reserved
    const used = usedBeginnings(plan).filter(within)
    const budget = slot.budget - claimed
    const free = Math.max(start, ...used.map((at) => at + 1))
    if (free < end && (claimed === 0n || budget >= floor)) return { start: free, end, budget }
  }
}
