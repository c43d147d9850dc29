// The model's plans: the state table of POST /plans and the rule of when a window begins anew.

import { type Expected, ok, refused, refusedNaming } from './answer.ts'
import { freeSlot } from './firing.ts'
import { cancelOpen, close, open } from './ledger.ts'
import {
  currentWindow,
  type Frequency,
  type Plan,
  presentOf,
  type State,
  type Tenant,
  usedBeginnings,
  WINDOW_LENGTH,
} from './state.ts'
import { dollars, iso, units } from './units.ts'

export type PlanBody = {
  partner_user_id: string
  partner_plan_id: string
  amount_usd: string
  frequency: Frequency
  smart_timing_enabled?: boolean
  start_date?: string | null
  status?: Plan['status']
}

const json = (plan: Plan) => ({
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
    if (body.status === undefined || body.status === 'cancelled') return ok(json(plan))
    return refusedNaming(409, plan.id, 'cannot be reactivated', 'new partner_plan_id')
  }
  const isCancel = plan !== undefined && body.status === 'cancelled'
  if (user.status !== 'linked' && !isCancel)
    return refused(403, `Partner user is not active (${user.status}).`)
  const now = presentOf(state, tenant)
  if (plan) return ok(json(rewrite(plan, body, now)))
  return ok(json(create(state, tenant, body, now)))
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
    // A start in the past opens the slot of its grid that contains now.
    const length = WINDOW_LENGTH[plan.frequency]
    const start = startDate >= now ? startDate : startDate + Math.floor((now - startDate) / length) * length
    // Behind what a sandbox had before it was begun anew.
    open(plan, freeSlot(plan, { start, end: start + length, budget: plan.amount }))
  }
  return plan
}

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
  const resets =
    amount !== plan.amount ||
    body.frequency !== plan.frequency ||
    (plan.status === 'paused' && status === 'active') ||
    currentWindow(plan) === null
  if (resets || status !== plan.status || smart !== plan.smart) plan.updatedAt = now
  plan.status = status
  plan.smart = smart
  if (!resets) return plan
  plan.amount = amount
  plan.frequency = body.frequency
  if (typeof body.start_date === 'string') plan.startDate = Date.parse(body.start_date)
  const wanted = Math.max(now, plan.startDate)
  // No idempotency key twice: behind the last window that has executions, unless a wrong clock put it far ahead.
  const used = usedBeginnings(plan).filter((start) => start >= wanted)
  const near = used.filter((start) => start < wanted + WINDOW_LENGTH['bi-weekly'])
  let start = near.length > 0 ? Math.max(...near) + 1 : wanted
  while (used.includes(start)) start += 1
  close(plan, now, 'reset')
  open(plan, { start, end: start + WINDOW_LENGTH[plan.frequency], budget: plan.amount })
  return plan
}
