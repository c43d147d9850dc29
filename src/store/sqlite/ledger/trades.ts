// Trades after the fact: adjusted by an operator, or made of a report that came too late.

import { Problem } from '../../../core/problem.ts'
import { adjustmentParams } from '../../rows/adjustment.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { type ReportRow, reportOf } from '../../rows/report.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { TradeStore } from '../../trades.ts'
import type { AuditLog } from '../accounts/audit.ts'
import type { Connection } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import type { Confirmations } from './confirmations.ts'
import { adjustmentDigest } from './digests.ts'
import type { Ledger } from './ledger.ts'
import type { Records } from './records.ts'

type Parts = {
  ledger: Ledger
  audit: AuditLog
  time: TenantTime
  confirmations: Confirmations
  records: Records
}

export function createTradeStore(connection: Connection, parts: Parts): TradeStore {
  const { ledger, audit, time, confirmations, records } = parts
  const { read, write } = connection
  const sql = prepare(connection)

  return {
    adjustTrade: (executionId, decide, entryOf) =>
      write((real) => {
        const record = records.get(executionId)
        const { tenantId } = record.execution.tenant
        const made = decide(
          {
            ...record,
            latestId: Number(sql.latestId.get() ?? 0n),
            latestRecordedAt: time.latestRecordedAt(tenantId),
          },
          time.of(tenantId, real),
        )
        const { adjustment } = made
        sql.insert.run({ ...adjustmentParams(adjustment), digest: adjustmentDigest(adjustment) })
        ledger.write(made.window)
        audit.add(entryOf(made), real)
        return made
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
          confirmations.seen(tenant, { executionId, partnerOrderId: report.partnerOrderId }),
          report,
          now,
        )
        confirmations.record(tenant, recorded)
        sql.acceptLate.run({ report_id: row.report_id, now })
        audit.add(entry, real)
        return recorded.trade
      }),

    listLateFills: ({ after, limit }) =>
      read(() =>
        sql.lateFills.all({ after: after ?? 0, limit }).map((row) => {
          const execution = records.execution(row.execution_id)
          if (!execution) throw new Error(`late report ${row.report_id} has no execution`)
          return {
            reportId: Number(row.report_id),
            execution,
            report: reportOf(row),
            receivedAt: instant(row.received_at),
            acceptedAt: instantOrNull(row.accepted_at),
          }
        }),
      ),
  }
}

type LateReportRow = ReportRow & {
  report_id: bigint
  execution_id: string
  received_at: bigint
  accepted_at: bigint | null
}

function prepare({ db }: Connection) {
  return {
    latestId: db.prepare<[], bigint | null>('select max(adjustment_id) from adjustments').pluck(),
    insert: db.prepare(
      `insert into adjustments (adjustment_id, execution_id, tenant_id, plan_id, user_id, usd_amount, btc_amount,
         reason, recorded_at, digest)
       select :adjustment_id, execution_id, tenant_id, plan_id, user_id, :usd_amount, :btc_amount,
         :reason, :recorded_at, :digest
       from trades where execution_id = :execution_id`,
    ),
    lateReports: db.prepare<object, LateReportRow & TenantRow>(
      `select l.*, t.partner_slug, t.environment from late_reports l join tenants t using (tenant_id)
       where l.execution_id = :execution_id and l.status in ('filled', 'partial')
         and (:report_id is null or l.report_id = :report_id)
       order by l.report_id`,
    ),
    acceptLate: db.prepare('update late_reports set accepted_at = :now where report_id = :report_id'),
    lateFills: db.prepare<object, LateReportRow>(
      `select * from late_reports where report_id > :after and status in ('filled', 'partial')
       order by report_id limit :limit`,
    ),
  }
}

function severalReports(executionId: string, rows: LateReportRow[]): Problem {
  const ids = rows.map((row) => row.report_id).join(', ')
  return new Problem(
    'late_fill_conflict',
    `Execution ${executionId} has several late reports (${ids}): name one with --report.`,
  )
}
