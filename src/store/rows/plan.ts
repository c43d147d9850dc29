// A plan: the row and the value, and back.

import type { Frequency } from '../../core/frequency.ts'
import type { Usd } from '../../core/money.ts'
import type { Plan, PlanStatus, PlanTerms } from '../../core/plan.ts'
import { withDigest } from '../digests.ts'
import { instant } from './instant.ts'

export type PlanRow = {
  plan_id: bigint
  user_id: bigint
  partner_user_id: string
  partner_plan_id: string
  amount_usd: bigint
  frequency: string
  smart_timing_enabled: bigint
  start_date: bigint
  status: string
  created_at: bigint
  updated_at: bigint
}
export const planOf = (row: PlanRow): Plan => ({
  planId: Number(row.plan_id),
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  amount: row.amount_usd as Usd,
  frequency: row.frequency as Frequency,
  smartTimingEnabled: row.smart_timing_enabled === 1n,
  startDate: instant(row.start_date),
  status: row.status as PlanStatus,
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
})
/** Of the plan of a user, by the numbers of both rows. */
export const planParams = (plan: PlanTerms, { tenantId, userId }: { tenantId: number; userId: bigint }) =>
  withDigest('plans', {
    tenant_id: tenantId,
    user_id: userId,
    partner_user_id: plan.partnerUserId,
    partner_plan_id: plan.partnerPlanId,
    amount_usd: plan.amount,
    frequency: plan.frequency,
    smart_timing_enabled: plan.smartTimingEnabled ? 1 : 0,
    start_date: plan.startDate,
    status: plan.status,
    created_at: plan.createdAt,
    updated_at: plan.updatedAt,
  })
