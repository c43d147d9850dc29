// Users and plans as JSON, for the API and for the shell. Apart from the routes, so that a command that only prints
// one does not load what it takes to check a request.

import { formatInstant } from '../core/instant.ts'
import { formatUsd } from '../core/money.ts'
import type { PlanTerms } from '../core/plan.ts'
import type { User } from '../core/user.ts'

export const userJson = (user: User) => ({
  partner_user_id: user.partnerUserId,
  email: user.email,
  auth_provider: user.authProvider,
  // A user exists only with consent.
  consent_accepted: true,
  consent_version: user.consentVersion,
  consent_timestamp: formatInstant(user.consentTimestamp),
  status: user.status,
  created_at: formatInstant(user.createdAt),
  updated_at: formatInstant(user.updatedAt),
})

export const planJson = (plan: PlanTerms) => ({
  partner_user_id: plan.partnerUserId,
  partner_plan_id: plan.partnerPlanId,
  amount_usd: formatUsd(plan.amount),
  frequency: plan.frequency,
  smart_timing_enabled: plan.smartTimingEnabled,
  start_date: formatInstant(plan.startDate),
  status: plan.status,
  created_at: formatInstant(plan.createdAt),
  updated_at: formatInstant(plan.updatedAt),
})
