import type { Execution } from '../../../core/execution.ts'
import { Problem } from '../../../core/problem.ts'
import type { Trade } from '../../../core/trade.ts'
import type { Window } from '../../../core/window.ts'
import { type ExecutionRow, executionOf } from '../../ledger-rows.ts'
import type { LeverStore } from '../../levers.ts'
import type { AuditLog } from '../accounts/audit.ts'
import { createEraser } from '../accounts/erase-user.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import { adjustmentDigest, adjustmentsOf } from './adjustments.ts'
import { type TradeRow, tradeOf } from './executions.ts'
import { type Ledger, SELECT_EXECUTION } from './ledger.ts'

export function createLeverStore(
  connection: Connection,
  { ledger, audit, time, file }: { ledger: Ledger; audit: AuditLog; time: TenantTime; file: string },
): LeverStore {
  const { db, write } = connection
  const adjustments = adjustmentsOf(db)
  const sql = {
    execution: db.prepare<[string], ExecutionRow>(`${SELECT_EXECUTION} where e.execution_id = ?`),
    tenantId: db.prepare<[string], bigint>('select tenant_id from executions where execution_id = ?').pluck(),
    trade: db.prepare<[string], TradeRow>('select * from trades where execution_id = ?'),
    latestId: db.prepare<[], bigint | null>('select max(adjustment_id) from adjustments').pluck(),
    cancel: db.prepare(
      `update executions set status = 'cancelled', cancelled_at = :cancelled_at, cancel_reason = :cancel_reason
       where execution_id = :execution_id`,
    ),
    insert: db.prepare(
      `insert into adjustments (adjustment_id, execution_id, tenant_id, plan_id, user_id, usd_amount, btc_amount,
         reason, recorded_at, digest)
       select :adjustment_id, execution_id, tenant_id, plan_id, user_id, :usd_amount, :btc_amount,
         :reason, :recorded_at, :digest
       from trades where execution_id = :execution_id`,
    ),
  }

  function seenOf(executionId: string): { execution: Execution; window: Window; trade: Trade | null } {
    const row = sql.execution.get(executionId)
    if (!row) throw new Problem('execution_not_found', `Execution ${executionId} not found.`)
    const window = ledger.find(row.window_id)
    if (!window) throw new Error(`execution ${executionId} has no window`)
    const trade = sql.trade.get(executionId)
    return { execution: executionOf(row), window, trade: trade ? tradeOf(trade) : null }
  }

  function tenantIdOf(executionId: string): number {
    const tenantId = sql.tenantId.get(executionId)
    if (tenantId === undefined)
      throw new Problem('execution_not_found', `Execution ${executionId} not found.`)
    return Number(tenantId)
  }

  return {
    eraseUser: createEraser(connection, { audit, file }),

    cancelExecution: (executionId, decide, entry) =>
      write((real) => {
        const { execution, window } = decide(seenOf(executionId), time.of(tenantIdOf(executionId), real))
        sql.cancel.run({
          execution_id: execution.executionId,
          cancelled_at: execution.cancelledAt,
          cancel_reason: execution.cancelReason,
        })
        ledger.write(window)
        audit.add(entry, real)
      }),

    adjustTrade: (executionId, decide, entryOf) =>
      write((real) => {
        const tenantId = tenantIdOf(executionId)
        const made = decide(
          {
            ...seenOf(executionId),
            adjustments: adjustments(executionId),
            latestId: Number(sql.latestId.get() ?? 0n),
            latestRecordedAt: time.latestRecordedAt(tenantId),
          },
          time.of(tenantId, real),
        )
        const { adjustment } = made
        sql.insert.run({
          adjustment_id: adjustment.adjustmentId,
          execution_id: adjustment.executionId,
          usd_amount: adjustment.usd,
          btc_amount: adjustment.btc,
          reason: adjustment.reason,
          recorded_at: adjustment.recordedAt,
          digest: adjustmentDigest(adjustment),
        })
        ledger.write(made.window)
        audit.add(entryOf(made), real)
        return made
      }),
  }
}
