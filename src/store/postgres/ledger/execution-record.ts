// Everything on record of one execution, found by its id alone as operators do, for the transactions of the other
// files.

import type { Tenant } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { intact } from '../../digests.ts'
import type { ExecutionRecord, ListedExecution } from '../../executions.ts'
import { type AdjustmentRow, adjustmentOf } from '../../rows/adjustment.ts'
import { type ListedExecutionRow, listedExecution } from '../../rows/execution.ts'
import { type LateFillRow, lateFillOf } from '../../rows/late-fill.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { type WindowRow, windowOf } from '../../rows/window.ts'
import { SELECT_LISTED_EXECUTION } from '../../sql/executions.ts'
import { ADJUSTMENTS, LATE_REPORTS, TRADE } from '../../sql/trades-and-late-fills.ts'
import { ofTenant } from '../../transaction.ts'
import type { Connection, WriteTx } from '../server/connection.ts'
import type { Times } from '../server/month-gate.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { lockExecutions } from './row-locks.ts'

const EXECUTIONS = query<ListedExecutionRow>(
  `${SELECT_LISTED_EXECUTION} where e.execution_id = any(:execution_ids::text[])`,
)
const WINDOW_OF = query<WindowRow>(
  `select * from windows
   where window_id = (select window_id from executions where execution_id = :execution_id)`,
)
const TRADE_OF = query<TradeRow>(TRADE)
const ADJUSTMENTS_OF = query<AdjustmentRow>(ADJUSTMENTS)
const LATE_FILLS_OF = query<LateFillRow>(LATE_REPORTS)

/** Those that there are, in no order. */
const executions = async (tx: Tx, ids: readonly string[]): Promise<ListedExecution[]> =>
  (await tx.all(EXECUTIONS, { execution_ids: ids })).map(listedExecution)

/** To be acted on, or only listed. Throws DamagedRow for the first. */
async function read(tx: Tx, executionId: string, toActOn: boolean): Promise<ExecutionRecord | null> {
  const own = { execution_id: executionId }
  const [[execution], window, trade, adjustments, lateFills] = await Promise.all([
    tx.all(EXECUTIONS, { execution_ids: [executionId] }),
    tx.get(WINDOW_OF, own),
    tx.get(TRADE_OF, own),
    tx.all(ADJUSTMENTS_OF, own),
    tx.all(LATE_FILLS_OF, own),
  ])
  if (!execution) return null
  if (!window) throw new Error(`execution ${executionId} has no window`)
  if (toActOn) {
    intact('executions', execution)
    intact('windows', window)
  }
  return {
    execution: listedExecution(execution),
    window: windowOf(window),
    trade: trade ? tradeOf(trade) : null,
    adjustments: adjustments.map(adjustmentOf),
    lateFills: lateFills.map(lateFillOf),
  }
}

const find = (tx: Tx, executionId: string) => read(tx, executionId, false)

/** To be acted on. Throws execution_not_found, DamagedRow. */
async function get(tx: Tx, executionId: string): Promise<ExecutionRecord> {
  const found = await read(tx, executionId, true)
  if (!found) throw notFound(executionId)
  return found
}

const notFound = (executionId: string): Problem =>
  new Problem('execution_not_found', `Execution ${executionId} not found.`)

export const records = { executions, find, get }

/** With `alone`, waits until no other write of the execution's tenant is under way. */
type Lever<T> = {
  alone?: boolean
  work: (tx: WriteTx, record: ExecutionRecord, times: Times) => Promise<T>
}

/**
 * An operator's write on one execution: its tenant is looked up first, and everything is read again behind the locks.
 * Throws execution_not_found.
 */
export async function writeRecord<T>(
  { look, write }: Connection,
  executionId: string,
  { alone = false, work }: Lever<T>,
): Promise<T> {
  const [seen] = await look((tx) => executions(tx, [executionId]))
  if (!seen) throw notFound(executionId)
  const { tenant }: { tenant: Tenant } = seen
  return write(
    async (tx) => {
      const [times, , record] = await Promise.all([
        tx.times,
        lockExecutions(tx, tenant.tenantId, [executionId]),
        get(tx, executionId),
      ])
      return work(tx, record, times)
    },
    alone ? { ...ofTenant(tenant), alone: 'tenants' } : ofTenant(tenant),
  )
}
