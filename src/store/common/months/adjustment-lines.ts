// The adjustments of a period, each with the trade that it corrects, page by page.

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { AdjustmentLine, MonthStore } from '../../months.ts'
import { type AdjustmentRow, adjustmentOf } from '../../rows/adjustment.ts'
import { type ReportRow, reportOf } from '../../rows/confirmation-report.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { OF_TENANT } from '../../sql/which-tenants.ts'
import { type Reader, sql } from '../reader.ts'
import { type LineNames, lineOf } from './trade-lines.ts'

type Row = AdjustmentRow &
  LineNames & { [column in keyof ReportRow as `trade_${column}`]: ReportRow[column] } & {
    trade_recorded_at: bigint
    trade_received_at: bigint | null
  }

const PAGE = sql<Row>(
  `select a.*, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id,
     d.recorded_at as trade_recorded_at, d.received_at as trade_received_at, d.partner_order_id as trade_partner_order_id, d.status as trade_status,
     d.usd_amount as trade_usd_amount, d.btc_amount as trade_btc_amount,
     d.execution_price as trade_execution_price, d.partner_fee_usd as trade_partner_fee_usd,
     d.executed_at as trade_executed_at, d.failure_reason as trade_failure_reason
   from adjustments a join trades d on d.execution_id = a.execution_id
     join tenants t on t.tenant_id = a.tenant_id join users u on u.user_id = a.user_id
     join plans p on p.plan_id = a.plan_id
   where (a.recorded_at, a.execution_id, a.adjustment_id) > (:at, :id, :number) and a.recorded_at < :end
     and ${OF_TENANT}
   order by a.recorded_at, a.execution_id, a.adjustment_id limit :limit`,
)

export const adjustmentLines = (reader: Reader): Pick<MonthStore, 'readAdjustmentLines'> => ({
  async readAdjustmentLines({ start, end }, filter, { after, limit }) {
    const place = {
      at: after?.recordedAt ?? start,
      id: after?.executionId ?? '',
      number: after?.adjustment.adjustmentId ?? 0,
    }
    return (await reader.all(PAGE, { ...filter, ...place, end, limit })).map(adjustmentLineOf)
  },
})

const adjustmentLineOf = (row: Row): AdjustmentLine => ({
  ...lineOf(row),
  partnerOrderId: row.partner_order_id ?? row.trade_partner_order_id,
  adjustment: adjustmentOf(row),
  original: {
    executionId: row.execution_id as ExecutionId,
    recordedAt: instant(row.trade_recorded_at),
    receivedAt: instantOrNull(row.trade_received_at),
    report: reportOf({
      partner_order_id: row.trade_partner_order_id,
      status: row.trade_status,
      usd_amount: row.trade_usd_amount,
      btc_amount: row.trade_btc_amount,
      execution_price: row.trade_execution_price,
      partner_fee_usd: row.trade_partner_fee_usd,
      executed_at: row.trade_executed_at,
      failure_reason: row.trade_failure_reason,
    }),
  },
})
