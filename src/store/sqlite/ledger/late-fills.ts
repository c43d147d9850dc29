// The reports that were refused and kept, for the transactions of executions and trades.

import type { Refused } from '../../../core/confirmation.ts'
import type { Instant } from '../../../core/instant.ts'
import type { LateFill } from '../../../core/keep-late-fill.ts'
import type { Tenant } from '../../../core/partner.ts'
import { reportDigest, withDigest } from '../../digests.ts'
import { reportParams } from '../../rows/confirmation-report.ts'
import { intactReport, type LateFillRow, lateFillOf } from '../../rows/late-fill.ts'
import {
  ACCEPT_REPORT,
  COUNT_NO_REPORTS,
  DECIDE_EQUAL,
  DECIDE_REPORT,
  DECIDE_REPORTS,
  LATE_REPORT,
  LATE_REPORTS,
} from '../../sql/trades-and-late-fills.ts'
import type { Decided } from '../../trades.ts'
import type { Database } from '../file/connection.ts'

export type LateReports = ReturnType<typeof createLateReports>

export function createLateReports(db: Database) {
  const sql = {
    of: db.prepare<object, LateFillRow>(LATE_REPORTS),
    one: db.prepare<object, LateFillRow>(LATE_REPORT),
    keep: db.prepare(
      `insert into late_reports (execution_id, tenant_id, fingerprint, partner_order_id, status, usd_amount,
         btc_amount, execution_price, partner_fee_usd, executed_at, reason, received_at, digest)
       values (:execution_id, :tenant_id, :fingerprint, :partner_order_id, :status, :usd_amount,
         :btc_amount, :execution_price, :partner_fee_usd, :executed_at, :reason, :received_at, :digest)
       on conflict (execution_id, fingerprint) do nothing`,
    ),
    count: db.prepare(
      'update executions set unkept_reports = unkept_reports + 1 where execution_id = :execution_id',
    ),
    accept: db.prepare(ACCEPT_REPORT),
    decideEqual: db.prepare(DECIDE_EQUAL),
    decide: db.prepare(DECIDE_REPORT),
    decideAll: db.prepare(DECIDE_REPORTS),
    countNone: db.prepare(COUNT_NO_REPORTS),
  }

  const lateReports = {
    /** All that are kept of an execution, oldest first. */
    of: (executionId: string): LateFill[] => sql.of.all({ execution_id: executionId }).map(lateFillOf),

    /** Keeps or counts the report of a refused confirmation, or does nothing if the same one is already kept. */
    keep(tenant: Tenant, { execution, report, reason, keeping }: Refused, now: Instant): void {
      const { executionId } = execution
      if (keeping === 'counted') sql.count.run({ execution_id: executionId })
      if (keeping !== 'new') return
      const { failure_reason: _, ...params } = reportParams(report)
      sql.keep.run(
        withDigest('late_reports', {
          execution_id: executionId,
          tenant_id: tenant.tenantId,
          fingerprint: reportDigest(report),
          ...params,
          reason,
          received_at: now,
        }),
      )
    },

    /** Throws DamagedRow if one is not what the partner reported: no operator can accept it. */
    refuseDamaged({ reportId }: LateFill): void {
      intactReport(sql.one.get({ report_id: reportId }) as LateFillRow)
    },

    /** Notes that one was recorded, which settles those that say the same of its order. */
    accept({ reportId }: LateFill, decided: Decided): void {
      sql.accept.run({ report_id: reportId, ...decided })
      sql.decide.run({ report_id: reportId, ...decided })
      sql.decideEqual.run({ report_id: reportId, now: decided.now })
    },

    decide: (reportId: number, decided: Decided) => sql.decide.run({ report_id: reportId, ...decided }),

    /**
     * Notes that an operator has settled an execution: the reports that were kept and those that were only counted.
     * Returns whether there were any.
     */
    decideAll(executionId: string, decided: Decided): { counted: boolean } {
      sql.decideAll.run({ execution_id: executionId, ...decided })
      return { counted: sql.countNone.run({ execution_id: executionId }).changes > 0 }
    },
  }
  return lateReports
}
