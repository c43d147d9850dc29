// The model's passes: prices in, windows rolled, tranches fired, partners woken; transaction by transaction.

import type { Pass } from '../action.ts'
import { Difference } from '../difference.ts'
import { fire, freeSlot, isDue, type Known, leadOf, nextSlot } from './firing.ts'
import { close, leftOf, open } from './ledger.ts'
import { followAll } from './left-behind.ts'
import {
  type Execution,
  idempotencyKey,
  isAwake,
  type Plan,
  presentOf,
  type State,
  type Tenant,
  type WakeUp,
} from './state.ts'
import { decimal, HOUR, iso, MINUTE, units } from './units.ts'
import { type Attempt, note } from './webhooks.ts'

/** What a feed said: a price or none, and the time it told, if it told one or was asked. */
export type Observed = { price: bigint | null; told: number | 'silent' | 'none' }

export type PassAnswer =
  | { kind: 'disputed' }
  | {
      kind: 'passed'
      at: string
      price_usd: string | null
      plans_evaluated: number
      executions_created: number
      windows_rolled: number
      fired: { tenant: string; plan: string; key: string; amount: bigint; trigger: string }[]
    }

/** Each transaction of a pass ends with a yield: a crash leaves what was there at one of them. */
export function* pass(state: State, observed: Observed): Generator<void, PassAnswer> {
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
 * Notes whether the clock is in doubt, and answers it: more than ten minutes from the time told, or since then and
 * nobody told another.
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

/** Keeps a price and moves the volatility on: by prices at least 15 minutes and at most six hours apart. */
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
      const next = nextSlot(plan, plan.timing.window, known.now)
      close(plan, known.now, 'ended')
      open(plan, freeSlot(plan, next))
      rolled += 1
    }
    const { timing } = plan
    const tranche = timing && fire(timing, known)
    if (!tranche) continue
    const { window, index } = timing
    window.reserved += tranche.amount
    const execution: Execution = {
      id: '',
      tenant: plan.tenant,
      plan,
      window,
      index: index - 1,
      windowStart: window.start,
      ...tranche,
      createdAt: known.now,
      status: 'pending',
      deliveries: 0,
      leasedUntil: null,
      cancelledAt: null,
      trade: null,
      adjustments: [],
      late: [],
      uncounted: 0,
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
 * What is promised: near its end a window has nothing left that a tranche could spend, but for what came back too
 * often.
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
  for (const { tenant, id } of fired) {
    const known = wakeUps.get(tenant)
    if (known) known.count += 1
    else if (tenant.webhook?.status === 'active') {
      wakeUps.set(tenant, { tenant, registration: tenant.webhook.registration, count: 1, earliest: id })
    }
  }
  return [...wakeUps.values()]
}

/** What a pass is told, by the clock at its beginning. */
export const observedBy = ({ clock }: State, { price, told }: Pick<Pass, 'price' | 'told'>): Observed => ({
  price: price === null ? null : units(price),
  told: typeof told === 'number' ? clock + told : told,
})

export type Sent = { wakeUp: WakeUp; attempt: Attempt }

const ATTEMPTS: Record<'takes' | 'fails' | 'hangs', Attempt> = {
  takes: { statusCode: 204, failure: null },
  fails: { statusCode: 500, failure: 'HTTP 500' },
  hangs: { statusCode: null, failure: 'no answer' },
}

/** How each wake-up goes, by how its receiver behaves: unless it is said, it takes what it is sent. */
export const sentTo = (receivers: Pass['receivers'], wakeUps: readonly WakeUp[]): Sent[] =>
  wakeUps.map((wakeUp) => ({ wakeUp, attempt: ATTEMPTS[receivers[wakeUp.tenant.name] ?? 'takes'] }))

/** Enters how each went. */
export function* wake(state: State, sent: readonly Sent[]): Generator<void, void> {
  yield
  for (const { wakeUp, attempt } of sent) {
    note(state, wakeUp.tenant, wakeUp.registration, attempt)
    yield
  }
}
