// Wake-ups: which ones follow from what a page of plans fires, and how they are handed out to be sent.

import type { Webhook } from '../core/webhook.ts'
import type { WakeUp } from '../core/webhook-payload.ts'
import type { Fired } from './passes.ts'

export interface WakeUpStore {
  /**
   * Hands out the wake-ups that a pass wrote, each exactly once, with the registrations to send them to. Where
   * `hasLeftWakeUps` reports that earlier passes have left some, these are included; those of other passes are not.
   */
  claimWakeUps(passId: number): Promise<(WakeUp & { webhook: Webhook })[]>
  /**
   * Whether a pass, or an earlier one, has left wake-ups that nobody has claimed. False in a store where a crash leaves
   * none to others.
   */
  hasLeftWakeUps(passId: number): Promise<boolean>
}

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
