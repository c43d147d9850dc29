import { z } from 'zod'
import { formatInstant } from '../core/instant.ts'
import { formatUsd, usd } from '../core/money.ts'
import { PLAN_STATUSES, type PlanTerms, writePlan } from '../core/plan.ts'
import { FREQUENCIES } from '../core/window.ts'
import { bool, datetime, decimal, id, oneOf } from './fields.ts'
import { route } from './route.ts'

export const planBody = z.object({
  partner_user_id: id(),
  partner_plan_id: id(),
  amount_usd: decimal(usd, { placesMax: 2, atLeast: '1.00', atMost: '1000000.00' }),
  frequency: oneOf(FREQUENCIES),
  smart_timing_enabled: bool().optional(),
  start_date: datetime().nullish(),
  status: oneOf(PLAN_STATUSES).optional(),
})

export const postPlan = route({
  method: 'POST',
  path: '/partner/v1/plans',
  body: planBody,
  handle: async ({ store, tenant, body }) => {
    const request = {
      partnerUserId: body.partner_user_id,
      partnerPlanId: body.partner_plan_id,
      amount: body.amount_usd,
      frequency: body.frequency,
      smartTimingEnabled: body.smart_timing_enabled,
      startDate: body.start_date,
      status: body.status,
    }
    return planJson(await store.changePlan(tenant, request, (seen, now) => writePlan(seen, request, now)))
  },
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
