// Everything on record of one execution, found by its id alone as operators do, for the transactions of the other files.

import { Problem } from '../../../core/problem.ts'
import type { ExecutionRecord, ListedExecution } from '../../executions.ts'
import { type AdjustmentRow, adjustmentOf } from '../../rows/adjustment.ts'
import { type ExecutionRow, executionOf } from '../../rows/execution.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { SELECT_LISTED_EXECUTION } from '../../sql/expressions.ts'
import type { Database } from '../file/connection.ts'
import type { Ledger } from './ledger.ts'

export type ListedExecutionRow = ExecutionRow & TenantRow

export const listedExecution = (row: ListedExecutionRow): ListedExecution => ({
  ...executionOf(row),
  tenant: tenantOf(row),
})

export type Records = ReturnType<typeof createRecords>

export function createRecords(db: Database, ledger: Ledger) {
  const sql = {
    execution: db.prepare<[string], ListedExecutionRow>(
      `${SELECT_LISTED_EXECUTION} where e.execution_id = ?`,
    ),
    trade: db.prepare<[string], TradeRow>('select * from trades where execution_id = ?'),
    // In the order they were made.
    adjustments: db.prepare<[string], AdjustmentRow>(
      'select * from adjustments where execution_id = ? order by adjustment_id',
    ),
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
      const trade = sql.trade.get(executionId)
      const adjustments = sql.adjustments.all(executionId).map(adjustmentOf)
      return { execution, window, trade: trade ? tradeOf(trade) : null, adjustments }
    },

    /** Throws execution_not_found. */
    get(executionId: string): ExecutionRecord {
      const found = records.find(executionId)
      if (!found) throw new Problem('execution_not_found', `Execution ${executionId} not found.`)
      return found
    },
  }
  return records
}
