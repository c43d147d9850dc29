import { createHash } from 'node:crypto'
import type { Confirmation, ExecutionSeen } from '../../../core/execution.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Tenant } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { reportFingerprint, type Trade } from '../../../core/trade.ts'
import { type ExecutionRow, executionOf, type ReportRow, reportOf, reportParams } from '../../ledger-rows.ts'
import { instant, type TenantRow, tenantOf } from '../../rows.ts'
import type { ExecutionStore } from '../../store.ts'
import type { AuditLog } from '../accounts/audit.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import { type Ledger, SELECT_EXECUTION, unleasedAt } from './ledger.ts'

const DUE = `e.tenant_id = :tenant and e.status in ('pending', 'sent') and ${unleasedAt(':now')}`

export function createExecutionStore(
  connection: Connection,
  { ledger, audit, time }: { ledger: Ledger; audit: AuditLog; time: TenantTime },
): ExecutionStore {
  const { db, read, write } = connection
  const sql = {
    due: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION} where ${DUE} order by e.created_at, e.execution_id limit :limit`,
    ),
    anyDue: db.prepare<object, bigint>(`select exists (select 1 from executions e where ${DUE})`).pluck(),
    countDue: db.prepare<object, bigint>(`select count(*) from executions e where ${DUE}`).pluck(),
    deliver: db.prepare(
      `update executions set status = :status, delivered_count = :delivered_count,
         lease_expires_at = :lease_expires_at
       where tenant_id = :tenant and execution_id = :execution_id`,
    ),
    execution: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION} where e.tenant_id = :tenant and e.execution_id = :execution_id`,
    ),
    trade: db.prepare<object, TradeRow>(
      'select * from trades where tenant_id = :tenant and execution_id = :execution_id',
    ),
    orderHolder: db
      .prepare<object, string>(
        `select execution_id from trades where tenant_id = :tenant and partner_order_id = :order
         and execution_id <> :execution_id`,
      )
      .pluck(),
    settle: db.prepare(
      'update executions set status = :status where tenant_id = :tenant and execution_id = :execution_id',
    ),
    insertTrade: db.prepare(
      `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount,
         btc_amount, execution_price, partner_fee_usd, executed_at, failure_reason, recorded_at, digest)
       values (:execution_id, :tenant, :plan_id, (select user_id from plans where plan_id = :plan_id),
         :partner_order_id, :status, :usd_amount, :btc_amount, :execution_price, :partner_fee_usd, :executed_at,
         :failure_reason, :recorded_at, :digest)`,
    ),
    keepLate: db.prepare(
      `insert into late_reports (execution_id, tenant_id, fingerprint, partner_order_id, status, usd_amount,
         btc_amount, execution_price, partner_fee_usd, executed_at, failure_reason, received_at)
       values (:execution_id, :tenant, :fingerprint, :partner_order_id, :status, :usd_amount,
         :btc_amount, :execution_price, :partner_fee_usd, :executed_at, :failure_reason, :received_at)
       on conflict do nothing`,
    ),
    lateReports: db.prepare<object, LateRow>(
      `select l.*, t.partner_slug, t.environment from late_reports l join tenants t using (tenant_id)
       where l.execution_id = :execution_id and l.status in ('filled', 'partial')
         and (:report_id is null or l.report_id = :report_id)
       order by l.report_id`,
    ),
    acceptLate: db.prepare('update late_reports set accepted_at = :now where report_id = :report_id'),
  }

  function seenOf(tenant: Tenant, ids: { executionId: string; partnerOrderId: string }): ExecutionSeen {
    const scope = { tenant: tenant.tenantId, execution_id: ids.executionId }
    const row = sql.execution.get(scope)
    const trade = sql.trade.get(scope)
    return {
      execution: row ? executionOf(row) : null,
      window: row ? ledger.find(row.window_id) : null,
      trade: trade ? tradeOf(trade) : null,
      orderHeldBy: (sql.orderHolder.get({ ...scope, order: ids.partnerOrderId }) ??
        null) as ExecutionId | null,
      latestRecordedAt: time.latestRecordedAt(tenant.tenantId),
    }
  }

  function record(tenant: Tenant, recorded: Confirmation & { kind: 'recorded' }): void {
    const { execution, window, trade } = recorded
    const scope = { tenant: tenant.tenantId, execution_id: execution.executionId }
    sql.settle.run({ ...scope, status: execution.status })
    sql.insertTrade.run({
      ...scope,
      plan_id: execution.planId,
      ...reportParams(trade.report),
      recorded_at: trade.recordedAt,
      digest: tradeDigest(trade),
    })
    ledger.write(window)
  }

  return {
    async deliverDue(tenant, limit, deliver) {
      const scope = { tenant: tenant.tenantId }
      // Most polls find nothing: they take no write lock and wait for no disk.
      const nothing = await read(() => {
        const now = time.of(tenant.tenantId, connection.clock())
        return sql.anyDue.get({ ...scope, now }) === 0n
      })
      if (nothing) return { executions: [], remaining: 0 }
      return time.write(tenant, (now) => {
        const executions = sql.due.all({ ...scope, now, limit }).map((row) => deliver(executionOf(row), now))
        for (const execution of executions) {
          sql.deliver.run({
            ...scope,
            execution_id: execution.executionId,
            status: execution.status,
            delivered_count: execution.deliveredCount,
            lease_expires_at: execution.leaseExpiresAt,
          })
        }
        return { executions, remaining: Number(sql.countDue.get({ ...scope, now })) }
      })
    },

    changeExecution: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const confirmation = decide(seenOf(tenant, ids), now)
        if (confirmation.kind === 'recorded') record(tenant, confirmation)
        if (confirmation.kind === 'kept_late') {
          sql.keepLate.run({
            execution_id: confirmation.execution.executionId,
            tenant: tenant.tenantId,
            fingerprint: reportFingerprint(confirmation.report),
            ...reportParams(confirmation.report),
            received_at: now,
          })
        }
        return confirmation
      }),

    acceptLateReport: ({ executionId, reportId }, decide, entry) =>
      write((real) => {
        const rows = sql.lateReports.all({ execution_id: executionId, report_id: reportId })
        const [row, another] = rows
        if (!row) throw new Problem('late_fill_not_found', `Execution ${executionId} has no late fill.`)
        if (another) throw severalReports(executionId, rows)
        const tenant = tenantOf(row)
        const now = time.of(tenant.tenantId, real)
        const report = reportOf(row)
        const recorded = decide(
          seenOf(tenant, { executionId, partnerOrderId: report.partnerOrderId }),
          report,
          now,
        )
        record(tenant, recorded)
        sql.acceptLate.run({ report_id: row.report_id, now })
        audit.add(entry, real)
        return recorded.trade
      }),
  }
}

export type TradeRow = ReportRow & { execution_id: string; recorded_at: bigint }
type LateRow = ReportRow & TenantRow & { report_id: bigint }

export const tradeOf = (row: TradeRow): Trade => ({
  executionId: row.execution_id as ExecutionId,
  recordedAt: instant(row.recorded_at),
  report: reportOf(row),
})

/** What a trade's row must hash to: kept beside it, so that `check` can name a row that was changed. */
export const tradeDigest = (trade: Trade): string =>
  createHash('sha256')
    .update(JSON.stringify([trade.executionId, trade.recordedAt, reportFingerprint(trade.report)]))
    .digest('hex')

function severalReports(executionId: string, rows: LateRow[]): Problem {
  const ids = rows.map((row) => row.report_id).join(', ')
  return new Problem(
    'late_fill_conflict',
    `Execution ${executionId} has several late reports (${ids}): name one with --report.`,
  )
}
