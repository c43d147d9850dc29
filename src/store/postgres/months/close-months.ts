// The bound of a month below which nothing is dated any more once it has been reported: behind the gate
// (../server/gate.ts), alone.

import type { FixedPeriod } from '../../../core/fixed-period.ts'
import { overPeriod, runningPeriod } from '../../../core/fixed-period.ts'
import type { Instant } from '../../../core/instant.ts'
import type { Period } from '../../../core/month.ts'
import type { Caller } from '../../../core/partner.ts'
import { CLOSE_MONTH, IS_CLOSED, REPORT_SANDBOX_UNTIL, REPORT_UNTIL } from '../../common/months/fixed.ts'
import { readMonths } from '../../common/months/read-months.ts'
import { tradeLines } from '../../common/months/trade-lines.ts'
import type { MonthStore } from '../../months.ts'
import { isSandbox, latestRecordedAt } from '../sandbox/tenant-time.ts'
import { type Connection, callOf, type WriteTx } from '../server/connection.ts'
import { queryOf, readerOf } from '../server/reader.ts'
import { reached } from './reached.ts'

const CLOSED = queryOf(IS_CLOSED)
const CLOSE = queryOf(CLOSE_MONTH)
const REPORTED = queryOf(REPORT_UNTIL)
const REPORTED_OF = queryOf(REPORT_SANDBOX_UNTIL)

export function createMonthStore(connection: Connection): MonthStore {
  const { read, write, clock } = connection
  const reader = readerOf(connection)

  /** Fixes it once no other write of the tenant is under way; null for one that is over for all by then. */
  const fixAlone = (period: Period, { tenantId, keyId: key }: Caller): Promise<FixedPeriod | null> =>
    write(
      async (tx) => {
        const times = await tx.times
        if (await isSandbox(tx, tenantId))
          return fix(tx, period, { now: times.of(tenantId), sandbox: tenantId })
        return times.real < period.end ? fix(tx, period, { now: times.real, sandbox: null }) : null
      },
      { tenants: [tenantId], alone: 'tenants', key },
    )

  /** Fixes it for everybody, once no other write at all is under way. */
  const fixForAll = (period: Period, key: string | undefined): Promise<FixedPeriod> =>
    write(async (tx) => fix(tx, period, { now: (await tx.times).real, sandbox: null }), {
      alone: 'all',
      key,
    })

  /** What can be known without a lock: whether it is closed, and whether it concerns its tenant alone so far. */
  const glance = ({ month, end }: Period, tenant: Caller | null): Promise<'closed' | 'own' | 'common'> =>
    read(async (tx) => {
      const [closed, now] = await Promise.all([tx.get(CLOSED, { month }), clock.present(tx)])
      if (closed?.closed === 1n) return 'closed'
      return tenant && (now < end || (await isSandbox(tx, tenant.tenantId))) ? 'own' : 'common'
    })

  return {
    fixPeriod: async (period, tenant = null) => {
      const kind = await glance(period, tenant)
      if (kind === 'closed') return { ...period, final: true }
      // A partner that asks for its running month, as it may at any time, holds up no other partner's writes.
      return (
        (kind === 'own' && tenant && (await fixAlone(period, tenant))) || fixForAll(period, tenant?.keyId)
      )
    },

    ...readMonths(reader),

    readTenantLines: (tenant, ...which) =>
      tradeLines(readerOf(connection, callOf(tenant))).readTenantLines(tenant, ...which),
  }
}

/** A sandbox closes its months for itself alone: those of the others may lie ahead of them. */
async function fix(
  tx: WriteTx,
  period: Period,
  { now, sandbox }: { now: Instant; sandbox: number | null },
): Promise<FixedPeriod> {
  const { fixed, reportedUntil: at } =
    now >= period.end
      ? overPeriod(period, await reached(tx, sandbox))
      : runningPeriod(period, now, await latestRecordedAt(tx, sandbox))
  const writes: Promise<unknown>[] = []
  if (fixed.final && sandbox === null)
    writes.push(tx.run(CLOSE, { month: period.month, period_end: period.end, now }))
  if (at !== null)
    writes.push(sandbox === null ? tx.run(REPORTED, { at }) : tx.run(REPORTED_OF, { at, tenant: sandbox }))
  await Promise.all(writes)
  return fixed
}
