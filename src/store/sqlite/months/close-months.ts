// The bound of a month below which nothing is dated any more once it has been reported.

import { overPeriod, runningPeriod } from '../../../core/fixed-period.ts'
import type { Instant } from '../../../core/instant.ts'
import { CLOSE_MONTH, IS_CLOSED, REPORT_SANDBOX_UNTIL, REPORT_UNTIL } from '../../common/months/fixed.ts'
import { readMonths } from '../../common/months/read-months.ts'
import type { MonthStore } from '../../months.ts'
import { instant } from '../../rows/instant.ts'
import type { Connection, Database } from '../file/connection.ts'
import { readerOf } from '../file/reader.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import { createReached } from './reached.ts'

/** The end of what has been reported: no write is dated before it again. */
export function reportedUntil(db: Database): () => Instant {
  const at = db.prepare<[], bigint>('select at from reported_until').pluck()
  return () => instant(at.get() ?? 0n)
}

export function createMonthStore(connection: Connection, time: TenantTime): MonthStore {
  const { db, write } = connection
  const reader = readerOf(connection)
  const records = createReached(db, time)
  const sql = {
    close: db.prepare(CLOSE_MONTH.text),
    reported: db.prepare(REPORT_UNTIL.text),
    reportedOf: db.prepare(REPORT_SANDBOX_UNTIL.text),
  }
  return {
    fixPeriod: async (period, tenant = null) => {
      const { month } = period
      if ((await reader.get(IS_CLOSED, { month }))?.closed === 1n) return { ...period, final: true }
      // Whoever held the write lock at midnight has committed once this has had its turn.
      return write((real) => {
        // A sandbox closes its months for itself alone: those of the others may lie ahead of them.
        const sandbox = tenant !== null && time.isSandbox(tenant.tenantId) ? tenant.tenantId : null
        const now = sandbox === null ? real : time.of(sandbox, real)
        const { fixed, reportedUntil } =
          now >= period.end
            ? overPeriod(period, records.reached(sandbox))
            : runningPeriod(period, now, time.latestRecordedAt(sandbox))
        if (fixed.final && sandbox === null) sql.close.run({ month, period_end: period.end, now })
        if (reportedUntil !== null && sandbox === null) sql.reported.run({ at: reportedUntil })
        if (reportedUntil !== null && sandbox !== null)
          sql.reportedOf.run({ at: reportedUntil, tenant: sandbox })
        return fixed
      })
    },

    ...readMonths(reader),
  }
}
