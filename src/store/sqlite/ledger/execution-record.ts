// Everything on record of one execution, found by its id alone as operators do, for the transactions of the other
// files.

import { Problem } from '../../../core/problem.ts'
import { intact } from '../../digests.ts'
import type { ExecutionRecord, ListedExecution } from '../../executions.ts'
import { type AdjustmentRow, adjustmentOf } from '../../rows/adjustment.ts'
import { type ListedExecutionRow, listedExecution } from '../../rows/execution.ts'
import { type LateFillRow, lateFillOf } from '../../rows/late-fill.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { SELECT_LISTED_EXECUTION } from '../../sql/executions.ts'
import { ADJUSTMENTS, LATE_REPORTS, TRADE } from '../../sql/trades-and-late-fills.ts'
import type { Database } from '../file/connection.ts'
import type { Ledger } from './windows-and-schedules.ts'

export type Records = ReturnType<typeof createRecords>

export function createRecords(db: Database, ledger: Ledger) {
  const sql = {
    execution: db.prepare<[string], ListedExecutionRow>(
      `${SELECT_LISTED_EXECUTION} where e.execution_id = ?`,
    ),
    trade: db.prepare<object, TradeRow>(TRADE),
    adjustments: db.prepare<object, AdjustmentRow>(ADJUSTMENTS),
    lateFills: db.prepare<object, LateFillRow>(LATE_REPORTS),
  }

  const records = {
    execution(executionId: string): ListedExecution | null {
      const row = sql.execution.get(executionId)
      return row ? listedExecution(row) : null
    },

    find(executionId: string): ExecutionRecord | null {
      const execution = records.execution(executionId)
      if (!execution) return null
      const window = ledger.find(execution.windowId)
      if (!window) throw new Error(`execution ${executionId} has no window`)
      const trade = sql.trade.get({ execution_id: executionId })
      const adjustments = sql.adjustments.all({ execution_id: executionId }).map(adjustmentOf)
      const lateFills = sql.lateFills.all({ execution_id: executionId }).map(lateFillOf)
      return { execution, window, trade: trade ? tradeOf(trade) : null, adjustments, lateFills }
    },

    /** To be acted on. Throws execution_not_found, DamagedRow. */
    get(executionId: string): ExecutionRecord {
      const found = records.find(executionId)
      if (!found) throw new Problem('execution_not_found', `Execution ${executionId} not found.`)
      intact('executions', sql.execution.get(executionId) as ListedExecutionRow)
      ledger.sound(found.window.windowId)
      return found
    },
  }
  return records
}
