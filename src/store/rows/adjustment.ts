// An adjustment: the row and the value, and back.

import type { Adjustment } from '../../core/adjustment.ts'
import type { ExecutionId } from '../../core/execution-id.ts'
import type { Btc, Price, Usd } from '../../core/money.ts'
import { instant } from './instant.ts'

export type AdjustmentRow = {
  adjustment_id: bigint
  execution_id: string
  usd_amount: bigint
  btc_amount: bigint
  reason: string
  recorded_at: bigint
  report_id: bigint | null
  partner_order_id: string | null
  partner_fee_usd: bigint | null
  execution_price: bigint | null
  executed_at: bigint | null
}
export const adjustmentOf = (row: AdjustmentRow): Adjustment => ({
  adjustmentId: Number(row.adjustment_id),
  executionId: row.execution_id as ExecutionId,
  usd: row.usd_amount as Usd,
  btc: row.btc_amount as Btc,
  reason: row.reason,
  recordedAt: instant(row.recorded_at),
  reportId: row.report_id === null ? null : Number(row.report_id),
  partnerOrderId: row.partner_order_id,
  fill:
    row.execution_price === null || row.executed_at === null
      ? null
      : {
          partnerFee: row.partner_fee_usd as Usd | null,
          executionPrice: row.execution_price as Price,
          executedAt: instant(row.executed_at),
        },
})
export const adjustmentParams = (adjustment: Adjustment) => ({
  adjustment_id: adjustment.adjustmentId,
  execution_id: adjustment.executionId,
  usd_amount: adjustment.usd,
  btc_amount: adjustment.btc,
  reason: adjustment.reason,
  recorded_at: adjustment.recordedAt,
  report_id: adjustment.reportId,
  partner_order_id: adjustment.partnerOrderId,
  partner_fee_usd: adjustment.fill?.partnerFee ?? null,
  execution_price: adjustment.fill?.executionPrice ?? null,
  executed_at: adjustment.fill?.executedAt ?? null,
})
