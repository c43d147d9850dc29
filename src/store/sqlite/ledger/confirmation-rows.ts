// What a confirmation is decided on, and what it leaves behind, for the transactions of executions and trades.

import type { ExecutionSeen, Recorded } from '../../../core/confirmation.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Tenant } from '../../../core/partner.ts'
import { intact, tradeDigest } from '../../digests.ts'
import { reportParams } from '../../rows/confirmation-report.ts'
import { type ExecutionRow, executionOf } from '../../rows/execution.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { SELECT_EXECUTION } from '../../sql/executions.ts'
import type { Database } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { LateReports } from './late-fills.ts'
import type { Ledger } from './windows-and-schedules.ts'

export type Confirmations = ReturnType<typeof createConfirmations>

type Parts = { ledger: Ledger; time: TenantTime; lateReports: LateReports }

export function createConfirmations(db: Database, { ledger, time, lateReports }: Parts) {
  const sql = {
    execution: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION} where e.tenant_id = :tenant and e.execution_id = :execution_id`,
    ),
    trade: db.prepare<object, TradeRow>(
      'select * from trades where tenant_id = :tenant and execution_id = :execution_id',
    ),
    orderHolder: db
      .prepare<object, string>(
        `select execution_id from trades where tenant_id = :tenant and partner_order_id = :order
           and execution_id <> :execution_id
         union all select execution_id from adjustments where tenant_id = :tenant and partner_order_id = :order
           and execution_id <> :execution_id`,
      )
      .pluck(),
    settle: db.prepare(
      'update executions set status = :status where tenant_id = :tenant and execution_id = :execution_id',
    ),
    insertTrade: db.prepare(
      `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount,
         btc_amount, execution_price, partner_fee_usd, executed_at, failure_reason, recorded_at,
         received_at, digest)
       values (:execution_id, :tenant, :plan_id, (select user_id from plans where plan_id = :plan_id),
         :partner_order_id, :status, :usd_amount, :btc_amount, :execution_price, :partner_fee_usd, :executed_at,
         :failure_reason, :recorded_at, :received_at, :digest)`,
    ),
  }

  return {
    /** What the decision is made on. */
    seen(tenant: Tenant, ids: { executionId: string; partnerOrderId: string }): ExecutionSeen {
      const scope = { tenant: tenant.tenantId, execution_id: ids.executionId }
      const row = sql.execution.get(scope)
      const trade = sql.trade.get(scope)
      return {
        execution: row ? executionOf(intact('executions', row)) : null,
        window: row ? ledger.sound(row.window_id) : null,
        trade: trade ? tradeOf(trade) : null,
        lateFills: row ? lateReports.of(row.execution_id) : [],
        orderHeldBy: (sql.orderHolder.get({ ...scope, order: ids.partnerOrderId }) ??
          null) as ExecutionId | null,
        latestRecordedAt: time.latestRecordedAt(tenant.tenantId),
      }
    },

    /** Stores a confirmation: the trade, its execution's new status, the window's ledger. */
    record(tenant: Tenant, recorded: Recorded): void {
      const { execution, window, trade } = recorded
      const scope = { tenant: tenant.tenantId, execution_id: execution.executionId }
      sql.settle.run({ ...scope, status: execution.status })
      sql.insertTrade.run({
        ...scope,
        plan_id: execution.planId,
        ...reportParams(trade.report),
        recorded_at: trade.recordedAt,
        received_at: trade.receivedAt,
        digest: tradeDigest(trade),
      })
      ledger.write(window)
    },
  }
}
