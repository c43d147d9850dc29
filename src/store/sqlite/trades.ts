// Trades after the fact: adjusted by an operator, or made of a report that was refused and kept.

import { type Adjustment, chosen, undecided, waiting } from '../../core/late-fill.ts'
import { adjustmentDigest } from '../digests.ts'
import { adjustmentParams, type LateFillRow, lateFillOf } from '../rows/ledger.ts'
import { INSERT_ADJUSTMENT, LIST_LATE_REPORTS } from '../sql/ledger.ts'
import type { TradeStore } from '../store.ts'
import type { AuditLog } from './audit.ts'
import type { Confirmations, LateReports, Records } from './executions.ts'
import type { Connection } from './file/connection.ts'
import type { Ledger } from './plans.ts'
import type { TenantTime } from './tenant-time.ts'

type Parts = {
  ledger: Ledger
  audit: AuditLog
  time: TenantTime
  confirmations: Confirmations
  lateReports: LateReports
  records: Records
}

export function createTradeStore(connection: Connection, parts: Parts): TradeStore {
  const { ledger, audit, time, confirmations, lateReports, records } = parts
  const { read, write } = connection
  const sql = prepare(connection)
  const latestId = () => Number(sql.latestId.get() ?? 0n)
  const insert = (adjustment: Adjustment) =>
    sql.insert.run({ ...adjustmentParams(adjustment), digest: adjustmentDigest(adjustment) })

  return {
    adjustTrade: (executionId, decide, entryOf) =>
      write((real) => {
        const record = records.get(executionId)
        const { tenantId } = record.execution.tenant
        const now = time.of(tenantId, real)
        const latestRecordedAt = time.latestRecordedAt(tenantId)
        const made = decide({ ...record, latestId: latestId(), latestRecordedAt }, now)
        insert(made.adjustment)
        ledger.write(made.window)
        lateReports.decideAll(executionId, { now, reason: made.adjustment.reason })
        audit.add(entryOf(made), real)
        return made
      }),

    acceptLateReport: (ids, decide, entryOf) =>
      write((real) => {
        const { executionId, reason = null } = ids
        const late = chosen(ids, lateReports.of(executionId))
        lateReports.refuseDamaged(late)
        const { execution, adjustments } = records.get(executionId)
        const now = time.of(execution.tenant.tenantId, real)
        const { partnerOrderId } = late.report
        const seen = confirmations.seen(execution.tenant, { executionId, partnerOrderId })
        const made = decide({ ...seen, adjustments, latestId: latestId() }, late, now)
        if (made.kind === 'recorded') confirmations.record(execution.tenant, made)
        else {
          insert(made.adjustment)
          ledger.write(made.window)
        }
        lateReports.accept(late, { now, reason })
        audit.add(entryOf(made, late), real)
        return { ...made, waiting: waiting(lateReports.of(executionId)) }
      }),

    dismissLateReports: (ids, entryOf) =>
      write((real) => {
        const { executionId, reportId, reason = null } = ids
        const { execution } = records.get(executionId)
        const decided = { now: time.of(execution.tenant.tenantId, real), reason }
        const late = lateReports.of(executionId)
        const counted = reportId === null && lateReports.decideAll(executionId, decided).counted
        const dismissed = undecided(ids, late, counted)
        if (reportId !== null) lateReports.decide(reportId, decided)
        audit.add(entryOf(dismissed), real)
        return dismissed
      }),

    listLateFills: ({ after, limit }) =>
      read(() =>
        sql.lateFills.all({ after: after ?? 0, limit }).map((row) => {
          const execution = records.execution(row.execution_id)
          if (!execution) throw new Error(`late report ${row.report_id} has no execution`)
          return { ...lateFillOf(row), execution, unkept: Number(row.unkept_reports) }
        }),
      ),
  }
}

function prepare({ db }: Connection) {
  return {
    latestId: db.prepare<[], bigint | null>('select max(adjustment_id) from adjustments').pluck(),
    insert: db.prepare(INSERT_ADJUSTMENT),
    lateFills: db.prepare<object, LateFillRow & { unkept_reports: bigint }>(LIST_LATE_REPORTS),
  }
}
