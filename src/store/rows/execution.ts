// An execution: the row, with the names its user and plan have at the partner, and the value.

import type { Execution, ExecutionStatus, Trigger } from '../../core/execution.ts'
import type { ExecutionId } from '../../core/execution-id.ts'
import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { ExecutionOfOrder, OrderIs } from '../executions.ts'
import { instant, instantOrNull } from './instant.ts'
import { priceOrNull } from './price.ts'
import { type TenantRow, tenantOf } from './tenant.ts'

export type ExecutionRow = {
  execution_id: string
  plan_id: bigint
  window_id: bigint
  partner_user_id: string
  partner_plan_id: string
  window_start: bigint
  tranche_index: bigint
  amount_usd: bigint
  trigger_kind: string
  slot: bigint
  units: bigint
  price: bigint | null
  reference_price: bigint | null
  reservation_price: bigint | null
  created_at: bigint
  status: string
  delivered_count: bigint
  lease_expires_at: bigint | null
  cancelled_at: bigint | null
  cancel_reason: string | null
}
export const executionOf = (row: ExecutionRow): Execution => ({
  executionId: row.execution_id as ExecutionId,
  planId: Number(row.plan_id),
  windowId: Number(row.window_id),
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  windowStart: instant(row.window_start),
  trancheIndex: Number(row.tranche_index),
  amount: row.amount_usd as Usd,
  firing: {
    trigger: row.trigger_kind as Trigger,
    slot: Number(row.slot),
    units: Number(row.units),
    price: priceOrNull(row.price),
    reference: priceOrNull(row.reference_price),
    reservationPrice: priceOrNull(row.reservation_price),
  },
  createdAt: instant(row.created_at),
  deliveredCount: Number(row.delivered_count),
  leaseExpiresAt: instantOrNull(row.lease_expires_at),
  status: row.status as ExecutionStatus,
  cancelledAt: instantOrNull(row.cancelled_at),
  cancelReason: row.cancel_reason,
})

export type ListedExecutionRow = ExecutionRow & TenantRow

export type OrderRow = ListedExecutionRow & { order_is: OrderIs }

/** Rows of the same execution, which follow each other, make one. */
export function executionsOfOrder(rows: readonly OrderRow[]): ExecutionOfOrder[] {
  const byId = Map.groupBy(rows, ({ execution_id }) => execution_id)
  return [...byId.values()].flatMap((of) => {
    const [row] = of
    return row ? { execution: listedExecution(row), orderIs: of.map(({ order_is }) => order_is) } : []
  })
}

export const listedExecution = (row: ListedExecutionRow): Execution & { tenant: Tenant } => ({
  ...executionOf(row),
  tenant: tenantOf(row),
})
