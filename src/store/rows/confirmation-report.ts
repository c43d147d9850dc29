// What a partner reported, in time or late: the columns and the value, and back.

import type { Report } from '../../core/confirmation-report.ts'
import type { Btc, Price, Usd } from '../../core/money.ts'
import { instantOrNull } from './instant.ts'

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
