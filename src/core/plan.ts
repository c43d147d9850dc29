// Plans: the state table of POST /plans, and what must happen before a plan buys again.

import { type Usd, usd } from './money.ts'
import { Problem } from './problem.ts'
import { type Instant, LATEST, later, plus } from './time.ts'
import type { User, UserStatus } from './user.ts'
import {
  type CloseReason,
  type Frequency,
  firstWindow,
  LONGEST_WINDOW_MS,
  type Opening,
  opening,
  resetStart,
  resetsWindow,
  type Schedule,
  type UsedStarts,
  type Window,
} from './window.ts'

export const PLAN_STATUSES = ['active', 'paused', 'cancelled'] as const
export type PlanStatus = (typeof PLAN_STATUSES)[number]

/** The least and the most a plan may spend in a window; the plans table has the same check. */
export const PLAN_AMOUNT_MIN = usd('1.00')
export const PLAN_AMOUNT_MAX = usd('1000000.00')
export const PLAN_AMOUNT_PLACES = 2

/** The latest start_date: the first window, even the longest, ends in a year of four digits. */
export const PLAN_START_MAX = plus(LATEST, -LONGEST_WINDOW_MS)

export type PlanTerms = {
  partnerUserId: string
  partnerPlanId: string
  amount: Usd
  frequency: Frequency
  smartTimingEnabled: boolean
  /** No window opens before it. It is the date in the last request that opened a window, else the time of creation. */
  startDate: Instant
  status: PlanStatus
  createdAt: Instant
  updatedAt: Instant
}

export type Plan = PlanTerms & { readonly planId: number }

export type PlanRequest = {
  partnerUserId: string
  partnerPlanId: string
  amount: Usd
  frequency: Frequency
  smartTimingEnabled?: boolean | undefined
  startDate?: Instant | null | undefined
  status?: PlanStatus | undefined
}

export type PlanFacts = UsedStarts & {
  user: User | null
  plan: Plan | null
  window: { start: Instant; end: Instant } | null
}

export type PlanChange = {
  plan: PlanTerms
  close: CloseReason | null
  open: Opening | null
  cancelsExecutions: boolean
}

/**
 * Decides a POST /plans. Throws user_never_linked, plan_bound_elsewhere, plan_cancelled, user_not_linked. A cancelled
 * plan that is cancelled again, or sent again without a status, is answered unchanged, so that retries are safe. A plan
 * of a disabled user can only be cancelled.
 */
export function writePlan(facts: PlanFacts, request: PlanRequest, now: Instant): PlanChange {
  const { user, plan } = facts
  if (!user) throw new Problem('user_never_linked', 'Partner user not found; create and link the user first.')
  if (plan && plan.partnerUserId !== request.partnerUserId) {
    throw new Problem(
      'plan_bound_elsewhere',
      `partner_plan_id ${plan.partnerPlanId} exists under a different partner_user_id; ` +
        'cancel it and create a new plan.',
    )
  }
  if (plan?.status === 'cancelled') {
    if (request.status === undefined || request.status === 'cancelled') return unchanged(plan)
    throw new Problem(
      'plan_cancelled',
      `Plan ${plan.partnerPlanId} is cancelled; a cancelled plan cannot be reactivated, ` +
        'a new partner_plan_id is needed.',
    )
  }
  // A cancel needs no consent: a partner must always be able to stop a user's plans for good.
  const cancels = plan !== null && request.status === 'cancelled'
  if (user.status !== 'linked' && !cancels)
    throw new Problem('user_not_linked', `Partner user is not active (${user.status}).`)
  return plan ? rewrite({ ...facts, plan }, request, now) : create(facts, request, now)
}

function create({ usedBeforeReset }: PlanFacts, request: PlanRequest, now: Instant): PlanChange {
  const startDate = request.startDate ?? now
  const status = request.status ?? 'active'
  return {
    plan: {
      partnerUserId: request.partnerUserId,
      partnerPlanId: request.partnerPlanId,
      amount: request.amount,
      frequency: request.frequency,
      smartTimingEnabled: request.smartTimingEnabled ?? true,
      startDate,
      status,
      createdAt: now,
      updatedAt: now,
    },
    close: null,
    open: status === 'cancelled' ? null : firstWindow({ ...request, startDate }, usedBeforeReset, now),
    cancelsExecutions: false,
  }
}

function rewrite(facts: PlanFacts & { plan: Plan }, request: PlanRequest, now: Instant): PlanChange {
  const { plan, window } = facts
  const status = request.status ?? plan.status
  if (status === 'cancelled') {
    // A plan that ends keeps its terms: only its status changes.
    return {
      plan: { ...plan, status, updatedAt: now },
      close: 'cancelled',
      open: null,
      cancelsExecutions: true,
    }
  }

  const smartTimingEnabled = request.smartTimingEnabled ?? plan.smartTimingEnabled
  const { amount, frequency } = request
  if (window === null || resetsWindow(plan, { amount, frequency, status })) {
    const startDate = request.startDate ?? plan.startDate
    const start = resetStart(facts, startDate, now)
    return {
      plan: {
        ...plan,
        amount,
        frequency,
        smartTimingEnabled,
        startDate,
        status,
        updatedAt: now,
      },
      close: 'reset',
      open: opening(start, frequency, amount),
      cancelsExecutions: false,
    }
  }

  const same = status === plan.status && smartTimingEnabled === plan.smartTimingEnabled
  if (same) return unchanged(plan)
  return { ...unchanged(plan), plan: { ...plan, smartTimingEnabled, status, updatedAt: now } }
}

/** Whether a change lets more be bought than before, which is refused while nothing may fire. */
export const startsBuying = ({ plan, open }: PlanChange, before: Plan | null): boolean =>
  before === null ||
  open !== null ||
  (plan.status === 'active' && before.status !== 'active') ||
  (plan.smartTimingEnabled && !before.smartTimingEnabled)

const unchanged = (plan: Plan): PlanChange => ({ plan, close: null, open: null, cancelsExecutions: false })

// The step that must happen before a plan buys again, and who takes it: for a partner who asks why nothing is bought.

/** The partner's steps first, then the operator's, then the scheduler's own. */
export const NEXT_STEPS = [
  'confirm',
  'link_user',
  'activate',
  'enable_smart_timing',
  'release_hold',
  'buy',
  'next_window',
  'none',
] as const

/** `at` is when the scheduler takes the step at the latest, never in the past; null when somebody else must act. */
type NextStep = { step: (typeof NEXT_STEPS)[number]; at: Instant | null }

export type PlanState = PlanTerms & {
  userStatus: UserStatus
  window: Window | null
  schedule: Pick<Schedule, 'nextRunAt' | 'fireable' | 'floor'> | null
  held: boolean
  /** When it was read, in its tenant's time. */
  now: Instant
}

export function nextStep(plan: PlanState): NextStep {
  const { window, schedule } = plan
  if (plan.status === 'cancelled') return { step: 'none', at: null }
  // An open execution comes first: money may have moved.
  if (window && window.reserved > 0n) return { step: 'confirm', at: null }
  if (plan.userStatus === 'disabled') return { step: 'link_user', at: null }
  if (plan.status === 'paused') return { step: 'activate', at: null }
  if (!plan.smartTimingEnabled) return { step: 'enable_smart_timing', at: null }
  if (plan.held) return { step: 'release_hold', at: null }
  if (!window || !schedule) return { step: 'next_window', at: null }
  const isSpent = schedule.fireable < schedule.floor
  if (isSpent || plan.now >= window.end) return { step: 'next_window', at: later(window.end, plan.now) }
  return { step: 'buy', at: later(schedule.nextRunAt, plan.now) }
}
