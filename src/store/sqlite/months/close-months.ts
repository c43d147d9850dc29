// Sets the bound below which nothing is dated any more once a month has been reported.

import type { Instant } from '../../../core/instant.ts'
import type { Period } from '../../../core/month.ts'
import { isConfirmed, overPeriod } from '../../../core/month-final.ts'
import type { Tenant } from '../../../core/partner.ts'
import { type FixedPeriod, runningPeriod } from '../../../core/report-period.ts'
import {
  CLOSE_MONTH,
  closingParams,
  FIRST_PARTNER,
  IS_CLOSED,
  REPORT_SANDBOX_UNTIL,
  REPORT_UNTIL,
} from '../../common/months/close-months-sql.ts'
import { readMonths } from '../../common/months/read-months.ts'
import { intact, withDigest } from '../../digests.ts'
import type { MonthStore } from '../../months.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import type { Connection, Database } from '../file/connection.ts'
import { readerOf } from '../file/reader.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import { createReached } from './what-confirms-a-month.ts'

/** The end of what has been reported: no write is dated before it again. */
export function reportedUntil(db: Database): () => Instant {
  const select = db.prepare<[], { one: bigint; at: bigint }>('select * from reported_until')
  return () => {
    const row = select.get()
    return instant(row ? intact('reported_until', row).at : 0n)
  }
}

export function createMonthStore(connection: Connection, time: TenantTime): MonthStore {
  const { db, present, read, write } = connection
  const reader = readerOf(connection)
  const records = createReached(db, time)
  const sql = {
    closed: db.prepare<object, bigint>(IS_CLOSED.text).pluck(),
    first: db.prepare<[], bigint | null>(FIRST_PARTNER.text).pluck(),
    close: db.prepare(CLOSE_MONTH.text),
    reported: db.prepare(REPORT_UNTIL.text),
    reportedOf: db.prepare(REPORT_SANDBOX_UNTIL.text),
  }
  /** A sandbox closes its months only for itself: its time may be ahead of everybody else's. */
  const sandboxOf = (tenant: Tenant | null): number | null =>
    tenant !== null && time.isSandbox(tenant.tenantId) ? tenant.tenantId : null
  const timeIn = (sandbox: number | null, real: Instant): Instant =>
    sandbox === null ? real : time.of(sandbox, real)

  /** What can be known without the write lock; null when the lock is needed. */
  const glance = (period: Period, tenant: Tenant | null): Promise<FixedPeriod | null> =>
    read(() => {
      if (sql.closed.get({ month: period.month }) === 1n) return { ...period, final: true }
      const sandbox = sandboxOf(tenant)
      const isOver = timeIn(sandbox, present()) >= period.end
      return isOver && !isConfirmed(period, records.reached(sandbox)) ? { ...period, final: false } : null
    })

  const fix = (period: Period, tenant: Tenant | null, real: Instant): FixedPeriod => {
    const sandbox = sandboxOf(tenant)
    const now = timeIn(sandbox, real)
    const { fixed, reportedUntil, closes } =
      now >= period.end
        ? overPeriod(
            period,
            { now, reached: records.reached(sandbox) },
            sandbox === null ? instantOrNull(sql.first.get() ?? null) : null,
          )
        : { ...runningPeriod(period, now, time.latestRecordedAt(sandbox)), closes: null }
    if (closes && sandbox === null) sql.close.run(closingParams(closes, now))
    if (reportedUntil !== null && sandbox === null)
      sql.reported.run(withDigest('reported_until', { at: reportedUntil }))
    if (reportedUntil !== null && sandbox !== null) sql.reportedOf.run({ at: reportedUntil, tenant: sandbox })
    return fixed
  }

  return {
    // A write that held the lock at midnight has committed by the time this has its turn.
    fixPeriod: async (period, tenant = null) =>
      (await glance(period, tenant)) ?? write((real) => fix(period, tenant, real)),

    // Every write has the lock to itself here, so this one keeps others waiting no longer than any other write. It
    // waits in its lane.
    fixTenantPeriod: async (tenant, period) =>
      (await glance(period, tenant)) ?? write((real) => fix(period, tenant, real), tenant.tenantId),

    ...readMonths(reader),
  }
}
