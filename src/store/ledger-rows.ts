// Rows to values and back: windows, schedules, executions and reports.

import type { Execution, ExecutionStatus, Trigger } from '../core/execution.ts'
import type { ExecutionId } from '../core/execution-id.ts'
import type { Btc, Price, Usd } from '../core/money.ts'
import type { Schedule } from '../core/schedule-state.ts'
import type { Report } from '../core/trade.ts'
import type { CloseReason, Window } from '../core/window.ts'
import { instant, instantOrNull } from './rows.ts'

const priceOrNull = (value: bigint | null): Price | null => value as Price | null

export type WindowRow = {
  window_id: bigint
  plan_id: bigint
  window_start: bigint
  window_end: bigint
  budget: bigint
  reserved: bigint
  spent: bigint
  released: bigint
  closed_at: bigint | null
  close_reason: string | null
}
export const windowOf = (row: WindowRow): Window => ({
  windowId: Number(row.window_id),
  planId: Number(row.plan_id),
  start: instant(row.window_start),
  end: instant(row.window_end),
  budget: row.budget as Usd,
  reserved: row.reserved as Usd,
  spent: row.spent as Usd,
  released: row.released as Usd,
  closed:
    row.closed_at === null ? null : { at: instant(row.closed_at), reason: row.close_reason as CloseReason },
})
export const windowParams = (window: Window) => ({
  window_id: window.windowId,
  reserved: window.reserved,
  spent: window.spent,
  released: window.released,
  closed_at: window.closed?.at ?? null,
  close_reason: window.closed?.reason ?? null,
})

export type ScheduleRow = {
  plan_id: bigint
  window_id: bigint
  next_run_at: bigint
  limit_price: bigint | null
  clock_at: bigint | null
  window_start: bigint
  window_end: bigint
  budget: bigint
  fireable: bigint
  floor: bigint
  tranche_index: bigint
  slots: bigint | null
  units_per_slot: bigint | null
  units_fired: bigint | null
  slot: bigint
  reference_price: bigint | null
  half_width: number | null
  extras_left: bigint
  next_extra_at: bigint
}
export const scheduleOf = (row: ScheduleRow): Schedule => ({
  planId: Number(row.plan_id),
  windowId: Number(row.window_id),
  windowStart: instant(row.window_start),
  windowEnd: instant(row.window_end),
  budget: row.budget as Usd,
  fireable: row.fireable as Usd,
  floor: row.floor as Usd,
  trancheIndex: Number(row.tranche_index),
  layout:
    row.slots === null
      ? null
      : {
          slots: Number(row.slots),
          unitsPerSlot: Number(row.units_per_slot),
          unitsFired: Number(row.units_fired),
        },
  slot: Number(row.slot),
  reference:
    row.reference_price === null || row.half_width === null
      ? null
      : { price: row.reference_price as Price, halfWidth: row.half_width },
  nextRunAt: instant(row.next_run_at),
  limitPrice: priceOrNull(row.limit_price),
  clockAt: instantOrNull(row.clock_at),
  extrasLeft: Number(row.extras_left),
  nextExtraAt: instant(row.next_extra_at),
})
export const scheduleParams = (schedule: Schedule) => ({
  plan_id: schedule.planId,
  window_id: schedule.windowId,
  next_run_at: schedule.nextRunAt,
  limit_price: schedule.limitPrice,
  clock_at: schedule.clockAt,
  window_start: schedule.windowStart,
  window_end: schedule.windowEnd,
  budget: schedule.budget,
  fireable: schedule.fireable,
  floor: schedule.floor,
  tranche_index: schedule.trancheIndex,
  slots: schedule.layout?.slots ?? null,
  units_per_slot: schedule.layout?.unitsPerSlot ?? null,
  units_fired: schedule.layout?.unitsFired ?? null,
  slot: schedule.slot,
  reference_price: schedule.reference?.price ?? null,
  half_width: schedule.reference?.halfWidth ?? null,
  extras_left: schedule.extrasLeft,
  next_extra_at: schedule.nextExtraAt,
})

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

export type ReportRow = {
  partner_order_id: string
  status: string
  usd_amount: bigint | null
  btc_amount: bigint | null
  execution_price: bigint | null
  partner_fee_usd: bigint | null
  executed_at: bigint | null
  failure_reason: string | null
}
export function reportOf(row: ReportRow): Report {
  const common = { partnerOrderId: row.partner_order_id, executedAt: instantOrNull(row.executed_at) }
  if (row.status === 'failed' || row.status === 'cancelled') {
    return { status: row.status, ...common, failureReason: row.failure_reason }
  }
  return {
    status: row.status as 'filled' | 'partial',
    ...common,
    usdAmount: row.usd_amount as Usd,
    btcAmount: row.btc_amount as Btc,
    executionPrice: row.execution_price as Price,
    partnerFee: row.partner_fee_usd as Usd | null,
  }
}
export function reportParams(report: Report) {
  const fill = 'usdAmount' in report ? report : null
  return {
    partner_order_id: report.partnerOrderId,
    status: report.status,
    usd_amount: fill?.usdAmount ?? null,
    btc_amount: fill?.btcAmount ?? null,
    execution_price: fill?.executionPrice ?? null,
    partner_fee_usd: fill?.partnerFee ?? null,
    executed_at: report.executedAt,
    failure_reason: 'failureReason' in report ? report.failureReason : null,
  }
}
