// The model's plans: the state table of POST /plans and the rule for the reset of a window.

import { ANY_TEXT, type Expected, FROZEN, ok, pagesOf, refused, refusedNaming } from './calls.ts'
import { cancelOpen, close, open } from './ledger.ts'
import { ownerJson } from './months.ts'
import { freeCell } from './pass.ts'
import {
  currentWindow,
  type Delivery,
  dollars,
  type Frequency,
  idempotencyKey,
  iso,
  isoOrNull,
  MINUTE,
  type Plan,
  presentOf,
  type State,
  type Tenant,
  type User,
  units,
  usedBeginnings,
  type WakeUp,
  WINDOW_LENGTH,
} from './state.ts'

export type PlanBody = {
  partner_user_id: string
  partner_plan_id: string
  amount_usd: string
  frequency: Frequency
  smart_timing_enabled?: boolean
  start_date?: string | null
  status?: Plan['status']
}

const planJson = (plan: Plan) => ({
  partner_user_id: plan.user.id,
  partner_plan_id: plan.id,
  amount_usd: dollars(plan.amount),
  frequency: plan.frequency,
  smart_timing_enabled: plan.smart,
  start_date: iso(plan.startDate),
  status: plan.status,
  created_at: iso(plan.createdAt),
  updated_at: iso(plan.updatedAt),
})

export function postPlan(state: State, tenant: Tenant, body: PlanBody): Expected {
  const user = tenant.users.get(body.partner_user_id)
  if (!user) return refused(404, 'Partner user not found; create and link the user first.')
  const plan = tenant.plans.get(body.partner_plan_id)
  if (plan && plan.user !== user) {
    return refusedNaming(409, plan.id, 'different partner_user_id', 'cancel', 'new plan')
  }
  if (plan?.status === 'cancelled') {
    if (body.status === undefined || body.status === 'cancelled') return ok(planJson(plan))
    return refusedNaming(409, plan.id, 'cannot be reactivated', 'new partner_plan_id')
  }
  const isCancel = plan !== undefined && body.status === 'cancelled'
  if (user.status !== 'linked' && !isCancel)
    return refused(403, `Partner user is not active (${user.status}).`)
  if (state.frozen && (!plan || starts(plan, body))) return FROZEN
  const now = presentOf(state, tenant)
  if (plan) return ok(planJson(rewrite(plan, body, now)))
  return ok(planJson(create(state, tenant, body, now)))
}

function create(state: State, tenant: Tenant, body: PlanBody, now: number): Plan {
  const user = tenant.users.get(body.partner_user_id)
  if (!user) throw new Error('the user was looked up before')
  const startDate = typeof body.start_date === 'string' ? Date.parse(body.start_date) : now
  const plan: Plan = {
    tenant,
    user,
    id: body.partner_plan_id,
    amount: units(body.amount_usd),
    frequency: body.frequency,
    smart: body.smart_timing_enabled ?? true,
    startDate,
    status: body.status ?? 'active',
    createdAt: now,
    updatedAt: now,
    windows: [],
    executions: [],
    timing: null,
  }
  tenant.plans.set(plan.id, plan)
  state.plans.push(plan)
  if (plan.status !== 'cancelled') {
    // A start in the past opens the cell of its grid that contains now.
    const length = WINDOW_LENGTH[plan.frequency]
    const start = startDate >= now ? startDate : startDate + Math.floor((now - startDate) / length) * length
    // After the windows that a sandbox had before its reset.
    open(plan, freeCell(plan, { start, end: start + length, budget: plan.amount }))
  }
  return plan
}

function doesReset(plan: Plan, body: PlanBody): boolean {
  return (
    units(body.amount_usd) !== plan.amount ||
    body.frequency !== plan.frequency ||
    (plan.status === 'paused' && (body.status ?? plan.status) === 'active') ||
    currentWindow(plan) === null
  )
}

const starts = (plan: Plan, body: PlanBody): boolean =>
  body.status !== 'cancelled' &&
  (doesReset(plan, body) || (!plan.smart && body.smart_timing_enabled === true))

function rewrite(plan: Plan, body: PlanBody, now: number): Plan {
  const status = body.status ?? plan.status
  if (status === 'cancelled') {
    cancelOpen(plan, now)
    close(plan, now, 'cancelled')
    plan.status = status
    plan.updatedAt = now
    return plan
  }
  const amount = units(body.amount_usd)
  const smart = body.smart_timing_enabled ?? plan.smart
  const resets = doesReset(plan, body)
  if (resets || status !== plan.status || smart !== plan.smart) plan.updatedAt = now
  plan.status = status
  plan.smart = smart
  if (!resets) return plan
  plan.amount = amount
  plan.frequency = body.frequency
  if (typeof body.start_date === 'string') plan.startDate = Date.parse(body.start_date)
  const wanted = Math.max(now, plan.startDate)
  // No idempotency key twice: after the last window that has executions, unless a wrong clock put it far ahead.
  const used = usedBeginnings(plan).filter((start) => start >= wanted)
  const near = used.filter((start) => start < wanted + WINDOW_LENGTH['bi-weekly'])
  let start = near.length > 0 ? Math.max(...near) + 1 : wanted
  while (used.includes(start)) start += 1
  close(plan, now, 'reset')
  open(plan, { start, end: start + WINDOW_LENGTH[plan.frequency], budget: plan.amount })
  return plan
}

// The model's users: linked, disabled, linked again.

export type UserBody = {
  partner_user_id: string
  email?: string | null
  auth_provider?: string | null
  consent_accepted: boolean
  consent_version: string
  consent_timestamp: string
}

const userJson = (user: User) => ({
  partner_user_id: user.id,
  email: user.email,
  auth_provider: user.provider,
  consent_accepted: true,
  consent_version: user.consentVersion,
  consent_timestamp: iso(user.consentAt),
  status: user.status,
  created_at: iso(user.createdAt),
  updated_at: iso(user.updatedAt),
})

/** A missing field keeps its value, null clears it; a disabled user stays disabled. */
export function postUser(state: State, tenant: Tenant, body: UserBody): Expected {
  if (!body.consent_accepted) return refused(400, 'User consent is required.')
  const now = presentOf(state, tenant)
  const id = body.partner_user_id
  const known = tenant.users.get(id)
  const unsaid = { email: null, provider: null, consentVersion: '', consentAt: 0, consents: new Map() }
  const dates = { createdAt: now, updatedAt: now, erasedAt: null }
  const user: User = known ?? { id, status: 'linked', ...unsaid, ...dates }
  if (body.email !== undefined) user.email = body.email
  if (body.auth_provider !== undefined) user.provider = body.auth_provider
  user.consentVersion = body.consent_version
  user.consentAt = Date.parse(body.consent_timestamp)
  user.updatedAt = now
  const consent = `${user.consentVersion} ${iso(user.consentAt)}`
  user.consents.set(consent, user.consents.get(consent) ?? now)
  tenant.users.set(id, user)
  return ok(userJson(user))
}

/** A disable pauses the active plans and cancels the open executions of all plans; a link pauses and starts nothing. */
export function patchUser(state: State, tenant: Tenant, id: string, status: User['status']): Expected {
  const user = tenant.users.get(id)
  if (!user) return refused(404, 'Partner user not found.')
  const now = presentOf(state, tenant)
  const changes = user.status !== status
  if (changes) {
    user.status = status
    user.updatedAt = now
  }
  if (status === 'linked') return ok(userJson(user))
  let paused = 0
  let cancelled = 0
  for (const plan of changes ? tenant.plans.values() : []) {
    if (plan.user !== user) continue
    cancelled += cancelOpen(plan, now)
    if (plan.status !== 'active') continue
    paused += 1
    plan.status = 'paused'
    plan.updatedAt = now
  }
  return ok({ ...userJson(user), plans_paused: paused, executions_cancelled: cancelled })
}

// The model's webhooks: one for each tenant, paused after ten failures in a row.

export type Attempt = { statusCode: number | null; failure: string | null }

const webhookJson = ({ webhook, ...owner }: Tenant) => ({
  ...ownerJson(owner),
  url: webhook?.url ?? null,
  status: webhook?.status ?? null,
  created_at: isoOrNull(webhook?.createdAt ?? null),
  updated_at: isoOrNull(webhook?.updatedAt ?? null),
  last_delivered_at: isoOrNull(webhook?.lastDeliveredAt ?? null),
  last_status_code: webhook?.lastStatusCode ?? null,
  consecutive_failures: webhook?.failures ?? null,
  ...(webhook?.lastFailure && {
    last_failed_at: isoOrNull(webhook.lastFailure.at),
    last_failure_reason: webhook.lastFailure.reason,
  }),
})

export function postWebhook(state: State, tenant: Tenant, url: string): Expected {
  const now = presentOf(state, tenant)
  state.registrations += 1
  tenant.webhook = {
    url,
    registration: state.registrations,
    status: 'active',
    createdAt: tenant.webhook?.createdAt ?? now,
    updatedAt: now,
    lastDeliveredAt: null,
    lastStatusCode: null,
    failures: 0,
    lastFailure: null,
  }
  return ok({ ...webhookJson(tenant), secret: ANY_TEXT })
}

export const getWebhook = (tenant: Tenant): Expected => ok(webhookJson(tenant))

export function deleteWebhook(tenant: Tenant): Expected {
  const deleted = tenant.webhook !== null
  tenant.webhook = null
  return ok({ ok: true, ...ownerJson(tenant), deleted })
}

/** Enters the result of a wake-up; one for an earlier registration does not affect this one. */
export function note(state: State, wakeUp: WakeUp, attempt: Attempt): void {
  const { tenant, count, key } = wakeUp
  keep(state, tenant, { count, earliest: key, ...attempt })
  const { webhook } = tenant
  if (webhook?.registration !== wakeUp.registration) return
  const now = presentOf(state, tenant)
  webhook.lastStatusCode = attempt.statusCode ?? webhook.lastStatusCode
  if (attempt.failure === null) {
    webhook.lastDeliveredAt = now
    webhook.failures = 0
    return
  }
  webhook.failures += 1
  webhook.lastFailure = { at: now, reason: attempt.failure }
  if (webhook.failures < 10 || webhook.status === 'paused') return
  webhook.status = 'paused'
  webhook.updatedAt = now
}

// Deliveries to a tenant's webhooks: the newest hundred, with the tests, of which five may end in a minute.

function keep(state: State, { deliveries }: Tenant, sent: Omit<Delivery, 'endedAt'>): Delivery {
  const delivery = { endedAt: presentOf(state), ...sent }
  deliveries.push(delivery)
  if (deliveries.length > 100) deliveries.shift()
  return delivery
}

const deliveryJson = (tenant: Tenant, { endedAt, count, earliest, statusCode, failure }: Delivery) => ({
  ended_at: iso(endedAt),
  event: 'executions.available',
  test: earliest === null,
  count,
  earliest_execution_id:
    tenant.executions.find((one) => idempotencyKey(one) === earliest)?.id ?? `exec_${'0'.repeat(32)}`,
  origin: 'https://partner.example',
  delivered: failure === null,
  status_code: statusCode,
  failure_reason: failure,
  // The duration of every receiver of the simulation.
  duration_ms: 5,
})

export function getDeliveries(tenant: Tenant): Expected {
  const deliveries = tenant.deliveries.map((sent) => deliveryJson(tenant, sent)).reverse()
  return ok({ ...ownerJson(tenant), deliveries })
}

export function testWebhook(state: State, tenant: Tenant): Expected {
  if (!tenant.webhook) return refused(404, 'No webhook is registered.')
  const now = presentOf(state)
  const fifth = tenant.deliveries.filter(({ earliest }) => earliest === null).at(-5)
  // A test dated ahead was noted before the clock was set back.
  if (fifth && fifth.endedAt <= now && now < fifth.endedAt + MINUTE)
    return { ...refused(429, 'At most 5 tests of a webhook a minute.'), code: 'rate_limited' }
  const sent = keep(state, tenant, { count: 0, earliest: null, statusCode: 204, failure: null })
  return ok({ ...ownerJson(tenant), ...deliveryJson(tenant, sent) })
}

// A partner's reads of its users.

/** Page by page, in the order of the bytes of their ids. */
export function userListPages(tenant: Tenant, limit: number): Expected[] {
  const rows = [...tenant.users.values()].sort((a, b) => Buffer.compare(Buffer.from(a.id), Buffer.from(b.id)))
  const bodyOf = (own: readonly User[]) => ({ ...ownerJson(tenant), users: own.map(userJson) })
  return pagesOf(limit, () => ({ rows, bodyOf }))
}

/** With every consent, the first to arrive first. */
export function getUser(tenant: Tenant, id: string): Expected {
  const user = tenant.users.get(id)
  if (!user) return refused(404, 'Partner user not found.')
  const consents = [...user.consents]
    .sort(([, a], [, b]) => a - b)
    .map(([consent, at]) => {
      const [version, timestamp] = consent.split(' ')
      return { version, timestamp, received_at: iso(at) }
    })
  return ok({ ...userJson(user), consents })
}
