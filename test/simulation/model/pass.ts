// The model's passes: prices in, windows rolled, tranches fired, partners woken; transaction by transaction.

import { executionOf, type Interruptible, type Pass } from '../action.ts'
import { Difference } from '../observed.ts'
import { answer } from './calls.ts'
import { close, leftOf, open, place } from './ledger.ts'
import { operate } from './levers.ts'
import { fix } from './months.ts'
import { type Attempt, note } from './plans.ts'
import {
  DAY,
  decimal,
  type Execution,
  HOUR,
  idempotencyKey,
  isAwake,
  iso,
  least,
  MINUTE,
  type Plan,
  presentOf,
  type State,
  type Tenant,
  type Timing,
  toCents,
  units,
  untouched,
  usedBeginnings,
  type WakeUp,
  WINDOW_LENGTH,
} from './state.ts'

/** The observation of a feed: a price or none, and the time it reported, if it reported one or was queried. */
type Observed = { price: bigint | null; told: number | 'silent' | 'none' }

type PassAnswer =
  | { kind: 'disputed' | 'still' }
  | {
      kind: 'passed'
      at: string
      price_usd: string | null
      plans_evaluated: number
      executions_created: number
      windows_rolled: number
      fired: { tenant: string; plan: string; key: string; amount: bigint; trigger: string }[]
    }

/** Each transaction of a pass ends with a yield: a crash leaves the state at one of them. */
export function* pass(state: State, observed: Observed): Generator<void, PassAnswer> {
  // No feed is queried, so no time is reported.
  if (state.frozen) return { kind: 'still' }
  if (weighClock(state, observed.told)) {
    yield
    return { kind: 'disputed' }
  }
  yield
  yield* followAll(state)
  const now = presentOf(state)
  if (observed.price !== null) addPrice(state, now, observed.price)
  const noted = { at: now, finished: false }
  state.passes.push(noted)
  const price = livePrice(state, now)
  const shared = { price, sigma: sigmaOf(state), lead: leadOf(state.passes) }
  const known = ({ tenant }: Plan): Known => ({ ...shared, now: presentOf(state, tenant) })
  const due = state.plans.filter((plan) => isAwake(plan) && plan.timing && isDue(plan.timing, known(plan)))
  yield
  const page = visit(state, due, known)
  yield
  noted.finished = true
  yield
  return {
    kind: 'passed',
    at: iso(now),
    price_usd: price === null ? null : decimal(price, 2),
    plans_evaluated: due.length,
    executions_created: page.fired.length,
    windows_rolled: page.rolled,
    fired: page.fired.map(firedOf),
  }
}

const firedOf = (one: Execution) => ({
  tenant: one.tenant.name,
  plan: one.plan.id,
  key: `${one.plan.id}:${iso(one.windowStart)}:${one.index}`,
  amount: one.amount,
  trigger: one.trigger,
})

/**
 * Notes and answers whether the clock is in doubt: more than ten minutes from the reported time, or doubted before
 * without another report since.
 */
function weighClock(state: State, told: Observed['told']): boolean {
  const now = presentOf(state)
  const { dispute } = state
  if (told === 'none') state.dispute = null
  else if (told !== 'silent') {
    state.dispute = Math.abs(now - told) <= 10 * MINUTE ? null : { clockAt: now, toldAt: told }
  } else if (dispute) {
    const { clockAt, toldAt } = dispute
    const wasSet = clockAt > toldAt ? now < clockAt : now >= toldAt - 10 * MINUTE
    state.dispute = wasSet ? null : { clockAt: now, toldAt: toldAt + now - clockAt }
  }
  return state.dispute !== null
}

/** Stores a price and updates the volatility, from prices at least 15 minutes and at most six hours apart. */
function addPrice(state: State, at: number, price: bigint): void {
  state.prices.set(at, price)
  const seen = state.volatility
  const { last } = seen
  const gap = last ? at - last.at : 0
  if (last && gap >= 0 && gap < 15 * MINUTE) return
  state.volatility = { ...seen, last: { price, at } }
  if (!last || gap < 0 || gap > 6 * HOUR) return
  const dt = gap / HOUR
  const move = Math.log(Number(price) / Number(last.price))
  const weight = 1 - 2 ** (-dt / 72)
  state.volatility.variance = seen.variance + weight * (move ** 2 / dt - seen.variance)
  state.volatility.hours = seen.hours + dt
}

const sigmaOf = ({ volatility: { variance, hours } }: State): number =>
  hours < 24 ? 0.005 : Math.min(0.03, Math.max(0.001, Math.sqrt(variance)))

function livePrice({ prices }: State, now: number): bigint | null {
  let newest = Number.NEGATIVE_INFINITY
  for (const at of prices.keys()) if (at <= now && at > newest) newest = at
  return now - newest < 20 * MINUTE ? (prices.get(newest) ?? null) : null
}

function visit(
  state: State,
  plans: readonly Plan[],
  knownOf: (plan: Plan) => Known,
): { fired: Execution[]; rolled: number } {
  const fired: Execution[] = []
  let rolled = 0
  for (const plan of plans) {
    if (!plan.timing) continue
    const known = knownOf(plan)
    if (known.now >= plan.timing.window.end) {
      const next = nextCell(plan, plan.timing.window, known.now)
      close(plan, known.now, 'ended')
      open(plan, freeCell(plan, next))
      rolled += 1
    }
    const { timing } = plan
    const tranche = timing && fire(timing, known)
    if (!tranche) continue
    const { window, index } = timing
    window.reserved += tranche.amount
    const execution: Execution = {
      ...untouched(),
      tenant: plan.tenant,
      plan,
      window,
      index: index - 1,
      windowStart: window.start,
      ...tranche,
      createdAt: known.now,
      status: 'pending',
    }
    const key = `${plan.tenant.name} ${idempotencyKey(execution)}`
    if (state.issued.has(key)) throw new Difference(`an idempotency key comes again: ${key}`)
    state.issued.add(key)
    plan.executions.push(execution)
    plan.tenant.executions.push(execution)
    state.executions.push(execution)
    fired.push(execution)
  }
  for (const plan of state.plans) assertOffered(plan, knownOf(plan))
  return { fired, rolled }
}

/**
 * The promise of the failsafe: near its end a window has no money left for a tranche, except refunds beyond the extra
 * tranches.
 */
function assertOffered(plan: Plan, { now, lead }: Known): void {
  const { timing } = plan
  if (!timing || !isAwake(plan)) return
  const { window, floor, cut, extras, nextExtra } = timing
  const isEnding = window.start <= now && now < window.end && window.end - lead <= now
  if (!isEnding || leftOf(window) < floor) return
  const isOut = cut?.fired === (cut?.slots ?? 0) * (cut?.perSlot ?? 0)
  if (!isOut || (extras > 0 && now >= nextExtra)) throw new Difference(`plan ${plan.id} ends with money left`)
}

/** The wake-ups of a pass: one for each tenant with an active webhook. */
export function wakeUpsOf(fired: readonly Execution[]): WakeUp[] {
  const wakeUps = new Map<Tenant, WakeUp>()
  for (const execution of fired) {
    const { tenant, id } = execution
    const known = wakeUps.get(tenant)
    if (known) known.count += 1
    else if (tenant.webhook?.status === 'active') {
      const { registration } = tenant.webhook
      wakeUps.set(tenant, { tenant, registration, count: 1, earliest: id, key: idempotencyKey(execution) })
    }
  }
  return [...wakeUps.values()]
}

/** The observation of a pass, by the clock at its beginning. */
export const observedBy = ({ clock }: State, { price, told }: Pick<Pass, 'price' | 'told'>): Observed => ({
  price: price === null ? null : units(price),
  told: typeof told === 'number' ? clock + told : told,
})

type Sent = { wakeUp: WakeUp; attempt: Attempt }

const ATTEMPTS: Record<'takes' | 'fails' | 'hangs', Attempt> = {
  takes: { statusCode: 204, failure: null },
  fails: { statusCode: 500, failure: 'HTTP 500' },
  hangs: { statusCode: null, failure: 'no answer' },
}

/** The result of each wake-up, by its receiver's behaviour: by default it is accepted. */
export const sentTo = (receivers: Pass['receivers'], wakeUps: readonly WakeUp[]): Sent[] =>
  wakeUps.map((wakeUp) => ({ wakeUp, attempt: ATTEMPTS[receivers[wakeUp.tenant.name] ?? 'takes'] }))

/** Enters the result of each. */
export function* wake(state: State, sent: readonly Sent[]): Generator<void, void> {
  yield
  for (const { wakeUp, attempt } of sent) {
    note(state, wakeUp, attempt)
    yield
  }
}

// The model's timing: the rule of the timing engine, written again from its description (docs/engine.md).

/** The inputs of a pass: its instant, a live price or none, the volatility, and the failsafe lead. */
type Known = { now: number; price: bigint | null; sigma: number; lead: number }

type Fired = { amount: bigint; trigger: string }

/** The failsafe lead: twice the second-longest of the last eight gaps between passes. */
export function leadOf(passes: readonly { at: number }[]): number {
  const last = passes.slice(-9).map(({ at }) => at)
  const gaps = last.slice(1).map((at, i) => Math.max(0, at - (last[i] ?? at)))
  gaps.sort((a, b) => b - a)
  return Math.max(15 * MINUTE, 2 * (gaps[1] ?? 0))
}

/** Whether a pass has to consider a plan at all. */
function isDue({ window, floor, nextRun, limit, clock }: Timing, { now, price, lead }: Known): boolean {
  if (nextRun <= now) return true
  if (window.end <= now + lead && window.start <= now && leftOf(window) >= floor) return true
  if (price === null) return clock !== null && clock <= now
  return limit !== null && Number(price) <= limit
}

/** The tranche that fires of a plan whose window is not over, or null. */
function fire(timing: Timing, known: Known): Fired | null {
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
  // A window may be shorter than its frequency: it begins after another one in the same cell of its grid.
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

/** In the failsafe span: the whole rest at once, then up to three tranches more of refunded money. */
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

/** The worth of so many units, with a rest that would be too small to fire alone. */
function worth({ window, floor }: Timing, { slots, perSlot, fired }: Cut, due: number): bigint {
  const left = leftOf(window)
  const units = slots * perSlot - fired
  if (due === 0 || units === 0) return 0n
  const share = toCents(least(left, (left * BigInt(due)) / BigInt(units)))
  return share >= floor && left - share < floor ? toCents(left) : share
}

/** The cell of a window's grid that contains now: the next one, or past cells missed while nothing ran. */
export function nextCell(plan: Plan, { end }: { end: number }, now: number) {
  const length = WINDOW_LENGTH[plan.frequency]
  const start = end + Math.floor((now - end) / length) * length
  return { start, end: start + length, budget: plan.amount }
}

/** The first cell from one on that has money left, after its earlier windows. */
export function freeCell(
  plan: Plan,
  cell: { start: number; end: number; budget: bigint },
): { start: number; end: number; budget: bigint } {
  const floor = least(plan.tenant.partner.minTranche, plan.amount)
  for (let { start, end } = cell; ; [start, end] = [end, end + end - start]) {
    const within = (at: number) => start <= at && at < end
    let claimed = 0n
    for (const window of plan.windows) if (within(window.start)) claimed += window.spent + window.reserved
    const used = usedBeginnings(plan).filter(within)
    const budget = cell.budget - claimed
    const free = Math.max(start, ...used.map((at) => at + 1))
    if (free < end && (claimed === 0n || budget >= floor)) return { start: free, end, budget }
  }
}

// Work that a dead process on a server leaves to the next one: schedules without a partner's new minimum, and wake-ups
// that nobody has claimed (docs/decisions/commits.md#a-hold-of-many-plans). On a file there is neither.

/** Gives the running windows of a tenant its partner's minimum. */
export function follow(state: State, tenant: Tenant): void {
  for (const { timing } of tenant.plans.values())
    if (timing) timing.floor = least(tenant.partner.minTranche, timing.window.budget)
  state.behind.delete(tenant)
}

/**
 * The states in the middle of a change of a partner: it is in force, and the schedules of none of its tenants have
 * followed, or only those of the first. `before` and `after` are the states around it.
 */
function halfway(before: State, after: State): State[] {
  const changed = [...after.partners.values()].find(
    ({ slug, minTranche }) => before.partners.get(slug)?.minTranche !== minTranche,
  )
  if (!changed || !before.partners.has(changed.slug)) return []
  const none = structuredClone(after)
  for (const tenant of none.tenants.values()) {
    if (tenant.partner.slug !== changed.slug) continue
    none.behind.add(tenant)
    for (const { id, timing } of tenant.plans.values()) {
      const old = before.tenants.get(tenant.name)?.plans.get(id)?.timing
      if (timing && old) timing.floor = old.floor
    }
  }
  const some = structuredClone(none)
  const [first] = some.behind
  if (first) follow(some, first)
  return [none, some]
}

/** Completes an unfinished change of a partner, a tenant in each transaction. */
function* followAll(state: State): Generator<void, void> {
  for (const tenant of state.behind) {
    follow(state, tenant)
    yield
  }
}

// The states between the transactions of an action: after a crash the file is in one of them.

/** Copies of the state, from the one before the action to the one after it. */
export function statesOnTheWay(state: State, action: Interruptible, isOnServer: boolean): State[] {
  const before = structuredClone(state)
  const after = structuredClone(state)
  switch (action.do) {
    case 'call':
      // A purchase stays, whatever becomes of its report.
      if (action.route === 'settle') place(before, executionOf(before, action.of), action.terms)
      answer(after, action)
      return [before, after]
    case 'export':
      fix(after, action.month)
      return [before, after]
    case 'lever': {
      const known = new Set(state.keys.keys())
      operate(after, action)
      // It was issued, and its secret died with the process.
      for (const key of after.keys.values()) if (!known.has(key.label)) key.isLost = true
      return [before, ...(isOnServer ? halfway(before, after) : []), after]
    }
    case 'pass': {
      const states = [before]
      const from = after.executions.length
      const steps = pass(after, observedBy(after, action))
      let step = steps.next()
      for (; !step.done; step = steps.next()) states.push(structuredClone(after))
      if (step.value.kind !== 'passed') return states
      const sent = sentTo(action.receivers, wakeUpsOf(after.executions.slice(from)))
      for (const _ of wake(after, sent)) states.push(structuredClone(after))
      return states
    }
  }
}
