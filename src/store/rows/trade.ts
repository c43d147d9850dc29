// A trade: the row and the value.

import type { ExecutionId } from '../../core/execution-id.ts'
import type { Trade } from '../../core/trade.ts'
import { type ReportRow, reportOf } from './confirmation-report.ts'
import { instant } from './instant.ts'

export type TradeRow = ReportRow & { execution_id: string; recorded_at: bigint }
export const tradeOf = (row: TradeRow): Trade => ({
  executionId: row.execution_id as ExecutionId,
  recordedAt: instant(row.recorded_at),
  report: reportOf(row),
})
