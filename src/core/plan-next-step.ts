// What has to happen before a plan buys again, and who does it: for a partner that asks why nothing is bought.

import { type Instant, later } from './instant.ts'
import type { PlanTerms } from './plan.ts'
import type { Schedule } from './schedule-state.ts'
import type { UserStatus } from './user.ts'
import type { Window } from './window.ts'

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

/**
 * `at` is when the scheduler takes the step at the latest, and never in the past: what is overdue comes with its next
 * pass. Null where somebody else has to act.
 */
export type NextStep = { step: (typeof NEXT_STEPS)[number]; at: Instant | null }

/** A plan with all that its next step depends on. */
export type PlanState = PlanTerms & {
  userStatus: UserStatus
  /** The current one; null when the plan has none. */
  window: Window | null
  schedule: Pick<Schedule, 'nextRunAt' | 'fireable' | 'floor'> | null
  /** Whether the operator holds the plan's partner. */
  held: boolean
  /** When it was looked at, in its tenant's time. */
  now: Instant
}

export function nextStep(plan: PlanState): NextStep {
  const { window, schedule } = plan
  if (plan.status === 'cancelled') return { step: 'none', at: null }
  // What is open goes before everything else: money may have moved.
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
