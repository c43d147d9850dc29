// The wake-ups that follow from what a page of plans fires.

import type { WakeUp } from '../core/wake-up.ts'
import type { Fired } from './passes.ts'

/** One for each tenant, in the order of their numbers. */
export function wakeUpsOf(fired: readonly Fired[]): WakeUp[] {
  const wakeUps = new Map<number, WakeUp>()
  for (const { tenant, executionId } of fired) {
    const of = wakeUps.get(tenant.tenantId)
    if (of) of.count += 1
    else wakeUps.set(tenant.tenantId, { tenant, count: 1, earliest: executionId })
  }
  return [...wakeUps.values()].sort((a, b) => a.tenant.tenantId - b.tenant.tenantId)
}
