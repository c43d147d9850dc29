// How many plans there are, counted at most once a minute: counting them reads every one.

import { type Instant, MINUTE_MS } from '../core/instant.ts'
import type { MonitoringStore, PlanCounts } from '../store/monitoring.ts'

export const PLANS_COUNTED_MS = MINUTE_MS

export type PlanCounter = (store: Pick<MonitoringStore, 'countPlans'>, now: Instant) => Promise<PlanCounts>

/** Answers the latest count until it is too old, or the clock was set back by as much. */
export function createPlanCounter(): PlanCounter {
  let latest: { at: Instant; counts: PlanCounts } | null = null
  return async (store, now) => {
    if (latest === null || Math.abs(now - latest.at) >= PLANS_COUNTED_MS)
      latest = { at: now, counts: await store.countPlans() }
    return latest.counts
  }
}
