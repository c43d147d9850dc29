// Sets the bound below which nothing is dated any more once a month has been reported.

import { type FixedPeriod, isConfirmed, overPeriod, type Period, runningPeriod } from '../../core/month.ts'
import type { Tenant } from '../../core/partner.ts'
import { type Instant, later } from '../../core/time.ts'
import { intact, withDigest } from '../digests.ts'
import {
  CLOSE_MONTH,
  closingParams,
  FIRST_PARTNER,
  IS_CLOSED,
  NEWEST_CHANGE,
  NEWEST_FINISHED_PASS,
  REPORT_SANDBOX_UNTIL,
  REPORT_UNTIL,
  readMonths,
} from '../months.ts'
import { instant, instantOrNull } from '../reader.ts'
import { latestRecordedAt } from '../shared/executions.ts'
import { standingDispute } from '../shared/prices.ts'
import type { MonthStore } from '../store.ts'
import type { Driver } from './driver.ts'
import { type Connection, type Database, readerOf } from './file/connection.ts'
import type { TenantTime } from './tenant-time.ts'

/** The end of what has been reported: no write is dated before it again. */
export function reportedUntil(db: Database): () => Instant {
  const select = db.prepare<[], { one: bigint; at: bigint }>('select * from reported_until')
  return () => {
    const row = select.get()
    return instant(row ? intact('reported_until', row).at : 0n)
  }
}

type Parts = { time: TenantTime; driver: Driver }

export function createMonthStore(connection: Connection, { time, driver }: Parts): MonthStore {
  const { within } = driver
  const { db, present, read, write } = connection
  const reader = readerOf(connection)
  const records = createReached(db, { time, driver })
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
        : {
            ...runningPeriod(
              period,
              now,
              within((tx) => latestRecordedAt(tx, sandbox)),
            ),
            closes: null,
          }
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

// What confirms that a month is over: how far time has come according to what was recorded, whatever this process's
// clock shows. A report alone closes no month.

const NEVER = 0 as Instant

function createReached(db: Database, { time, driver: { within } }: Parts) {
  const sql = {
    pass: db.prepare<[], bigint>(NEWEST_FINISHED_PASS.text).pluck(),
    audit: db.prepare<[], bigint>(NEWEST_CHANGE.text).pluck(),
  }
  const at = (value: bigint | undefined): Instant => instantOrNull(value ?? null) ?? NEVER

  return {
    /**
     * The instant of the newest pass, trade, adjustment or change by an operator, in the time of a sandbox or the real
     * one; nothing counts while the clock is in doubt.
     */
    reached(sandbox: number | null): Instant {
      if (within(standingDispute) !== null) return NEVER
      const noted = later(at(sql.pass.get()), at(sql.audit.get()))
      if (sandbox !== null) return time.of(sandbox, noted)
      return later(noted, within((tx) => latestRecordedAt(tx, null)) ?? NEVER)
    },
  }
}
