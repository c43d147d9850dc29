// An execution and what became of it, as JSON: its trade, its adjustments, a fill that came late.

import { type Adjustment, amountsOf, type Correction, feeOf } from '../../core/adjustment.ts'
import { isFill, type Report } from '../../core/confirmation-report.ts'
import { idempotencyKey } from '../../core/idempotency-key.ts'
import { formatInstant } from '../../core/instant.ts'
import type { LateFill } from '../../core/keep-late-fill.ts'
import { formatBtc, formatPrice, formatUsd, type Usd } from '../../core/money.ts'
import { executedAtOf, type Trade } from '../../core/trade.ts'
import type { ListedExecution } from '../../store/executions.ts'
import type { ListedLateFill } from '../../store/trades.ts'

export type Outcome = { trade: Trade | null; adjustments: Adjustment[]; lateFills: LateFill[] }

export const executionJson = (row: ListedExecution) => ({
  execution_id: row.executionId,
  partner_slug: row.tenant.partnerSlug,
  environment: row.tenant.environment,
  partner_user_id: row.partnerUserId,
  partner_plan_id: row.partnerPlanId,
  status: row.status,
  amount_usd: formatUsd(row.amount),
  created_at: formatInstant(row.createdAt),
  delivered_count: row.deliveredCount,
  lease_expires_at: row.leaseExpiresAt === null ? null : formatInstant(row.leaseExpiresAt),
  idempotency_key: idempotencyKey(row, formatInstant),
  trigger: row.firing.trigger,
})

export const showJson = (row: ListedExecution, { trade, adjustments, lateFills }: Outcome) => ({
  ...executionJson(row),
  cancelled_at: row.cancelledAt === null ? null : formatInstant(row.cancelledAt),
  cancel_reason: row.cancelReason,
  slot: row.firing.slot,
  units: row.firing.units,
  price_usd: row.firing.price && formatPrice(row.firing.price),
  reference_usd: row.firing.reference && formatPrice(row.firing.reference),
  reservation_price_usd: row.firing.reservationPrice && formatPrice(row.firing.reservationPrice),
  ...adjustedJson(trade, adjustments),
  trade: trade && tradeJson(trade),
  adjustments: adjustments.map(adjustmentJson),
  late_fills: lateFills.map(keptJson),
})

const usdOrNull = (amount: Usd | null): string | null => (amount === null ? null : formatUsd(amount))

/** What an execution comes to after its adjustments; nothing where there are none. */
function adjustedJson(trade: Trade | null, adjustments: Adjustment[]) {
  const amounts = trade && adjustments.length > 0 ? amountsOf(trade, adjustments) : null
  return amounts === null
    ? {}
    : {
        adjusted_usd_amount: formatUsd(amounts.usd),
        adjusted_btc_amount: formatBtc(amounts.btc),
        adjusted_partner_fee_usd: usdOrNull(trade && feeOf(trade, adjustments)),
      }
}

export const adjustmentJson = (adjustment: Adjustment) => ({
  adjustment: adjustment.adjustmentId,
  usd_difference: formatUsd(adjustment.usd),
  btc_difference: formatBtc(adjustment.btc),
  reason: adjustment.reason,
  recorded_at: formatInstant(adjustment.recordedAt),
  report_id: adjustment.reportId,
  partner_order_id: adjustment.partnerOrderId,
  ...adjustmentFillJson(adjustment),
})

/** What else is known of the purchase behind an adjustment. */
export const adjustmentFillJson = ({ fill }: Adjustment) => ({
  partner_fee_usd: usdOrNull(fill?.partnerFee ?? null),
  execution_price: fill && formatPrice(fill.executionPrice),
  executed_at: fill && formatInstant(fill.executedAt),
})

export const correctionJson = ({ adjustment, window, before, after }: Correction) => ({
  execution_id: adjustment.executionId,
  adjustment: adjustment.adjustmentId,
  usd_amount_before: formatUsd(before.usd),
  usd_amount: formatUsd(after.usd),
  usd_difference: formatUsd(adjustment.usd),
  btc_amount_before: formatBtc(before.btc),
  btc_amount: formatBtc(after.btc),
  btc_difference: formatBtc(adjustment.btc),
  window_excess_usd: formatUsd(window.excess),
  reason: adjustment.reason,
  recorded_at: formatInstant(adjustment.recordedAt),
})

const reportJson = (report: Report) => ({
  status: report.status,
  partner_order_id: report.partnerOrderId,
  usd_amount: isFill(report) ? formatUsd(report.usdAmount) : null,
  btc_amount: isFill(report) ? formatBtc(report.btcAmount) : null,
  execution_price: isFill(report) ? formatPrice(report.executionPrice) : null,
  partner_fee_usd: isFill(report) && report.partnerFee !== null ? formatUsd(report.partnerFee) : null,
  failure_reason: isFill(report) ? null : report.failureReason,
  executed_at: report.executedAt === null ? null : formatInstant(report.executedAt),
})

export function tradeJson(trade: Trade) {
  const executedAt = executedAtOf(trade)
  return {
    ...reportJson(trade.report),
    executed_at: executedAt === null ? null : formatInstant(executedAt),
    recorded_at: formatInstant(trade.recordedAt),
  }
}

/** A report that was refused and kept, and what was decided on it. */
const keptJson = (late: LateFill) => {
  const { status, failure_reason: _, ...report } = reportJson(late.report)
  return {
    report_id: late.reportId,
    reported_status: status,
    ...report,
    received_at: formatInstant(late.receivedAt),
    accepted_at: late.acceptedAt === null ? null : formatInstant(late.acceptedAt),
    reason: late.reason,
    decided_at: late.decidedAt === null ? null : formatInstant(late.decidedAt),
    decision_reason: late.decisionReason,
  }
}
export type KeptJson = ReturnType<typeof keptJson>

export const lateJson = (row: ListedLateFill) => {
  const { status, ...report } = reportJson(row.report)
  return {
    execution_id: row.execution.executionId,
    partner_slug: row.execution.tenant.partnerSlug,
    environment: row.execution.tenant.environment,
    partner_user_id: row.execution.partnerUserId,
    partner_plan_id: row.execution.partnerPlanId,
    status: row.execution.status,
    amount_usd: formatUsd(row.execution.amount),
    created_at: formatInstant(row.execution.createdAt),
    report_id: row.reportId,
    reported_status: status,
    ...report,
    received_at: formatInstant(row.receivedAt),
    accepted_at: row.acceptedAt === null ? null : formatInstant(row.acceptedAt),
    reason: row.reason,
    decided_at: row.decidedAt === null ? null : formatInstant(row.decidedAt),
    unkept_reports: row.unkept,
    decision_reason: row.decisionReason,
  }
}
