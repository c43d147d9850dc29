import { z } from 'zod'
import { usd } from '../core/money.ts'
import { PLAN_STATUSES, writePlan } from '../core/plan.ts'
import { FREQUENCIES } from '../core/window.ts'
import { bool, datetime, decimal, id, oneOf } from './fields.ts'
import { planJson } from './resource.ts'
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
