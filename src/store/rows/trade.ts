// A trade: the row and the value.

import type { ExecutionId } from '../../core/execution-id.ts'
import type { Trade } from '../../core/trade.ts'
import { type ReportRow, reportOf } from './confirmation-report.ts'
import { instant, instantOrNull } from './instant.ts'

export type TradeRow = ReportRow & { execution_id: string; recorded_at: bigint; received_at: bigint | null }
export const tradeOf = (row: TradeRow): Trade => ({
  executionId: row.execution_id as ExecutionId,
  recordedAt: instant(row.recorded_at),
  receivedAt: instantOrNull(row.received_at),
  report: reportOf(row),
})
