// What the store has numbered since it was last asked, in the order of the numbers: calls at the same moment are done
// in an order that only this tells.

import type { Store } from '../../../src/store/store.ts'
import type { LateSeen, News } from './observed.ts'

const EVERYBODY = { slug: null, environment: null }
const LIMIT = 1_000_000

/** Answers what is new since the last time, or since now. */
export async function createNewsReader(store: Store): Promise<() => Promise<News>> {
  let plan: number | null = null
  let late: number | null = null
  const read = async (): Promise<News> => {
    const plans = await store.listPlans(EVERYBODY, { after: plan, limit: LIMIT })
    const kept = await lateAfter(store, late)
    plan = plans.at(-1)?.planId ?? plan
    late = kept.at(-1)?.number ?? late
    return {
      planned: plans.map(({ tenant, partnerPlanId }) => ({
        tenant: `${tenant.partnerSlug}/${tenant.environment}`,
        plan: partnerPlanId,
      })),
      late: kept,
    }
  }
  await read()
  return read
}

/** The reports that were kept behind that one. */
export async function lateAfter(store: Store, number: number | null): Promise<LateSeen[]> {
  const kept = await store.listLateFills({ after: number, limit: LIMIT })
  return kept.map(({ reportId, execution }) => ({ number: reportId, of: execution.executionId }))
}
