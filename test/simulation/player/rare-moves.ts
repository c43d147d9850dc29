// What happens seldom, and costs money when it goes wrong: corrections of a month that is over, reports that come too
// early, a sandbox begun anew, a backup put back, a bit that flips.

import type { Action, Call } from '../action.ts'
import { isFill } from '../model/executions.ts'
import { type Plan, presentOf, type Tenant } from '../model/state.ts'
import { decimal, iso, monthOf, SECOND } from '../model/units.ts'
import { bodyFor, confirmWith, keyOf, linkUser, refOf, rewordPlan, type Scene } from './partner-moves.ts'

/** Backups, and the way back to one. Nothing that is at hand may be used behind it. */
export function* keeping({ state, chance, profile }: Scene): Generator<Action, void> {
  const { happens, next } = chance
  if (happens(profile.odds.keeps)) yield { do: state.saved && happens(0.6) ? 'restore' : 'backup' }
  if (happens(profile.odds.flips)) yield { do: 'flip', places: Array.from({ length: 5 }, next) }
}

/**
 * Trades of months that are over are corrected, as a rule to less, perhaps before the month has a trade of its own; and
 * somebody reads what that comes to.
 */
export function* corrections(scene: Scene): Generator<Action, void> {
  const { state, chance } = scene
  const { happens, between, pick } = chance
  const present = monthOf(presentOf(state))
  const old = state.executions.filter(
    ({ trade }) => trade && isFill(trade.report) && monthOf(trade.recordedAt) < present,
  )
  if (old.length === 0) return
  const corrected = Array.from({ length: between(1, 3) }, () => pick(old))
  for (const execution of corrected) {
    const { usd, btc } = execution.trade?.report ?? { usd: 0n, btc: 0n }
    const part = BigInt(happens(0.8) ? between(0, 99) : between(101, 150))
    const [right, coins] = [(usd * part) / 100n, (btc * part) / 100n]
    const isNothing = right === 0n || coins === 0n
    yield {
      do: 'lever',
      lever: 'adjust',
      of: refOf(execution),
      usd: decimal(isNothing ? 0n : right, 2),
      btc: decimal(isNothing ? 0n : coins, 8),
    }
  }
  const { tenant } = pick(corrected)
  if (scene.profile.isSteady) yield { do: 'clock', by: SECOND }
  yield { do: 'call', key: keyOf(scene, tenant), route: 'month', month: present }
  yield { do: 'call', key: keyOf(scene, tenant), route: 'users', month: present, limit: 100 }
}

/** A purchase of an instruction that nobody was given, and what becomes of its report. */
export function* tooEarly(scene: Scene, tenant: Tenant): Generator<Action, void> {
  const { happens, pick } = scene.chance
  const pending = tenant.executions.filter(({ status }) => status === 'pending')
  if (pending.length === 0) return
  const execution = pick(pending)
  const report = confirmWith(scene, execution, bodyFor(scene, execution, pick(['filled', 'partial'])))
  yield report
  const due: Call = { do: 'call', key: keyOf(scene, tenant), route: 'due' }
  const accept: Action = { do: 'lever', lever: 'accept', of: refOf(execution), number: null }
  const other = () => confirmWith(scene, execution, bodyFor(scene, execution, 'filled'))
  const sequels: (() => Action[])[] = [
    () => [due, report],
    () => [due, report, accept],
    () => [accept, due, report],
    () => [due, other(), accept],
    () => [rewordPlan(scene, execution.plan, 'cancelled'), accept],
  ]
  if (happens(0.8)) yield* pick(sequels)()
}

/** A sandbox is wiped, and as a rule begun again as it was: the same users, plans and beginnings. */
export function* startOver(scene: Scene): Generator<Action, void> {
  const { state, chance } = scene
  const { happens, pick } = chance
  const bought = (tenant: Tenant) => tenant.environment === 'test' && tenant.executions.length > 0
  const tenants = [...state.tenants.values()].filter(bought)
  const tenant = tenants.length > 0 && happens(0.95) ? pick(tenants) : pick([...state.tenants.values()])
  const plans = [...tenant.plans.values()]
  yield { do: 'lever', lever: 'reset', tenant: tenant.name }
  if (tenant.environment === 'live' || happens(0.2)) return
  for (const id of new Set(plans.map(({ user }) => user.id))) yield linkUser(scene, tenant, id)
  for (const plan of plans) if (happens(0.8)) yield again(scene, plan)
}

/** A partner tries a plan in its sandbox and sends the very same live, or the other way round. */
export function* mirror(scene: Scene, tenant: Tenant): Generator<Action, void> {
  const { state, chance } = scene
  const isOther = (one: Tenant) => one.partner === tenant.partner && one !== tenant
  const other = [...state.tenants.values()].find(isOther)
  const plans = [...(other?.plans.values() ?? [])].filter(({ id }) => !tenant.plans.has(id))
  if (plans.length === 0) return
  const plan = chance.pick(plans)
  yield linkUser(scene, tenant, plan.user.id)
  yield again(scene, plan, tenant)
}

/** The plan as it was sent first, or as it would be sent today. */
function again(scene: Scene, plan: Plan, tenant = plan.tenant): Call {
  const { user, id, amount, frequency, startDate } = plan
  return {
    do: 'call',
    key: keyOf(scene, tenant),
    route: 'plan',
    body: {
      partner_user_id: user.id,
      partner_plan_id: id,
      amount_usd: decimal(amount, 2),
      frequency,
      ...(scene.chance.happens(0.8) && { start_date: iso(startDate) }),
    },
  }
}
