// The plans that a pass could not decide, by name.

import type { FailedPlan } from '../../engine/pass.ts'
import type { Store } from '../../store/store.ts'

/** How many failed plans are named: what is wrong with a hundred is best found by looking at one. */
const FAILURES_NAMED_MAX = 10

/** What to say about plans that could not be decided. */
export async function nameFailures(store: Store, failed: readonly FailedPlan[]): Promise<string[]> {
  const named = failed.slice(0, FAILURES_NAMED_MAX).map(async ({ planId, error }) => {
    const [plan] = await store.listPlans({ slug: null, environment: null }, { after: planId - 1, limit: 1 })
    const where = plan
      ? `${plan.tenant.partnerSlug} ${plan.tenant.environment} plan ${plan.partnerPlanId}`
      : `plan ${planId}`
    return `${where} could not be decided and fires nothing: ${(error as Error).message}`
  })
  return Promise.all(named)
}
