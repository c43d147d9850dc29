// What a pass fires, as the row of its execution.

import type { Instant } from '../../core/instant.ts'
import { withDigest } from '../digests.ts'
import type { Fired } from '../passes.ts'

/** `at` is the time of the plan's tenant. */
export type FiredRow = Fired & { at: Instant }

export const firedParams = ({ tenant, executionId, planId, tranche, schedule, at }: FiredRow) =>
  withDigest('executions', {
    execution_id: executionId,
    tenant_id: tenant.tenantId,
    plan_id: planId,
    window_id: schedule.windowId,
    window_start: schedule.windowStart,
    tranche_index: schedule.trancheIndex - 1,
    amount_usd: tranche.amount,
    trigger_kind: tranche.trigger,
    slot: tranche.slot,
    units: tranche.units,
    price: tranche.price,
    reference_price: tranche.reference,
    reservation_price: tranche.reservationPrice,
    created_at: at,
    status: 'pending',
  })
