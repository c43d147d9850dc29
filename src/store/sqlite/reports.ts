import { DAY_MS, earlier, type Instant, later, plus } from '../../core/instant.ts'
import { type Btc, type Usd, ZERO_USD } from '../../core/money.ts'
import type { Activity } from '../../core/statement.ts'
import { type ReportRow, reportOf } from '../ledger-rows.ts'
import { instant, type TenantRow, tenantOf } from '../rows.ts'
import type { ReportStore, TradeLine, UserLine } from '../store.ts'
import type { Connection, Database } from './connection.ts'
import type { TenantTime } from './tenant-time.ts'

/** How many trades, and what they add up to. SQLite's sum over integers is exact, and fails rather than overflows. */
const SUMS = `count(*) as trades, coalesce(sum(d.usd_amount), 0) as volume, coalesce(sum(d.btc_amount), 0) as btc,
  coalesce(sum(d.partner_fee_usd), 0) as fees`
const OF_TENANT =
  '(:slug is null or t.partner_slug = :slug) and (:environment is null or t.environment = :environment)'
const IN_PERIOD = 'd.recorded_at >= :start and d.recorded_at < :end'

/** The end of what has been reported: no write is dated before it again. */
export function reportedUntil(db: Database): () => Instant {
  const at = db.prepare<[], bigint>('select at from reported_until').pluck()
  return () => instant(at.get() ?? 0n)
}

export function createReportStore({ db, read, write }: Connection, time: TenantTime): ReportStore {
  const sql = {
    tenants: db.prepare<object, TenantRow>(
      `select t.* from tenants t join partners p on p.partner_slug = t.partner_slug
       where ${OF_TENANT} and (:before is null or p.created_at < :before)
       order by t.partner_slug, t.environment`,
    ),
    byPlan: db.prepare<object, PlanSums>(
      `select u.partner_user_id, d.plan_id, ${SUMS} from trades d join users u on u.user_id = d.user_id
       where d.tenant_id = :tenant and ${IN_PERIOD} and d.status in ('filled', 'partial')
       group by d.plan_id`,
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
    countTrades: db
      .prepare<object, bigint>(
        `select count(*) from trades d join tenants t on t.tenant_id = d.tenant_id where ${IN_PERIOD} and ${OF_TENANT}`,
      )
      .pluck(),
    trades: db.prepare<object, TradeRow>(
      `select d.*, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id
       from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
         join plans p on p.plan_id = d.plan_id
       where (d.recorded_at, d.execution_id) > (:at, :id) and d.recorded_at < :end and ${OF_TENANT}
       order by d.recorded_at, d.execution_id limit :limit`,
    ),
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

  return {
    listTenants: (filter, before) => read(() => sql.tenants.all({ ...filter, before }).map(tenantOf)),

    fixPeriod: async (period, tenant = null) => {
      if (await read(() => sql.isClosed.get(period.month) === 1n)) return { ...period, final: true }
      // Whoever held the write lock at midnight has committed once this has had its turn.
      return write((real) => {
        // A sandbox closes its months for itself alone: those of the others may lie ahead of them.
        const sandbox = tenant !== null && time.isSandbox(tenant.tenantId) ? tenant.tenantId : null
        const now = sandbox === null ? real : time.of(sandbox, real)
        const reported = (at: Instant) =>
          sandbox === null ? sql.reported.run({ at }) : sql.reportedOf.run({ at, tenant: sandbox })
        const final = now >= period.end
        if (final) {
          if (sandbox === null) sql.close.run({ month: period.month, end: period.end, now })
          reported(period.end)
        }
        // A trade of this very millisecond belongs to what is there so far, one that comes later in it does not.
        const sofar = later(now, plus(time.latestRecordedAt(sandbox) ?? (0 as Instant), 1))
        if (!final && sofar > now) reported(sofar)
        return { ...period, end: final ? period.end : earlier(period.end, later(sofar, period.start)), final }
      })
    },

    async readActivity(tenant, period) {
      const lines = new Map<string, UserLine>()
      const plans = new Set<bigint>()
      const activity = { ...NO_ACTIVITY }
      for (const slice of daysOf(period)) {
        const scope = { tenant: tenant.tenantId, ...slice }
        const day = await read(() => ({
          byPlan: sql.byPlan.all(scope),
          outcomes: new Map(sql.outcomes.all(scope).map((row) => [row.status, Number(row.n)])),
          created: Number(sql.created.get(scope)),
          cancelled: Number(sql.cancelled.get(scope)),
        }))
        for (const row of day.byPlan) {
          plans.add(row.plan_id)
          const line = added(lines.get(row.partner_user_id), row)
          lines.set(row.partner_user_id, line)
          activity.volume = (activity.volume + row.volume) as Usd
          activity.btc = (activity.btc + row.btc) as Btc
          activity.partnerFees = (activity.partnerFees + row.fees) as Usd
        }
        activity.executionsCreated += day.created
        activity.executionsFilled += day.outcomes.get('filled') ?? 0
        activity.executionsPartial += day.outcomes.get('partial') ?? 0
        activity.executionsFailed += day.outcomes.get('failed') ?? 0
        activity.executionsCancelled += (day.outcomes.get('cancelled') ?? 0) + day.cancelled
        await new Promise((resolve) => setImmediate(resolve))
      }
      const users = [...lines.values()].sort((a, b) => (a.partnerUserId < b.partnerUserId ? -1 : 1))
      return { activity: { ...activity, activeUsers: users.length, activePlans: plans.size }, users }
    },

    readTradeLines: ({ start, end }, filter, { after, limit }) =>
      read(() => {
        // One lower bound, so that a page begins at its own place in the index and not at the month's.
        const at = after?.recordedAt ?? start
        const params = { ...filter, end, at, id: after?.executionId ?? '', limit }
        return sql.trades.all(params).map(tradeLineOf)
      }),

    countTrades: ({ start, end }, filter) =>
      read(() => Number(sql.countTrades.get({ ...filter, start, end }))),
  }
}

type PlanSums = {
  partner_user_id: string
  plan_id: bigint
  trades: bigint
  volume: bigint
  btc: bigint
  fees: bigint
}
type TradeRow = ReportRow &
  TenantRow & { execution_id: string; recorded_at: bigint; partner_user_id: string; partner_plan_id: string }

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

/** A month day by day: each read is short, so serve goes on answering and the write-ahead log can be emptied. */
function* daysOf({
  start,
  end,
}: {
  start: Instant
  end: Instant
}): Generator<{ start: Instant; end: Instant }> {
  for (let from = start; from < end; from = plus(from, DAY_MS))
    yield { start: from, end: earlier(plus(from, DAY_MS), end) }
}

const added = (line: UserLine | undefined, row: PlanSums): UserLine => ({
  partnerUserId: row.partner_user_id,
  trades: (line?.trades ?? 0) + Number(row.trades),
  volume: ((line?.volume ?? 0n) + row.volume) as Usd,
  btc: ((line?.btc ?? 0n) + row.btc) as Btc,
  partnerFees: ((line?.partnerFees ?? 0n) + row.fees) as Usd,
})

const tradeLineOf = (row: TradeRow): TradeLine => ({
  tenant: tenantOf(row),
  executionId: row.execution_id as TradeLine['executionId'],
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  recordedAt: instant(row.recorded_at),
  report: reportOf(row),
})
