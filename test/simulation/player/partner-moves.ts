// What a partner does: links, plans, polls, confirms, and everything of it wrongly too.

import type { Call } from '../action.ts'
import type { Chance } from '../chance.ts'
import type { ConfirmBody } from '../model/executions.ts'
import { isUsable } from '../model/levers.ts'
import {
  type Execution,
  idempotencyKey,
  type Plan,
  type Report,
  type State,
  type Tenant,
  type User,
  WINDOW_LENGTH,
} from '../model/state.ts'
import { DAY, decimal, iso, least, UNIT } from '../model/units.ts'
import type { Profile } from './profile.ts'

const USERS = ['u1', 'u2', 'u3', '=SUM(A1)', 'a,"b"', 'Zoë', '-1', '日本 ☂']
const ORDERS = ['=cmd', '+1', '@x', 'o,"q"']

export type Scene = { state: State; chance: Chance; profile: Profile; orders: { last: number } }

/** A key of the tenant: as a rule one that works. */
export function keyOf({ state, chance }: Scene, tenant: Tenant): string {
  const own = [...state.keys.values()].filter((key) => key.tenant === tenant)
  const usable = own.filter((key) => !key.isLost && isUsable(state, key))
  const from = usable.length > 0 && chance.happens(0.98) ? usable : own
  return from.length > 0 ? chance.pick(from).label : 'nobody'
}

export function linkUser(scene: Scene, tenant: Tenant, id = scene.chance.pick(USERS)): Call {
  const { chance, state } = scene
  const optional = (text: string) => (chance.happens(0.5) ? text : chance.happens(0.3) ? null : undefined)
  const email = optional(`${chance.between(1, 99)}@example.com`)
  const provider = optional('apple')
  return {
    do: 'call',
    key: keyOf(scene, tenant),
    route: 'user',
    body: {
      partner_user_id: id,
      ...(email !== undefined && { email }),
      ...(provider !== undefined && { auth_provider: provider }),
      consent_accepted: chance.happens(0.95),
      consent_version: chance.pick(['v1', 'v2']),
      consent_timestamp: iso(state.clock - chance.between(0, DAY)),
    },
  }
}

export function setUser(scene: Scene, tenant: Tenant): Call {
  const { chance } = scene
  const users: User[] = [...tenant.users.values()]
  const user = users.length > 0 && chance.happens(0.95) ? chance.pick(users).id : 'nobody'
  // A user who is disabled is usually linked again some time later.
  const isDisabled = tenant.users.get(user)?.status === 'disabled'
  const status = isDisabled === chance.happens(0.8) ? 'linked' : 'disabled'
  return { do: 'call', key: keyOf(scene, tenant), route: 'setUser', user, status }
}

/** A new plan, or another word about one that is there. */
export function sendPlan(scene: Scene, tenant: Tenant): Call {
  const { chance, profile } = scene
  const { happens, pick, between } = chance
  const known = [...tenant.plans.values()]
  const most = Math.max(1, Math.ceil(profile.plansEach * 1.5))
  const again = known.length > 0 && (known.length >= most || happens(0.7)) ? pick(known) : null
  const linked = [...tenant.users.values()].map(({ id }) => id)
  const owner = linked.length > 0 ? pick(linked) : 'u1'
  const id =
    again?.id ?? pick([`p${between(1, 9)}`, `${tenant.partner.slug}-${between(1, 99)}`, '=1+1', 'p "x",y'])
  const status = happens(0.4) ? pick(['active', 'active', 'paused', 'cancelled'] as const) : undefined
  const smart = happens(0.2) ? happens(0.6) : undefined
  const frequency = again && happens(0.7) ? again.frequency : pick(profile.frequencies)
  const start = startDate(scene, WINDOW_LENGTH[frequency])
  return {
    do: 'call',
    key: keyOf(scene, tenant),
    route: 'plan',
    body: {
      partner_user_id: again && happens(0.95) ? again.user.id : owner,
      partner_plan_id: id,
      amount_usd: again && happens(0.6) ? decimal(again.amount, 2) : pick(profile.amounts),
      frequency,
      ...(smart !== undefined && { smart_timing_enabled: smart }),
      ...(start !== undefined && { start_date: start }),
      ...(status !== undefined && { status }),
    },
  }
}

/** None, as a rule; one whose window ends soon, or any near one. */
function startDate({ chance, state, profile }: Scene, length: number): string | null | undefined {
  const { happens, between } = chance
  if (happens(0.6)) return happens(0.1) ? null : undefined
  if (happens(0.5)) return iso(state.clock - length + between(0, 20 * profile.cadence))
  return iso(state.clock + between(-40 * DAY, (happens(0.2) ? 40 : 4) * DAY))
}

/** The same plan in another state. */
export const rewordPlan = (
  scene: Scene,
  { tenant, user, id, amount, frequency }: Plan,
  status: Plan['status'],
): Call => ({
  do: 'call',
  key: keyOf(scene, tenant),
  route: 'plan',
  body: {
    partner_user_id: user.id,
    partner_plan_id: id,
    amount_usd: decimal(amount, 2),
    frequency,
    status,
  },
})

export function changeHook(scene: Scene, tenant: Tenant): Call {
  const key = keyOf(scene, tenant)
  const { happens, between } = scene.chance
  if (tenant.webhook && happens(0.2)) return { do: 'call', key, route: 'unhook' }
  if (tenant.webhook && happens(0.5)) return { do: 'call', key, route: 'webhook' }
  return { do: 'call', key, route: 'hook', url: `https://partner.example/${between(1, 99)}` }
}

export const refOf = (execution: Execution) => ({
  tenant: execution.tenant.name,
  key: idempotencyKey(execution),
})

/** A confirmation that breaks no rule. */
export function confirmation(scene: Scene, execution: Execution): Call {
  const { chance } = scene
  const outcomes: Report['status'][] = chance.happens(scene.profile.odds.fails)
    ? ['failed', 'failed', 'cancelled']
    : ['filled', 'filled', 'filled', 'partial']
  const status = chance.pick(outcomes)
  if (status === 'filled' && chance.happens(scene.profile.venue)) return settlement(scene, execution)
  return confirmWith(scene, execution, bodyFor(scene, execution, status))
}

/** By the partner's program: an order at its venue, and the report of it. */
function settlement(scene: Scene, execution: Execution): Call {
  const body = bodyFor(scene, execution, 'filled')
  const { usd_amount: usd = '', btc_amount: btc = '', execution_price: price = '', partner_fee_usd } = body
  const terms = { usd, btc, price, fee: partner_fee_usd ?? null }
  return { do: 'call', key: keyOf(scene, execution.tenant), route: 'settle', of: refOf(execution), terms }
}

export const confirmWith = (scene: Scene, execution: Execution, body: ConfirmBody): Call => ({
  do: 'call',
  key: keyOf(scene, execution.tenant),
  route: 'confirm',
  of: refOf(execution),
  body,
})

export function bodyFor(scene: Scene, { amount }: Execution, status: Report['status']): ConfirmBody {
  const { state, chance, orders } = scene
  const { happens, between, pick } = chance
  orders.last += 1
  const order = happens(0.03) ? `${pick(ORDERS)}${orders.last}` : `order-${orders.last}`
  const when = happens(0.4) ? iso(state.clock - between(0, DAY)) : happens(0.1) ? null : undefined
  const common = { partner_order_id: order, status, ...(when !== undefined && { executed_at: when }) }
  if (status === 'failed' || status === 'cancelled') {
    const reason = happens(0.7) ? pick(['no funds', '=boom', 'a, b', '']) : undefined
    return { ...common, ...(reason !== undefined && { failure_reason: reason }) }
  }
  const part =
    status === 'partial' ? (amount * BigInt(between(1, 999))) / 1_000n : amount - BigInt(between(0, 3))
  return { ...common, ...amounts(scene, happens(0.6) && status === 'filled' ? amount : part) }
}

/** Dollars, coins and a price that belong together; sometimes with more places than are kept. */
export function amounts({ chance }: Scene, usd: bigint): Partial<ConfirmBody> {
  const { happens, between } = chance
  const price = BigInt(between(1_000_000, 9_000_000)) * 1_000_000n
  const coins = (usd * UNIT) / price
  const btc = least(coins > 0n ? coins : 1n, 21n * 10n ** 14n)
  const more = happens(0.2) ? `${decimal(btc, 8)}${between(1, 49)}` : decimal(btc, 8)
  const fee = happens(0.5)
    ? decimal(BigInt(between(0, 500)) * 1_000_000n, 2)
    : happens(0.2)
      ? null
      : undefined
  return {
    usd_amount: decimal(usd, 2),
    btc_amount: more,
    execution_price: decimal(price, 2),
    ...(fee !== undefined && { partner_fee_usd: fee }),
  }
}
