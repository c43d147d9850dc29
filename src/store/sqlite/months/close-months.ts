// What a month comes to, and the bound below which nothing is dated any more once it has been reported.

import { CLOCK_DIFFERENCE_MAX_MS } from '../../../core/clock.ts'
import type { Activity } from '../../../core/fees.ts'
import { earlier, type Instant, later, plus } from '../../../core/instant.ts'
import { type Btc, type Usd, ZERO_USD } from '../../../core/money.ts'
import type { MonthStore, UserLine } from '../../months.ts'
import { instant } from '../../rows/instant.ts'
import type { Connection, Database } from '../file/connection.ts'
import type { TenantTime } from '../sandbox/tenant-time.ts'
import { createAdjustmentLines } from './adjustment-lines.ts'
import { createReached } from './reached.ts'
import { createSlices } from './slices.ts'
import { createTradeLines, IN_PERIOD } from './trade-lines.ts'

/** How many trades, and what they add up to. SQLite's sum over integers is exact, and fails rather than overflows. */
const SUMS = `count(*) as trades, coalesce(sum(d.usd_amount), 0) as volume, coalesce(sum(d.btc_amount), 0) as btc,
  coalesce(sum(d.partner_fee_usd), 0) as fees`

/** The end of what has been reported: no write is dated before it again. */
export function reportedUntil(db: Database): () => Instant {
  const at = db.prepare<[], bigint>('select at from reported_until').pluck()
  return () => instant(at.get() ?? 0n)
}

export function createMonthStore(connection: Connection, time: TenantTime): MonthStore {
  const { db, read, write } = connection
  const records = createReached(db, time)
  const sql = {
    byPlan: db.prepare<object, PlanSums>(
      `select u.partner_user_id, d.plan_id, ${SUMS} from trades d join users u on u.user_id = d.user_id
       where d.tenant_id = :tenant and ${IN_PERIOD} and d.status in ('filled', 'partial')
       group by d.plan_id`,
    ),
    adjusted: db.prepare<object, UserSums>(
      `select u.partner_user_id, sum(d.usd_amount) as volume, sum(d.btc_amount) as btc
       from adjustments d join users u on u.user_id = d.user_id
       where d.tenant_id = :tenant and ${IN_PERIOD} group by d.user_id`,
    ),
    outcomes: db.prepare<object, { status: string; n: bigint }>(
      `select d.status, count(*) as n from trades d where d.tenant_id = :tenant and ${IN_PERIOD} group by d.status`,
    ),
    created: db
      .prepare<object, bigint>(
        'select count(*) from executions where tenant_id = :tenant and created_at >= :start and created_at < :end',
      )
      .pluck(),
    cancelled: db
      .prepare<object, bigint>(
        `select count(*) from executions
         where tenant_id = :tenant and cancelled_at is not null and cancelled_at >= :start and cancelled_at < :end`,
      )
      .pluck(),
    close: db.prepare(
      'insert into closed_months (month, period_end, closed_at) values (:month, :end, :now) on conflict do nothing',
    ),
    isClosed: db.prepare<[string], bigint>('select count(*) from closed_months where month = ?').pluck(),
    // One row: what has been reported until, below which no later write is dated.
    reported: db.prepare(
      `insert into reported_until (one, at) values (1, :at) on conflict (one) do update set at = max(at, excluded.at)`,
    ),
    reportedOf: db.prepare(
      'update sandboxes set reported_until = max(reported_until, :at) where tenant_id = :tenant',
    ),
  }

  const slices = createSlices(connection)

  return {
    fixPeriod: async (period, tenant = null) => {
      if (await read(() => sql.isClosed.get(period.month) === 1n)) return { ...period, final: true }
      // Whoever held the write lock at midnight has committed once this has had its turn.
      return write((real) => {
        // A sandbox closes its months for itself alone: those of the others may lie ahead of them.
        const sandbox = tenant !== null && time.isSandbox(tenant.tenantId) ? tenant.tenantId : null
        const now = sandbox === null ? real : time.of(sandbox, real)
        const reported = (at: Instant) =>
          sandbox === null ? sql.reported.run({ at }) : sql.reportedOf.run({ at, tenant: sandbox })
        if (now >= period.end) {
          const final = records.reached(sandbox) >= period.end
          if (final) {
            if (sandbox === null) sql.close.run({ month: period.month, end: period.end, now })
            reported(period.end)
          }
          return { ...period, final }
        }
        // A trade or adjustment of this very millisecond belongs to what is there so far, one that comes later in it
        // does not. One that lies further ahead was dated by a clock that was wrong: it must not take all others along.
        const sofar = plus(time.latestRecordedAt(sandbox) ?? (0 as Instant), 1)
        const held = now < sofar && sofar - now <= CLOCK_DIFFERENCE_MAX_MS
        if (held) reported(sofar)
        return { ...period, end: earlier(period.end, later(held ? sofar : now, period.start)), final: false }
      })
    },

    async readActivity(tenant, period) {
      const lines = new Map<string, UserLine>()
      const plans = new Set<bigint>()
      const activity = { ...NO_ACTIVITY }
      for await (const scope of slices({ ...period, tenant: tenant.tenantId })) {
        const slice = await read(() => ({
          byPlan: sql.byPlan.all(scope),
          adjusted: sql.adjusted.all(scope),
          outcomes: new Map(sql.outcomes.all(scope).map((row) => [row.status, Number(row.n)])),
          created: Number(sql.created.get(scope)),
          cancelled: Number(sql.cancelled.get(scope)),
        }))
        for (const row of slice.byPlan) plans.add(row.plan_id)
        for (const row of [...slice.byPlan, ...slice.adjusted.map(withoutTrades)]) {
          const line = added(lines.get(row.partner_user_id), row)
          lines.set(row.partner_user_id, line)
          activity.volume = (activity.volume + row.volume) as Usd
          activity.btc = (activity.btc + row.btc) as Btc
          activity.partnerFees = (activity.partnerFees + row.fees) as Usd
        }
        activity.executionsCreated += slice.created
        activity.executionsFilled += slice.outcomes.get('filled') ?? 0
        activity.executionsPartial += slice.outcomes.get('partial') ?? 0
        activity.executionsFailed += slice.outcomes.get('failed') ?? 0
        activity.executionsCancelled += (slice.outcomes.get('cancelled') ?? 0) + slice.cancelled
      }
      const users = [...lines.values()].sort((a, b) => (a.partnerUserId < b.partnerUserId ? -1 : 1))
      // Somebody whose only entry is an adjustment has a line, and is not active.
      const activeUsers = users.filter(({ trades }) => trades > 0).length
      return { activity: { ...activity, activeUsers, activePlans: plans.size }, users }
    },

    ...createTradeLines(connection),
    ...createAdjustmentLines(connection),
  }
}

type UserSums = { partner_user_id: string; volume: bigint; btc: bigint }
type LineSums = UserSums & { trades: bigint; fees: bigint }
type PlanSums = LineSums & { plan_id: bigint }
const NO_ACTIVITY: Activity = {
  activeUsers: 0,
  activePlans: 0,
  executionsCreated: 0,
  executionsFilled: 0,
  executionsPartial: 0,
  executionsFailed: 0,
  executionsCancelled: 0,
  volume: ZERO_USD,
  btc: 0n as Btc,
  partnerFees: ZERO_USD,
}

const added = (line: UserLine | undefined, row: LineSums): UserLine => ({
  partnerUserId: row.partner_user_id,
  trades: (line?.trades ?? 0) + Number(row.trades),
  volume: ((line?.volume ?? 0n) + row.volume) as Usd,
  btc: ((line?.btc ?? 0n) + row.btc) as Btc,
  partnerFees: ((line?.partnerFees ?? 0n) + row.fees) as Usd,
})

const withoutTrades = (row: UserSums): LineSums => ({ ...row, trades: 0n, fees: 0n })
