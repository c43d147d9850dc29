// A partner's moves: links, plans, polls, confirms, and all of it wrongly too.

import type { Action, Call, Lever } from '../action.ts'
import type { Chance } from '../chance.ts'
import { type ConfirmBody, isFill } from '../model/ledger.ts'
import { isUsable } from '../model/levers.ts'
import {
  DAY,
  decimal,
  dollars,
  type Execution,
  HOUR,
  idempotencyKey,
  isOpen,
  iso,
  least,
  monthOf,
  type Partner,
  type Plan,
  presentOf,
  type Report,
  SECOND,
  type State,
  type Tenant,
  UNIT,
  type User,
  WINDOW_LENGTH,
} from '../model/state.ts'
import type { Profile } from './player.ts'

const USERS = ['u1', 'u2', 'u3', '=SUM(A1)', 'a,"b"', 'Zoë', '-1', '日本 ☂']
const ORDERS = ['=cmd', '+1', '@x', 'o,"q"']

export type Scene = { state: State; chance: Chance; profile: Profile; orders: { last: number } }

/** A key of the tenant: usually a valid one. */
export function keyOf({ state, chance }: Scene, tenant: Tenant): string {
  const own = [...state.keys.values()].filter((key) => key.tenant === tenant)
  const usable = own.filter((key) => !key.isLost && isUsable(state, key))
  const from = usable.length > 0 && chance.happens(0.98) ? usable : own
  return from.length > 0 ? chance.pick(from).label : 'nobody'
}

/** The beginning of every call of a tenant. */
export const by = (scene: Scene, tenant: Tenant) => ({ do: 'call', key: keyOf(scene, tenant) }) as const

export function linkUser(scene: Scene, tenant: Tenant, id = scene.chance.pick(USERS)): Call {
  const { chance, state } = scene
  const optional = (text: string) => (chance.happens(0.5) ? text : chance.happens(0.3) ? null : undefined)
  const email = optional(`${chance.between(1, 99)}@example.com`)
  const provider = optional('apple')
  return {
    ...by(scene, tenant),
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
  // A disabled user is usually linked again some time later.
  const isDisabled = tenant.users.get(user)?.status === 'disabled'
  const status = isDisabled === chance.happens(0.8) ? 'linked' : 'disabled'
  return { ...by(scene, tenant), route: 'setUser', user, status }
}

/** A new plan, or a change of an existing one. */
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
    ...by(scene, tenant),
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

/** Usually none; else one whose window ends soon, or any near one. */
function startDate({ chance, state, profile }: Scene, length: number): string | null | undefined {
  const { happens, between } = chance
  if (happens(0.6)) return happens(0.1) ? null : undefined
  if (happens(0.5)) return iso(state.clock - length + between(0, 20 * profile.cadence))
  return iso(state.clock + between(-40 * DAY, (happens(0.2) ? 40 : 4) * DAY))
}

/** The plan unchanged except for its status. */
export const rewordPlan = (scene: Scene, plan: Plan, status: Plan['status']): Call => ({
  ...by(scene, plan.tenant),
  route: 'plan',
  body: { ...termsOf(plan), status },
})

const termsOf = ({ user, id, amount, frequency }: Plan) => ({
  partner_user_id: user.id,
  partner_plan_id: id,
  amount_usd: decimal(amount, 2),
  frequency,
})

export function changeHook(scene: Scene, tenant: Tenant): Call {
  const key = keyOf(scene, tenant)
  const { happens, between } = scene.chance
  if (tenant.webhook && happens(0.2)) return { do: 'call', key, route: 'unhook' }
  if (tenant.webhook && happens(0.5)) return { do: 'call', key, route: 'webhook' }
  return { do: 'call', key, route: 'hook', url: `https://partner.example/${between(1, 99)}` }
}

/** A partner's reads of its users and of its deliveries, and tests of its webhook. */
export function* looks(scene: Scene, tenant: Tenant): Generator<Action, void> {
  const { happens, pick } = scene.chance
  const asked = by(scene, tenant)
  const users = [...tenant.users.keys()]
  const wakeUps = tenant.deliveries.filter(({ earliest }) => earliest !== null)
  const ends = new Set(wakeUps.map(({ endedAt }) => endedAt))
  const user = users.length > 0 && happens(0.9) ? pick(users) : 'nobody'
  yield happens(0.5)
    ? { ...asked, route: 'userList', limit: pick([1, 3, 1000]) }
    : { ...asked, route: 'userOf', user }
  for (let tests = happens(0.2) ? 7 : 1; tests > 0; tests--) yield { ...asked, route: 'testHook' }
  // The order of two deliveries that ended at one instant is unknown.
  if (ends.size === wakeUps.length) yield { ...asked, route: 'deliveries' }
}

const refOf = (execution: Execution) => ({ tenant: execution.tenant.name, key: idempotencyKey(execution) })

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

/** As the partner's program does: an order at its venue, and the report of it. */
function settlement(scene: Scene, execution: Execution): Call {
  const body = bodyFor(scene, execution, 'filled')
  const { usd_amount: usd = '', btc_amount: btc = '', execution_price: price = '', partner_fee_usd } = body
  const terms = { usd, btc, price, fee: partner_fee_usd ?? null }
  return { ...by(scene, execution.tenant), route: 'settle', of: refOf(execution), terms }
}

export const confirmWith = (scene: Scene, execution: Execution, body: ConfirmBody): Call => ({
  ...by(scene, execution.tenant),
  route: 'confirm',
  of: refOf(execution),
  body,
})

export function bodyFor(
  scene: Scene,
  { amount }: Pick<Execution, 'amount'>,
  status: Report['status'],
): ConfirmBody {
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

/** Dollars, coins and a price that agree; sometimes with more places than are stored. */
function amounts({ chance }: Scene, usd: bigint): Partial<ConfirmBody> {
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

// An operator's actions, with reason or without.

export function lever(scene: Scene): Lever {
  const { state, chance } = scene
  const { pick, happens } = chance
  const partner = pick([...state.partners.values()])
  const late = state.executions.filter((one) => one.late.some(({ decided }) => !decided))
  if (late.length > 0 && happens(0.3)) return decide(scene, pick(late))
  // A stopped partner is usually resumed later.
  if ((partner.status === 'disabled' || partner.held) && happens(0.7)) {
    return { do: 'lever', lever: 'change', slug: partner.slug, to: { status: 'active', held: false } }
  }
  return pick([partnerLever, executionLever, executionLever, keyLever, keyLever, tierLever, eraseLever])(
    scene,
    partner,
  )
}

function decide({ chance }: Scene, execution: Execution): Lever {
  const { happens, pick } = chance
  const number = happens(0.6) ? pick(execution.late).number : null
  return { do: 'lever', lever: happens(0.8) ? 'accept' : 'dismiss', of: refOf(execution), number }
}

function partnerLever({ state, chance }: Scene, { slug }: Partner): Lever {
  const { pick, between } = chance
  const to = pick([
    { held: true },
    { status: 'disabled' as const },
    { status: 'disabled' as const, lastMinimum: monthOf(state.clock + between(-70, 60) * DAY) },
    { lastMinimum: pick([null, monthOf(state.clock)]) },
    { minTranche: pick(['1.00', '5.00', '10.00', '25.00']) },
  ])
  return { do: 'lever', lever: 'change', slug, to }
}

function executionLever(scene: Scene): Lever {
  const { state, chance } = scene
  const { happens, between, pick } = chance
  if (state.executions.length === 0) return keyLever(scene)
  const execution = pick(state.executions.slice(-60))
  if (!execution.trade && happens(0.5)) {
    return { do: 'lever', lever: 'cancel', of: refOf(execution), number: null }
  }
  const usd = happens(0.2) ? 0n : (execution.amount * BigInt(between(1, 15))) / 10n
  const btc = usd === 0n ? '0' : `0.${String(between(1, 99_999_999)).padStart(8, '0')}`
  return { do: 'lever', lever: 'adjust', of: refOf(execution), usd: decimal(usd, 2), btc }
}

/** Books a purchase, and perhaps again: out of insistence, by mistake, or in another spelling of its order. */
export function* purchases(scene: Scene): Generator<Action, void> {
  const { happens } = scene.chance
  const purchase = purchaseOf(scene)
  if (!purchase) return
  yield purchase
  if (happens(0.3)) yield purchase
  if (happens(0.3)) yield { ...purchase, order: `0${purchase.order}`, yes: happens(0.2) }
  if (happens(0.3)) yield { ...purchase, yes: true }
}

/** Usually one that looks like another. */
function purchaseOf(scene: Scene): Extract<Lever, { lever: 'record' }> | null {
  const { state, chance, orders } = scene
  const { happens, pick, between } = chance
  const fills = state.executions.filter(({ trade }) => trade && isFill(trade.report)).slice(-60)
  const seen = fills.length > 0 ? pick(fills) : null
  const plan = seen && happens(0.8) ? seen.plan : state.plans.length > 0 ? pick(state.plans) : null
  if (!plan) return null
  orders.last += 1
  const fresh = `order-${orders.last}`
  const other = bodyFor(scene, { amount: plan.amount }, 'filled')
  const { report, executedAt = null } = seen?.trade ?? {}
  const isAlike = report !== undefined && happens(0.8)
  const usd = isAlike ? decimal(report.usd, 2) : (other.usd_amount ?? '')
  const btc = isAlike ? decimal(report.btc, 8) : (other.btc_amount ?? '')
  const near =
    (executedAt ?? state.clock) + pick([0, DAY, -DAY, DAY + 1, -DAY - 1, between(-2 * DAY, 2 * DAY)])
  return {
    do: 'lever',
    lever: 'record',
    tenant: plan.tenant.name,
    plan: plan.id,
    order:
      report && happens(0.3) ? pick([report.order, `0${report.order}`, report.order.toUpperCase()]) : fresh,
    usd: happens(0.3) ? finer(scene, usd) : usd,
    btc: happens(0.3) ? finer(scene, btc) : btc,
    fee: happens(0.3) ? decimal(BigInt(between(0, 500)) * 1_000_000n, 2) : null,
    at: happens(0.3) ? null : iso(happens(0.1) ? near : Math.min(near, state.clock)),
    yes: happens(0.4),
  }
}

/** An equal amount with more places than are stored, as a partner's own arithmetic makes them. */
function finer({ chance: { pick, between } }: Scene, amount: string): string {
  const [whole = '', fraction = ''] = amount.split('.')
  const kept = fraction.slice(0, 8).padEnd(8, '0')
  return `${whole}.${kept}${pick(['0', '4', '49', '5', '50', `4${between(0, 999_999_999)}`, '5000000001'])}`
}

function keyLever({ state, chance }: Scene): Lever {
  const { happens, pick, between } = chance
  const keys = [...state.keys.values()].filter(({ isLost }) => !isLost)
  const label = `k${state.keys.size + 1}`
  const tenant = pick([...state.tenants.values()])
  const isLocked = !keys.some((key) => key.tenant === tenant && isUsable(state, key))
  if (isLocked || keys.length === 0 || happens(0.3)) {
    const life = happens(0.3) ? between(1, 60) * DAY : null
    return { do: 'lever', lever: 'key', tenant: tenant.name, label, life }
  }
  const key = pick(keys).label
  if (happens(0.5)) return { do: 'lever', lever: 'revoke', key }
  return { do: 'lever', lever: 'rotate', key, label, overlap: between(0, 48) * HOUR }
}

function tierLever({ state, chance }: Scene, { slug }: Partner): Lever {
  const { pick, happens, between } = chance
  const from = happens(0.5) ? null : monthOf(state.clock + between(-40, 60) * DAY)
  if (happens(0.5)) {
    return {
      do: 'lever',
      lever: 'override',
      slug,
      tier: pick(['starter', 'scale', 'own', 'vip', null]),
      from,
    }
  }
  const amount = (most: number) => (happens(0.5) ? `${between(0, most)}.${pick(['00', '07'])}` : undefined)
  const name = pick(['starter', 'own', 'growth', 'other', 'vip'])
  // Several begin at the same volume; one has none, and is for overrides.
  const volume = name === 'vip' ? undefined : happens(0.3) ? pick(['0.00', '100.00']) : amount(5_000)
  const [perUser, minimum] = [amount(2), amount(300)]
  return {
    do: 'lever',
    lever: 'tier',
    terms: {
      name,
      from,
      bps: between(0, 120),
      ...(volume !== undefined && { volume }),
      ...(perUser !== undefined && { perUser }),
      ...(minimum !== undefined && { minimum }),
    },
  }
}

function eraseLever({ state, chance }: Scene): Lever {
  const tenant = chance.pick([...state.tenants.values()])
  const users = [...tenant.users.keys()]
  const user = users.length > 0 ? chance.pick(users) : 'nobody'
  return { do: 'lever', lever: 'erase', tenant: tenant.name, user }
}

// Rare events that cost money when they go wrong: corrections of a month that is over, reports that come too early, the
// reset of a sandbox, a restored backup.

/** Events of a frozen database, until it is resumed. */
function* frozen(scene: Scene): Generator<Action, void> {
  const { state, chance, profile } = scene
  const { happens, pick, between } = chance
  for (let deeds = between(0, 8); deeds > 0; deeds--) {
    const tenant = pick([...state.tenants.values()])
    const key = keyOf(scene, tenant)
    const out = tenant.executions.filter(({ status }) => status === 'sent')
    const moves: (() => Action)[] = [
      () => ({ do: 'clock', by: between(1, 2 * profile.cadence) }),
      () => FROZEN_PASS,
      () => ({ ...FROZEN_PASS, price: '50000.00', told: pick([0, 'silent', HOUR] as const) }),
      () => ({ do: 'rehearse', price: pick([null, '50000.00']) }),
      () => ({ do: 'call', key, route: 'due' }),
      () => (out.length > 0 ? confirmation(scene, pick(out)) : oddity(scene, tenant)),
      () => oddity(scene, tenant),
      () => pick([sendPlan, linkUser, setUser, changeHook])(scene, tenant),
      () => lever(scene),
      () => purchaseOf(scene) ?? oddity(scene, tenant),
      () => ({ do: 'call', key, route: pick(['testHook', 'deliveries', 'webhook'] as const) }),
      () => ({ do: 'call', key, route: 'month', month: monthOf(presentOf(state)) }),
      () => ({ do: 'locked', call: linkUser(scene, tenant) }),
      ...(profile.isSteady ? [(): Action => ({ do: 'lever', lever: 'reset', tenant: tenant.name })] : []),
      () => ({ do: happens(0.5) && state.saved ? 'restore' : 'backup' }),
      () => ({ do: 'freeze' }),
    ]
    yield pick(moves)()
  }
  yield { do: 'resume' }
}

const ALONE = { isOverlapped: false, meanwhile: [], receivers: {}, hanging: null }
const FROZEN_PASS: Action = { do: 'pass', price: null, told: 'none', ...ALONE }

/** Backups and restores. An object drawn before this must not be used after it. */
export function* keeping(scene: Scene): Generator<Action, void> {
  const { state, chance, profile } = scene
  const { happens } = chance
  if (happens(profile.odds.keeps)) yield { do: state.saved && happens(0.6) ? 'restore' : 'backup' }
  else if (happens(profile.odds.keeps / 2)) yield { do: 'freeze' }
  if (state.frozen) yield* frozen(scene)
}

/**
 * Trades of months that are over are corrected, usually to less, perhaps before the month has a trade of its own; and
 * somebody reads the result.
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
  yield { ...by(scene, tenant), route: 'month', month: present }
  yield { ...by(scene, tenant), route: 'users', month: present, limit: 100 }
  const billed = corrected.find((one) => one.tenant.environment === 'live') ?? corrected[0]
  const month = monthOf(billed?.trade?.recordedAt ?? state.clock)
  yield { do: 'credit', slug: (billed?.tenant ?? tenant).partner.slug, month }
}

/** A purchase of an instruction that nobody was given, and the further reports of it. */
export function* tooEarly(scene: Scene, tenant: Tenant): Generator<Action, void> {
  const { happens, pick } = scene.chance
  const pending = tenant.executions.filter(({ status }) => status === 'pending')
  if (pending.length === 0) return
  const execution = pick(pending)
  const report = confirmWith(scene, execution, bodyFor(scene, execution, pick(['filled', 'partial'])))
  yield report
  const due: Call = { ...by(scene, tenant), route: 'due' }
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

/** A sandbox is wiped, and usually set up again as before: the same users, plans and beginnings. */
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

/** A partner tries a plan in its sandbox and sends an equal one live, or the other way round. */
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

/** The plan as it was first sent, or as it would be sent today. */
function again(scene: Scene, plan: Plan, tenant = plan.tenant): Call {
  const start = () => scene.chance.happens(0.8) && { start_date: iso(plan.startDate) }
  return { ...by(scene, tenant), route: 'plan', body: { ...termsOf(plan), ...start() } }
}

// Confirmations that are late, repeated, contradictory or somebody else's.

export function oddity(scene: Scene, tenant: Tenant): Action {
  const { happens, pick } = scene.chance
  if (tenant.executions.length === 0 || happens(0.05)) {
    const body = { partner_order_id: 'o', status: 'failed' } as const
    return { ...by(scene, tenant), route: 'confirm', of: `exec_${'0'.repeat(32)}`, body }
  }
  // Each kind as often as the others, however rare it is.
  const recent = tenant.executions.slice(-60)
  const kinds = [
    recent.filter(isOpen),
    recent.filter(({ trade }) => trade),
    recent.filter(({ trade, status }) => !trade && status === 'cancelled'),
  ].filter((kind) => kind.length > 0)
  const execution = pick(pick(kinds))
  if (happens(0.08)) return stranger(scene, execution)
  if (execution.trade) return ofRecorded(scene, execution, execution.trade.report)
  return isOpen(execution) ? ofOpen(scene, execution) : late(scene, execution)
}

/** Under the key of another tenant. */
function stranger(scene: Scene, execution: Execution): Call {
  const other = scene.chance.pick([...scene.state.tenants.values()])
  return { ...confirmWith(scene, execution, bodyFor(scene, execution, 'filled')), key: keyOf(scene, other) }
}

/** A recorded report again, or a different one. */
function ofRecorded(scene: Scene, execution: Execution, report: Report): Action {
  const { happens, pick } = scene.chance
  const again = confirmWith(scene, execution, bodyOf(report))
  if (happens(0.4)) return happens(0.3) ? { do: 'race', calls: [again, again] } : again
  if (happens(0.5))
    return confirmWith(scene, execution, bodyFor(scene, execution, pick(['filled', 'failed', 'partial'])))
  return confirmWith(scene, execution, withOneChange(scene, bodyOf(report)))
}

/** A copy that differs in one value: a recorded report must not change at all. */
function withOneChange({ chance }: Scene, body: ConfirmBody): ConfirmBody {
  const { pick } = chance
  const executed_at = '2020-02-02T02:02:02.002Z'
  if (body.status === 'failed' || body.status === 'cancelled') {
    return { ...body, ...pick([{ failure_reason: 'another' }, { executed_at }]) }
  }
  const changes: Partial<ConfirmBody>[] = [
    { usd_amount: '0.01' },
    { btc_amount: '0.00000007' },
    { execution_price: '12345.67' },
    { partner_fee_usd: '9.99' },
    { executed_at },
    { status: body.status === 'filled' ? 'partial' : 'filled' },
  ]
  return { ...body, ...pick(changes) }
}

function ofOpen(scene: Scene, execution: Execution): Action {
  const { happens, pick } = scene.chance
  const body = bodyFor(scene, execution, 'filled')
  if (happens(0.3))
    return confirmWith(scene, execution, { ...body, ...amounts(scene, execution.amount + 100n) })
  const recorded = execution.tenant.executions.filter(({ trade }) => trade)
  if (recorded.length > 0 && happens(0.5)) {
    const order = pick(recorded).trade?.report.order ?? ''
    return confirmWith(scene, execution, { ...body, partner_order_id: order })
  }
  // The orders of another tenant do not matter here.
  const elsewhere = scene.state.executions.filter(({ trade, tenant }) => trade && tenant !== execution.tenant)
  if (elsewhere.length > 0 && happens(0.3)) {
    const order = pick(elsewhere).trade?.report.order ?? ''
    return confirmWith(scene, execution, { ...body, partner_order_id: order })
  }
  const call = confirmWith(scene, execution, body)
  return happens(0.7) ? { do: 'race', calls: [call, rivalOf(scene, execution, call)] } : call
}

/** A simultaneous call that affects an execution differently than its confirmation does. */
function rivalOf(scene: Scene, execution: Execution, call: Call): Call {
  const { tenant, plan } = execution
  const key = keyOf(scene, tenant)
  return scene.chance.pick<Call>([
    call,
    confirmWith(scene, execution, bodyFor(scene, execution, 'failed')),
    rewordPlan(scene, plan, 'cancelled'),
    { do: 'call', key, route: 'setUser', user: plan.user.id, status: 'disabled' },
    { do: 'call', key, route: 'due' },
    { do: 'call', key, route: 'month', month: monthOf(scene.state.clock) },
  ])
}

/** A purchase after its execution was cancelled, reported once or again. */
function late(scene: Scene, execution: Execution): Call {
  const { happens, pick } = scene.chance
  const known = execution.late.length > 0 && happens(0.4) ? bodyOf(pick(execution.late).report) : null
  return confirmWith(
    scene,
    execution,
    known ?? bodyFor(scene, execution, pick(['filled', 'partial', 'failed'])),
  )
}

/** A report as it was sent. */
function bodyOf(report: Report): ConfirmBody {
  const { order, status, executedAt, usd, btc, price, fee, reason } = report
  const common = {
    partner_order_id: order,
    status,
    ...(executedAt !== null && { executed_at: iso(executedAt) }),
  }
  if (status === 'failed' || status === 'cancelled') {
    // Ignored fields may be sent.
    return { ...common, ...(reason !== null && { failure_reason: reason }), usd_amount: '1.00' }
  }
  return {
    ...common,
    usd_amount: `${dollars(usd)}0`,
    btc_amount: decimal(btc, 8),
    execution_price: decimal(price, 2),
    ...(fee !== null && { partner_fee_usd: dollars(fee) }),
  }
}
