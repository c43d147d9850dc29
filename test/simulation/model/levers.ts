// An operator's actions in the model: partners, keys, tiers, and the levers on executions and users.

import { executionOf, type Lever } from '../action.ts'
import { acceptLate, adjust, close, dismissLate, open, settle } from './ledger.ts'
import { follow, freeCell, nextCell } from './pass.ts'
import { patchUser, postPlan } from './plans.ts'
import { recordPurchase } from './purchases.ts'
import {
  currentWindow,
  dollars,
  type Execution,
  isOpen,
  type Key,
  monthBounds,
  monthOf,
  type Partner,
  type Plan,
  presentOf,
  type State,
  type Tenant,
  type User,
  units,
  usedBeginnings,
  WINDOW_LENGTH,
} from './state.ts'

/** The code of a refusal, or null on success. */
export type Refusal = string | null

/** An operator's change is recorded at the time it is made. */
export const audit = (state: State): null => {
  state.audits.push(presentOf(state))
  return null
}

function addPartner(state: State, slug: string): Refusal {
  if (state.partners.has(slug)) return 'partner_exists'
  const createdAt = presentOf(state)
  const partner: Partner = { slug, status: 'active', held: false, minTranche: 500_000_000n, createdAt }
  state.partners.set(slug, partner)
  for (const environment of ['test', 'live'] as const) {
    const name = `${slug}/${environment}`
    const lists = { users: new Map(), plans: new Map(), executions: [], deliveries: [], past: new Map() }
    state.tenants.set(name, { name, partner, environment, ...lists, webhook: null, apart: null })
  }
  return audit(state)
}

export type PartnerChange = {
  status?: 'active' | 'disabled'
  held?: boolean
  minTranche?: string
  /** Null for a minimum without an end. */
  lastMinimum?: string | null
}

function changePartner(state: State, slug: string, wanted: PartnerChange, amount: bigint | null): Refusal {
  const partner = state.partners.get(slug)
  if (!partner) return 'partner_not_found'
  const { status, held, minTranche } = partner
  const present = monthOf(presentOf(state))
  const { lastMinimum = wanted.status === 'active' ? null : undefined } = wanted
  if (lastMinimum && nextMonth(lastMinimum) < present) return 'month_closed'
  if (lastMinimum !== undefined) {
    state.minimumEnds = state.minimumEnds.filter((one) => one.slug !== slug || one.from !== present)
    state.minimumEnds.push({ slug, from: present, last: lastMinimum })
  }
  if (wanted.status) partner.status = wanted.status
  if (wanted.held !== undefined) partner.held = wanted.held
  if (amount !== null) partner.minTranche = amount
  // The change reaches the running windows, and so do changes left unfinished before.
  const reaches = status !== partner.status || held !== partner.held || minTranche !== partner.minTranche
  for (const tenant of state.tenants.values())
    if (reaches && tenant.partner === partner) follow(state, tenant)
  return audit(state)
}

const nextMonth = (month: string): string => monthOf(monthBounds(month).end)

export const isUsable = (state: State, { revokedAt, expiresAt }: Key): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt > presentOf(state))

function createKey(state: State, tenant: Tenant, { label, life }: { label: string; life: number | null }) {
  addKey(state, { label, tenant, life })
  return audit(state)
}

function addKey(
  state: State,
  { label, tenant, life }: { label: string; tenant: Tenant; life: number | null },
) {
  // Dated by the clock itself: a bound that runs ahead would move its end.
  const createdAt = state.clock
  const expiresAt = life === null ? null : createdAt + life
  state.keys.set(label, { label, tenant, createdAt, expiresAt, revokedAt: null, isLost: false })
}

function rotateKey(state: State, old: Key, { label, overlap }: { label: string; overlap: number }): Refusal {
  if (!isUsable(state, old)) return 'key_ended'
  const life = old.expiresAt === null ? null : old.expiresAt - old.createdAt
  const end = state.clock + overlap
  old.expiresAt = old.expiresAt === null ? end : Math.min(old.expiresAt, end)
  addKey(state, { label, tenant: old.tenant, life })
  return audit(state)
}

function revokeKey(state: State, key: Key): Refusal {
  key.revokedAt ??= state.clock
  return audit(state)
}

export type TierTerms = {
  name: string
  from: string | null
  bps: number
  volume?: string
  perUser?: string
  minimum?: string
}

function setTier(
  state: State,
  { name, from, bps }: TierTerms,
  amounts: { volume: bigint | null; perUser: bigint | null; minimum: bigint | null },
): Refusal {
  const present = monthOf(presentOf(state))
  const month = from ?? present
  if (month < present) return 'month_closed'
  const before = state.tiers
    .filter((tier) => tier.name === name && tier.from <= month)
    .sort((a, b) => (a.from < b.from ? -1 : 1))
    .at(-1)
  const own = state.tiers.find((tier) => tier.name === name)
  const place = own?.place ?? 1 + new Set(state.tiers.map((tier) => tier.name)).size
  state.tiers = state.tiers.filter((tier) => tier.name !== name || tier.from !== month)
  state.tiers.push({
    name,
    from: month,
    place,
    minVolume: amounts.volume ?? before?.minVolume ?? null,
    bps,
    perUser: amounts.perUser ?? before?.perUser ?? 0n,
    minimum: amounts.minimum ?? before?.minimum ?? 0n,
  })
  return audit(state)
}

function setOverride(state: State, slug: string, tier: string | null, from: string | null): Refusal {
  if (!state.partners.has(slug)) return 'partner_not_found'
  const present = monthOf(presentOf(state))
  const month = from ?? present
  if (month < present) return 'month_closed'
  if (tier !== null && !state.tiers.some((one) => one.name === tier && one.from <= month))
    return 'tier_not_found'
  state.overrides = state.overrides.filter((one) => one.slug !== slug || one.from !== month)
  state.overrides.push({ slug, from: month, tier })
  return audit(state)
}

function eraseUser(state: State, tenant: Tenant, id: string): Refusal {
  const user = tenant.users.get(id)
  if (!user) return 'user_not_found'
  empty(user, { at: presentOf(state), now: presentOf(state, tenant) })
  state.erasures.push({ tenant: tenant.name, user: id, at: user.erasedAt ?? 0 })
  return audit(state)
}

/** Each erasure of a user is dated after the previous one, even if the clock was set back. */
function empty(user: User, { at, now }: { at: number; now: number }): void {
  user.email = null
  user.provider = null
  user.updatedAt = now
  user.erasedAt = Math.max(at, (user.erasedAt ?? 0) + 1)
}

/**
 * Erases users in a restored backup who were erased since: by a remembered erasure later than the last one in the
 * backup, or by an erasure of a replaced database that the backup lacks.
 */
export function eraseAgain(state: State): void {
  for (const tenant of state.tenants.values()) {
    for (const user of tenant.users.values()) {
      if (user.email === null && user.provider === null) continue
      const ofUser = state.erasures.filter((one) => one.tenant === tenant.name && one.user === user.id)
      const remembered = Math.max(0, ...ofUser.map(({ at }) => at))
      const there = state.replaced.flatMap(({ tenants }) => {
        const old = tenants.get(tenant.name)?.users.get(user.id)
        return old?.email === null && old.erasedAt !== user.erasedAt ? (old.erasedAt ?? []) : []
      })
      if (there.length === 0 && remembered <= (user.erasedAt ?? 0)) continue
      empty(user, { at: Math.max(remembered, ...there), now: presentOf(state, tenant) })
      state.erasures.push({ tenant: tenant.name, user: user.id, at: user.erasedAt ?? 0 })
      audit(state)
    }
  }
}

/**
 * Applies the stops of the replaced databases that this one lacks: partners, keys, users, then plans. Each adds an
 * entry to the audit log.
 */
export function carryStops(state: State): void {
  const once = new Set<string>()
  const isNew = (...words: string[]): boolean => {
    const key = JSON.stringify(words)
    return !once.has(key) && once.add(key) !== null
  }
  // All stops are found in the copy before any of them is applied.
  const stops: [number, () => unknown][] = []
  for (const { partners, tenants, keys } of state.replaced) {
    for (const old of partners.values()) {
      const partner = state.partners.get(old.slug)
      if (!partner) continue
      if (old.status === 'disabled' && partner.status !== 'disabled' && isNew('disabled', old.slug))
        stops.push([0, () => changePartner(state, old.slug, { status: 'disabled' }, null)])
      if (old.held && !partner.held && isNew('held', old.slug))
        stops.push([1, () => changePartner(state, old.slug, { held: true }, null)])
    }
    for (const old of keys.values()) {
      const key = state.keys.get(old.label)
      if (!key || key.createdAt !== old.createdAt || key.revokedAt !== null) continue
      const endsEarlier = old.expiresAt !== null && (key.expiresAt === null || old.expiresAt < key.expiresAt)
      if ((old.revokedAt === null && !endsEarlier) || !isNew('key', old.label)) continue
      stops.push([2, () => endKey(state, key, old)])
    }
    for (const old of tenants.values()) {
      const tenant = state.tenants.get(old.name)
      if (!tenant) continue
      for (const { id, status } of old.users.values())
        if (status === 'disabled' && (tenant.users.get(id)?.status ?? status) !== status)
          if (isNew('user', old.name, id))
            stops.push([3, () => audited(state, patchUser(state, tenant, id, 'disabled'))])
      for (const { id, status } of old.plans.values()) {
        const plan = tenant.plans.get(id)
        if (!plan || plan.status === 'cancelled' || status === 'active') continue
        if (status === 'paused' && plan.status !== 'active') continue
        if (isNew(status, old.name, id))
          stops.push([status === 'cancelled' ? 4 : 5, () => audited(state, stopPlan(state, plan, status))])
      }
    }
  }
  for (const [, stop] of stops.sort(([a], [b]) => a - b)) stop()
}

const audited = (state: State, _: unknown): null => audit(state)

function endKey(state: State, key: Key, old: Key): void {
  if (old.revokedAt !== null) key.revokedAt = state.clock
  else key.expiresAt = old.expiresAt
  audit(state)
}

const stopPlan = (state: State, plan: Plan, status: 'paused' | 'cancelled') =>
  postPlan(state, plan.tenant, {
    partner_user_id: plan.user.id,
    partner_plan_id: plan.id,
    amount_usd: dollars(plan.amount),
    frequency: plan.frequency,
    status,
  })

/**
 * Returns a window that a clock ahead had rolled: to the present cell of its grid, or the plan's start while that is in
 * the future; or to the first later cell with money left.
 */
function bringBack(state: State, tenant: Tenant, id: string): Refusal {
  const now = presentOf(state, tenant)
  const plan = tenant.plans.get(id)
  const window = plan && currentWindow(plan)
  if (!window || window.start <= Math.max(now, plan.startDate)) return null
  const { startDate, frequency, amount } = plan
  const first = { start: startDate, end: startDate + WINDOW_LENGTH[frequency], budget: amount }
  const place = freeCell(plan, startDate > now ? first : nextCell(plan, window, now))
  if (place.start >= window.start || place.end >= window.end) return null
  close(plan, now, 'reset')
  open(plan, place)
  return audit(state)
}

function cancelExecution(state: State, execution: Execution): Refusal {
  if (execution.trade) return 'execution_recorded'
  if (!isOpen(execution)) return 'execution_cancelled'
  execution.status = 'cancelled'
  execution.cancelledAt = presentOf(state, execution.tenant)
  settle(execution, 0n)
  return audit(state)
}

/** Deletes the data of a test environment, except its keys, its webhook, and the idempotency keys it has issued. */
function resetSandbox(state: State, tenant: Tenant): Refusal {
  if (tenant.environment === 'live') return 'sandbox_refused'
  for (const plan of tenant.plans.values()) tenant.past.set(plan.id, usedBeginnings(plan))
  const isOthers = (one: { tenant: Tenant }) => one.tenant !== tenant
  state.plans = state.plans.filter(isOthers)
  state.executions = state.executions.filter(isOthers)
  tenant.executions = []
  // A store may number again from the last one that is left.
  state.lateNumbers = Math.max(0, ...state.executions.flatMap(({ late }) => late.map(({ number }) => number)))
  tenant.users.clear()
  tenant.plans.clear()
  tenant.deliveries = []
  tenant.apart ??= { reportedUntil: 0 }
  return audit(state)
}

// The model's answer to an operator's command: the code of its refusal, or null.

type Operation<L> = (state: State, lever: Lever & { lever: L }) => Refusal
const amountOf = (text: string | undefined) => (text === undefined ? null : units(text))
const OPERATIONS: { [L in Lever['lever']]: Operation<L> } = {
  partner: (state, { slug }) => addPartner(state, slug),
  change: (state, { slug, to }) => changePartner(state, slug, to, amountOf(to.minTranche)),
  key: (state, asked) => createKey(state, tenantOf(state, asked.tenant), asked),
  rotate: (state, asked) => rotateKey(state, keyOf(state, asked.key), asked),
  revoke: (state, { key }) => revokeKey(state, keyOf(state, key)),
  tier: (state, { terms }) => {
    const { volume, perUser, minimum } = terms
    const amounts = { volume: amountOf(volume), perUser: amountOf(perUser), minimum: amountOf(minimum) }
    return setTier(state, terms, amounts)
  },
  override: (state, { slug, tier, from }) => setOverride(state, slug, tier, from),
  reset: (state, { tenant }) => resetSandbox(state, tenantOf(state, tenant)),
  erase: (state, { tenant, user }) => eraseUser(state, tenantOf(state, tenant), user),
  bringBack: (state, { tenant, plan }) => bringBack(state, tenantOf(state, tenant), plan),
  cancel: (state, { of }) => cancelExecution(state, executionOf(state, of)),
  accept: (state, { of, number }) => acceptLate(state, executionOf(state, of), number),
  dismiss: (state, { of, number }) => dismissLate(state, executionOf(state, of), number),
  record: (state, terms) => recordPurchase(state, tenantOf(state, terms.tenant), terms),
  adjust: (state, { of, usd, btc }) =>
    adjust(state, executionOf(state, of), { usd: units(usd), btc: units(btc), reason: 'simulated' }),
}

export function operate(state: State, action: Lever): Refusal {
  const operation = OPERATIONS[action.lever] as (state: State, action: Lever) => Refusal
  return operation(state, action)
}

function tenantOf(state: State, name: string): Tenant {
  const tenant = state.tenants.get(name)
  if (!tenant) throw new Error(`there is no tenant ${name}`)
  return tenant
}

function keyOf(state: State, label: string): Key {
  const key = state.keys.get(label)
  if (!key) throw new Error(`there is no key ${label}`)
  return key
}
