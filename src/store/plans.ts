// Plans, with the windows and the schedule that follow from them.

import type { Instant } from '../core/instant.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { Plan, PlanChange, PlanSeen } from '../core/plan.ts'
import type { PlanState } from '../core/plan-next-step.ts'
import type { Schedule } from '../core/schedule-state.ts'
import type { Window } from '../core/window.ts'
import type { PageRequest } from './paging.ts'
import type { TenantFilter } from './partners.ts'

export type ListedPlan = Plan & { tenant: Tenant; window: Window | null }

export interface PlanStore {
  changePlan(
    tenant: Caller,
    ids: { partnerUserId: string; partnerPlanId: string },
    decide: (seen: PlanSeen, now: Instant) => PlanChange,
  ): Promise<Omit<Plan, 'planId'>>
  /** A tenant's plans after a partner_plan_id, in the order of these ids. */
  readPlans(tenant: Tenant, page: { after: string | null; limit: number }): Promise<PlanState[]>
  readPlan(tenant: Tenant, partnerPlanId: string): Promise<PlanState | null>
  listPlans(filter: TenantFilter, page: PageRequest): Promise<ListedPlan[]>
  /** A partner_plan_id is unique only within a tenant: returns all plans that have it. */
  findPlans(partnerPlanId: string): Promise<(ListedPlan & { windows: Window[]; schedule: Schedule | null })[]>
}
