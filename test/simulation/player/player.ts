// Draws the next action from the model's state: a seed is a whole life of a service.

import type { Action, Call, Pass, Receiver } from '../action.ts'
import type { Chance } from '../chance.ts'
import { bill } from '../model/months.ts'
import { leadOf } from '../model/pass.ts'
import {
  CENT,
  DAY,
  dollars,
  type Execution,
  HOUR,
  isOpen,
  MINUTE,
  monthBounds,
  monthOf,
  type Plan,
  presentOf,
  SECOND,
  type State,
  type Tenant,
} from '../model/state.ts'
import {
  bodyFor,
  by,
  changeHook,
  confirmation,
  confirmWith,
  corrections,
  keeping,
  keyOf,
  lever,
  linkUser,
  looks,
  mirror,
  oddity,
  purchases,
  rewordPlan,
  type Scene,
  sendPlan,
  setUser,
  startOver,
  tooEarly,
} from './moves.ts'

type Player = {
  /** The partners, their first keys, users and plans. */
  opening: () => Generator<Action, void>
  /** From one pass to the next. */
  step: () => Generator<Action, void>
}

/** Few enough calls to share one commit. */
const BATCH_MAX = 40

export function createPlayer(state: State, chance: Chance, profile: Profile): Player {
  const { happens, pick, between } = chance
  const { odds, cadence } = profile
  const scene: Scene = { state, chance, profile, orders: { last: 0 } }
  const priceOf = createFeed(chance, profile)
  let month = ''
  /** How far the clock is ahead by mistake. */
  let ahead = 0

  const tenants = () => [...state.tenants.values()]

  function* opening(): Generator<Action, void> {
    // An action that is killed before it is done is repeated.
    for (let i = 1; i <= profile.partners; i++) {
      const slug = `partner-${i}`
      while (!state.partners.has(slug)) yield { do: 'lever', lever: 'partner', slug }
    }
    // Half of them are live, half still testing.
    while (state.keys.size === 0) {
      for (const tenant of tenants()) {
        if (happens(0.5) && state.keys.size > 0) continue
        yield { do: 'lever', lever: 'key', tenant: tenant.name, label: `k${state.keys.size + 1}`, life: null }
      }
    }
    yield* batches(keyed().map((tenant) => ({ ...linkUser(scene, tenant, 'u1') })))
    for (let i = 0; i < profile.plansEach; i++) {
      const some = keyed().filter(() => i + 1 <= profile.plansEach || happens(profile.plansEach - i))
      yield* batches(some.map((tenant) => sendPlan(scene, tenant)))
    }
  }

  const keyed = (): Tenant[] =>
    tenants().filter((tenant) => [...state.keys.values()].some((k) => k.tenant === tenant))

  function* step(): Generator<Action, void> {
    // Before any object is drawn that a restore would remove.
    yield* keeping(scene)
    yield { do: 'clock', by: nextMove() }
    if (month !== '' && monthOf(presentOf(state)) !== month && happens(0.4)) yield* corrections(scene)
    if (happens(odds.troubles)) yield { do: 'rehearse', price: priceOf() }
    if (!happens(odds.troubles)) yield pass()
    if (happens(odds.troubles)) yield pass()
    yield* polls()
    yield* confirms()
    for (const tenant of keyed()) {
      if (happens(odds.changes)) yield* change(tenant)
      if (happens(odds.oddities)) yield* odd(tenant)
    }
    if (happens(odds.levers)) yield lever(scene)
    if (happens(odds.levers / 4)) yield* corrections(scene)
    if (happens(odds.levers / 2)) yield* purchases(scene)
    if (profile.isSteady && happens(odds.resets)) yield* startOver(scene)
    yield* bringBacks()
    if (happens(odds.troubles)) yield { do: 'locked', call: linkUser(scene, pick(keyed())) }
    yield* reports()
  }

  /** Brings back windows that a clock ahead has rolled. */
  function* bringBacks(): Generator<Action, void> {
    const now = presentOf(state)
    const isAhead = ({ timing, startDate }: Plan) => timing && timing.window.start > Math.max(now, startDate)
    for (const { tenant, id } of state.plans.filter(isAhead)) {
      if (happens(0.3)) yield { do: 'lever', lever: 'bringBack', tenant: tenant.name, plan: id }
    }
  }

  /** The next step of the clock: usually forward. */
  function nextMove(): number {
    if (!profile.isSteady && ahead > 0 && happens(0.7)) {
      const back = -ahead
      ahead = 0
      return back
    }
    if (!profile.isSteady && happens(odds.troubles / 3)) {
      ahead = between(1, 20 * 24) * HOUR
      return ahead
    }
    if (!profile.isSteady && happens(odds.troubles / 3)) return -between(1, 12 * HOUR)
    if (happens(odds.troubles / 2)) return between(1, 4) * DAY + between(0, HOUR)
    // Rules end at an instant: now and then it is hit, or missed by a millisecond.
    const isNear = (at: number) => at > state.clock && at <= state.clock + 2 * cadence
    const midnight = monthBounds(monthOf(state.clock)).end
    const stops = isNear(midnight) ? [midnight] : notable(state).filter(isNear)
    if (stops.length > 0 && happens(odds.notable)) return pick(stops) + pick([-1, 0, 0, 1]) - state.clock
    const least = Math.min(cadence, MINUTE)
    return Math.max(least, cadence + between(-cadence / 20, cadence / 20))
  }

  function pass(): Pass {
    const hooked = tenants().filter(({ webhook }) => webhook)
    const receivers: Record<string, Receiver> = {}
    for (const { name } of hooked) if (happens(0.4)) receivers[name] = pick(['fails', 'hangs'])
    const hung = hooked.find(({ name }) => receivers[name] === 'hangs')
    const isTroubled = happens(odds.troubles)
    return {
      do: 'pass',
      price: priceOf(),
      told: isTroubled
        ? pick([0, 'silent', 5 * MINUTE, -3 * HOUR, HOUR] as const)
        : pick(['none', 0] as const),
      isOverlapped: happens(odds.troubles),
      meanwhile: happens(odds.troubles) ? [linkUser(scene, pick(keyed())), due(pick(keyed()))] : [],
      receivers,
      hanging:
        hung && happens(0.5) ? { tenant: hung.name, call: pick([due(hung), changeHook(scene, hung)]) } : null,
    }
  }

  const due = (tenant: Tenant): Call => ({ ...by(scene, tenant), route: 'due' })

  function* polls(): Generator<Action, void> {
    const open = tenants().filter((tenant) => tenant.executions.some(isOpen))
    const polling = open.filter(() => happens(odds.polls))
    if (happens(0.1) && polling[0]) yield { do: 'race', calls: [due(polling[0]), due(polling[0])] }
    yield* batches(polling.map(due))
  }

  /** Round by round: in each, every tenant confirms one of its delivered executions. */
  function* confirms(): Generator<Action, void> {
    const now = presentOf(state)
    const isOut = (one: Execution) => one.status === 'sent' && (one.leasedUntil ?? 0) > now
    const delivered = tenants().map((tenant) =>
      tenant.executions.filter(isOut).filter(() => happens(odds.confirms)),
    )
    for (let round = 0; ; round++) {
      const calls = delivered.flatMap((own) => own[round] ?? []).map((one) => confirmation(scene, one))
      if (calls.length === 0) return
      yield* batches(calls)
    }
  }

  function* batches(calls: readonly Call[]): Generator<Action, void> {
    for (let from = 0; from < calls.length; from += BATCH_MAX) {
      const batch = calls.slice(from, from + BATCH_MAX)
      const [only, another] = batch
      if (only && !another) yield only
      else yield { do: 'together', calls: batch }
    }
  }

  function* change(tenant: Tenant): Generator<Action, void> {
    const move = pick([sendPlan, sendPlan, sendPlan, linkUser, setUser, changeHook])
    const call = move(scene, tenant)
    if (!happens(0.2)) yield call
    else
      yield {
        do: 'race',
        calls: [call, happens(0.5) ? call : pick([sendPlan, setUser, linkUser])(scene, tenant)],
      }
    if (happens(0.3)) yield sendPlan(scene, tenant)
    if (happens(0.3)) yield* mirror(scene, tenant)
    if (happens(0.2)) yield* stop(tenant)
  }

  /** A plan with pending money is paused, and its user disabled; usually all of it is undone. */
  function* stop(tenant: Tenant): Generator<Action, void> {
    const plan = [...tenant.plans.values()].find(({ executions }) => executions.some(isOpen))
    if (!plan) return
    const set = (status: 'linked' | 'disabled'): Call => ({
      ...by(scene, tenant),
      route: 'setUser',
      user: plan.user.id,
      status,
    })
    if (happens(0.7)) yield rewordPlan(scene, plan, 'paused')
    if (happens(0.7)) yield set('disabled')
    if (happens(0.8)) yield set('linked')
    if (happens(0.8)) yield rewordPlan(scene, plan, 'active')
  }

  function* odd(tenant: Tenant): Generator<Action, void> {
    if (happens(0.2)) yield { ...by(scene, tenant), route: 'me' }
    if (happens(0.3)) yield* looks(scene, tenant)
    yield oddity(scene, tenant)
    if (happens(0.2)) yield* tooEarly(scene, tenant)
    // Now and then more reports of one execution than are stored.
    const cancelled = tenant.executions.find(({ status, trade }) => status === 'cancelled' && !trade)
    for (let times = cancelled && happens(0.02) ? 23 : 0; cancelled && times > 0; times--) {
      yield confirmWith(scene, cancelled, bodyFor(scene, cancelled, 'filled'))
    }
  }

  function* reports(): Generator<Action, void> {
    const present = monthOf(presentOf(state))
    const isNew = month !== '' && present !== month
    const asked = isNew ? month : happens(0.8) ? present : pick(['2023-02', monthOf(state.clock - 31 * DAY)])
    month = present
    if (!isNew && !happens(odds.reports)) return
    const tenant = pick(keyed())
    const key = keyOf(scene, tenant)
    if (profile.isSteady) yield { do: 'clock', by: SECOND }
    if (asked === present && happens(0.1)) yield* tierReachedExactly(tenant, present)
    yield { do: 'call', key, route: 'month', month: asked }
    yield { do: 'call', key, route: 'users', month: asked, limit: pick([1, 2, 100]) }
    if (happens(0.5)) yield { do: 'call', key, route: 'trades', month: asked, limit: pick([1, 3, 1000]) }
    yield { do: 'export', month: asked, report: 'trades' }
    // Reports over every tenant's month: in a world of many, only now and then.
    for (const report of ['summary', 'users'] as const) {
      if (happens(5 / profile.partners)) yield { do: 'export', month: asked, report }
    }
  }

  /** A tier that begins at the exact volume of a tenant's month. */
  function* tierReachedExactly(tenant: Tenant, asked: string): Generator<Action, void> {
    const { start, end } = monthBounds(asked)
    const { usd } = bill(state, tenant, { month: asked, start, until: end, final: false }).sums
    if (usd <= 0n || usd % CENT > 0n) return
    const terms = { name: 'own', from: null, bps: between(0, 120), volume: dollars(usd) }
    yield { do: 'lever', lever: 'tier', terms }
  }

  return { opening, step }
}

/** The instants at which something ends or begins. */
function notable({ executions, plans, keys, passes }: State): number[] {
  const lead = leadOf(passes)
  const leases = executions.slice(-40).map(({ leasedUntil }) => leasedUntil ?? 0)
  const timings = plans.flatMap(({ timing }) =>
    timing ? [timing.window.end, timing.window.end - lead, timing.nextRun, timing.clock ?? 0] : [],
  )
  const ends = [...keys.values()].map(({ expiresAt }) => expiresAt ?? 0)
  return [...leases, ...timings, ...ends]
}

/** A feed that walks, and stops, jumps and lies. */
function createFeed({ happens, next, between, pick }: Chance, { feed, odds }: Profile): () => string | null {
  let price = between(1_000_000, 9_000_000) / 100
  let silent = 0
  return () => {
    if (feed === 'walk') price *= Math.exp((next() - 0.5) / 25)
    if (feed === 'walk' && happens(odds.troubles / 4)) price *= pick([0.5, 2])
    price = Math.min(Math.max(price, 100), 9_000_000)
    if (silent > 0) silent -= 1
    else if (happens(odds.troubles)) silent = between(1, 6)
    if (feed === 'none' || silent > 0) return null
    return happens(odds.troubles / 10) ? pick(['0.01', '49999999.99']) : price.toFixed(2)
  }
}

// The kind of world of a seed: how many partners, how busy, the scheduler's cadence, and the troubles.

export type Profile = {
  start: number
  steps: number
  partners: number
  plansEach: number
  /** The usual time from one pass to the next. */
  cadence: number
  frequencies: readonly ('daily' | 'weekly' | 'bi-weekly')[]
  amounts: readonly string[]
  feed: 'none' | 'static' | 'walk'
  /**
   * Nobody sets the clock back, and no report is made in the very instant of a record: a sandbox that was reset has its
   * own time, which then equals that of all others.
   */
  isSteady: boolean
  /** The probability that a purchase is made at a venue that knows its orders. */
  venue: number
  /** The probability, in a step, */
  odds: {
    /** that a tenant with something due polls */
    polls: number
    /** that a delivered execution is confirmed at once */
    confirms: number
    /** that a confirmation reports that nothing was bought */
    fails: number
    /** that a tenant's plans, users or webhook change */
    changes: number
    /** that somebody sends a request that will be refused or was sent before */
    oddities: number
    /** that an operator does something */
    levers: number
    /** that the clock is set, a tick left out or doubled, the feed silent */
    troubles: number
    /** that somebody reads the month */
    reports: number
    /** that a backup is made, or restored */
    keeps: number
    /** that a sandbox is reset, where the clock is steady */
    resets: number
    /** that the clock stops at an instant that matters */
    notable: number
  }
}

const SELDOM = { reports: 0.05, notable: 0.1, keeps: 0.004, resets: 0.01 }
const OFTEN = { reports: 0.3, notable: 0.4, keeps: 0.02, resets: 0.05 }
const QUIET = { changes: 0.03, oddities: 0.02, levers: 0.05, troubles: 0.02, ...SELDOM }
const WILD = { changes: 0.3, oddities: 0.3, levers: 0.4, troubles: 0.15, ...OFTEN }

/** Many partners who buy seldom, or a few in every kind of trouble. */
export function profileOf(chance: Chance): Profile {
  const { happens, pick, between } = chance
  const isBroad = happens(0.45)
  const month = Date.UTC(pick([2023, 2024, 2026]), between(0, 11))
  if (isBroad) {
    return {
      start: month + between(0, 30 * 24) * HOUR,
      steps: between(20, 40),
      partners: between(20, 50),
      plansEach: pick([0.6, 1]),
      cadence: pick([DAY, DAY, 12 * HOUR, 2 * DAY]),
      frequencies: pick([['weekly', 'bi-weekly'], ['bi-weekly'], ['daily', 'weekly', 'bi-weekly']]),
      amounts: ['5.00', '9.99', '20.00', '60.00', '333.33'],
      feed: pick(['none', 'static', 'walk']),
      isSteady: happens(0.4),
      venue: pick([0, 0.8]),
      odds: { polls: pick([0.5, 0.9]), confirms: 0.9, fails: 0.1, ...QUIET },
    }
  }
  const steps = between(30, 120)
  const cadence = pick([MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, HOUR, 4 * HOUR, 6 * HOUR, DAY])
  return {
    // A month ends during the life.
    start: month - between(0, steps) * cadence - between(0, HOUR),
    steps,
    partners: between(1, 4),
    plansEach: between(1, 6),
    cadence,
    frequencies: ['daily', 'daily', 'weekly', 'bi-weekly'],
    amounts: ['1.00', '5.00', '12.34', '60.00', '333.33', '1000.01', '1000000.00'],
    feed: pick(['none', 'static', 'walk', 'walk']),
    isSteady: happens(0.4),
    venue: pick([0, 0.8]),
    // Some venues fail every order, promptly.
    odds: happens(0.2)
      ? { polls: 1, confirms: 1, fails: 0.9, ...QUIET, notable: 0.4 }
      : {
          polls: pick([0.3, 0.8, 1]),
          confirms: pick([0.3, 0.7, 1]),
          fails: 0.15,
          ...(happens(0.7) ? WILD : QUIET),
        },
  }
}
