// Reads the vitals: the latest passes and their feed, the clock, each partner, the disk.

import { LATENESS_PASSES } from '../../core/clock.ts'
import { type ExecutionId, RECORDED } from '../../core/execution.ts'
import {
  type DiskVitals,
  EARLY_FILL_DAYS,
  EARLY_FILL_MS,
  EARLY_FILLS_MAX,
  type EarlyFill,
  FAILED_ORDERS_MIN,
  FED_FORGOTTEN_MS,
  FEED_PASSES_SEEN,
  type FeedVitals,
  type JobResult,
  ORDERS_SEEN_MS,
  type PartnerVitals,
  UNSPENT_DAYS,
  type UnspentWindows,
} from '../../core/findings.ts'
import { type Usd, ZERO_USD } from '../../core/money.ts'
import type { Environment, PartnerStatus } from '../../core/partner.ts'
import { BY_HAND, IMPORTED } from '../../core/price.ts'
import { DAY_MS, earlier, HOUR_MS, type Instant, plus } from '../../core/time.ts'
import type { Backlog, Look, MonitoringStore, PlanCounts, Stock, WebhookCount } from '../monitoring.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import { RESULTS } from '../shared/audit.ts'
import { NEWEST_FINISHED_PASS } from '../shared/months.ts'
import { standingDispute } from '../shared/passes.ts'
import { NEWEST_PRICE } from '../shared/prices.ts'
import { IS_LIVE, IS_OPEN, IS_STUCK, OWN_NOW, unleasedAt } from '../sql/fragments.ts'
import { atOf, breathe, instant, instantOrNull, PAGE_ROWS, type Query, query } from '../statement.ts'
import type { Base } from '../transaction.ts'
import { keysThatEnd, noneIfDamaged, setBack } from './quick-looks.ts'

/** The feed as the newest pass saw it that asked it: down since the first pass after the last one that got a price. */
const FEED = query(
  `select at, feed, feed_failure, case when feed_failure is not null then (
     select d.at from ticks d where d.feed_failure is not null and d.tick_id > coalesce((
       select tick_id from ticks where feed is not null and feed_failure is null order by tick_id desc limit 1), 0)
     order by d.tick_id limit 1) end as since
   from (select * from ticks order by tick_id desc limit :passes) x
   where feed is not null order by tick_id desc limit 1`,
  (row: { at: bigint; feed: string; feed_failure: string | null; since: bigint | null }): FeedVitals => ({
    name: row.feed,
    askedAt: instant(row.at),
    down:
      row.feed_failure === null ? null : { since: instant(row.since ?? row.at), reason: row.feed_failure },
  }),
)
/** The newest price from a feed: usually the newest of all. */
const FED = query(
  `select at from prices where at between :since and :now and source not in ('${BY_HAND}', '${IMPORTED}')
   order by at desc limit 1`,
  atOf,
)

/** The parts that each store implements itself. */
export type OwnVitals = {
  /** When the first awake plan of a range was created. */
  firstAwake: Query<Instant>
  partners: PartnerSql
  /** Whether a file of this host, or of the named one, existed and is gone. */
  isLost: (file: string, host: string | null) => boolean
  /** Checks of this store alone. */
  looks: readonly Look[]
  readDisk: (now: Instant) => Promise<DiskVitals | null>
}

export function vitalsReader(
  base: Base,
  { firstAwake, partners, isLost, looks: own, readDisk }: OwnVitals,
): MonitoringStore['readVitals'] {
  const readScheduler = schedulerReader(base, firstAwake)
  const readPartners = partnersReader(base, partners)
  const readEarlyFills = earlyFillsReader(base)
  const looks = [setBack(base), keysThatEnd(base), ...own]
  const clock = () => base.look((tx) => tx.clock)
  return async (now: Instant, stock: Stock) => {
    const scheduler = await readScheduler()
    const [dispute, frozen, feed = null, price = null, fedAt = null, results] = await base.read((tx) =>
      tx.together(
        standingDispute(tx),
        tx.frozen,
        tx.get(FEED, { passes: FEED_PASSES_SEEN }),
        tx.get(NEWEST_PRICE, { now }),
        tx.get(FED, { now, since: plus(now, -FED_FORGOTTEN_MS) }),
        tx.all(RESULTS),
      ),
    )
    return {
      scheduler,
      dispute,
      frozen,
      feed,
      price,
      fedAt,
      partners: await readPartners(now, stock),
      unspent: stock.unspent,
      earlyFills: await readEarlyFills('live', now),
      results,
      backupGone: goneOf(results, isLost),
      also: (await Promise.all(looks.map((look) => look(clock).catch(noneIfDamaged)))).flat(),
      disk: await readDisk(now),
    }
  }
}

/** The file of the newest backup, which the program itself removes only when there is a newer one. */
function goneOf(results: readonly JobResult[], isLost: OwnVitals['isLost']): string | null {
  const newest = results.find(({ job }) => job === 'backup')?.backups?.newest
  return newest && isLost(newest.file, newest.host) ? newest.file : null
}

// Recorded and late fills that are dated before their execution was created.

type EarlyRow = TenantRow & { execution_id: ExecutionId; executed_at: bigint; created_at: bigint }

const of = (table: string, receivedAt: string): string =>
  `select x.tenant_id, x.execution_id, x.executed_at, e.created_at, x.${receivedAt} as at
   from ${table} x join executions e on e.execution_id = x.execution_id
   where x.executed_at < e.created_at - ${EARLY_FILL_MS} and x.${receivedAt} >= :since
     and e.trigger_kind <> '${RECORDED}'`

/** A failure, and a fill adjusted to zero, bought nothing, so there is nothing to ask the partner. */
const IS_BOUGHT = `exists (
  select 1 from trades b where b.execution_id = x.execution_id and coalesce(b.usd_amount, 0) + (
    select coalesce(sum(a.usd_amount), 0) from adjustments a where a.execution_id = b.execution_id) > 0)`

// Nothing is recorded before its execution is created. So the index trades_executed_before, of the trades executed long
// before they were recorded, has all such trades. The other two tables have few rows of these days.
const EARLY = query(
  `select t.*, y.execution_id, y.executed_at, y.created_at from (
     ${of('trades', 'recorded_at')} and x.executed_at < x.recorded_at - ${EARLY_FILL_MS} and ${IS_BOUGHT}
     union all ${of('adjustments', 'recorded_at')} and ${IS_BOUGHT}
     union all ${of('late_reports', 'received_at')} and x.decided_at is null) y
   cross join tenants t
   where t.tenant_id = y.tenant_id and t.environment = :environment
     and t.tenant_id not in (select tenant_id from sandboxes where offset_ms > 0)
   order by y.at desc, y.execution_id desc limit ${EARLY_FILLS_MAX}`,
  (row: EarlyRow): EarlyFill => ({
    tenant: tenantOf(row),
    executionId: row.execution_id,
    executedAt: instant(row.executed_at),
    createdAt: instant(row.created_at),
  }),
)

/** The early fills of the last days. A sandbox that is ahead has none, because no venue shares its time. */
export const earlyFillsReader =
  (base: Base) =>
  (environment: Environment, now: Instant): Promise<EarlyFill[]> =>
    base.look((tx) => tx.all(EARLY, { environment, since: now - EARLY_FILL_DAYS * DAY_MS }))

// The vitals of each partner's live environment, read in a few steps along indexes, however much there is.

/** Partners read without a break: a few milliseconds. */
const PAGE_PARTNERS = 500
/** The number of partners, those with the most failures, for which reasons are read; and the orders read for each. */
const PARTNERS_ASKED = 20
const ORDERS_ASKED = 100

type PartnerRow = TenantRow & {
  status: string
  held: bigint
  polled_at: bigint | null
  confirmed_at: bigint | null
  filled: bigint | null
  failed: bigint | null
  newest_failed: bigint
  stuck: bigint
  first_stuck: string | null
  webhook_status: string | null
  failures: bigint | null
  last_failure_reason: string | null
  last_delivered_at: bigint | null
}
type LateRow = TenantRow & {
  kept: bigint
  oldest_at: bigint | null
  unkept: bigint
  first_unkept: string | null
}

/** The SQL that differs between stores. */
export type PartnerSql = {
  page: ReturnType<typeof partnersPage>
  lateFills: ReturnType<typeof lateFills>
}

const STUCK = `from executions e where e.tenant_id = t.tenant_id and ${IS_STUCK}`
const NEWEST = `select usd_amount from trades d where d.tenant_id = t.tenant_id
  order by d.recorded_at desc, d.execution_id desc limit ${FAILED_ORDERS_MIN}`
// Newest first along the index, without what an operator recorded or accepted: the partner did not send that.
const CONFIRMED = `select d.recorded_at from trades d
  where d.tenant_id = t.tenant_id
    and (select e.trigger_kind from executions e where e.execution_id = d.execution_id) <> '${RECORDED}'
    and (d.received_at is null or not exists (
      select 1 from late_reports l
      where l.execution_id = d.execution_id and l.accepted_at is not null
        and l.partner_order_id = d.partner_order_id and l.received_at = d.received_at))
  order by d.recorded_at desc, d.execution_id desc limit 1`

/** A page of partners. `orders` is SQL for a tenant's sums `filled` and `failed` after `:hour`, and their tables. */
export const partnersPage = (orders: { filled: string; failed: string; from?: string }) =>
  query(
    `select t.*, r.status, r.held, q.polled_at, w.status as webhook_status,
       w.consecutive_failures as failures, w.last_failure_reason, w.last_delivered_at,
       (${CONFIRMED}) as confirmed_at,
       ${orders.filled} as filled, ${orders.failed} as failed,
       (select count(*) from (${NEWEST}) n where n.usd_amount is null) as newest_failed,
       (select count(*) ${STUCK}) as stuck, (select min(e.execution_id) ${STUCK}) as first_stuck
     from tenants t join partners r on r.partner_slug = t.partner_slug left join polls q on q.tenant_id = t.tenant_id
       left join webhooks w on w.tenant_id = t.tenant_id ${orders.from ?? ''}
     where t.tenant_id > :after and t.environment = 'live' order by t.tenant_id limit :limit`,
    partnerOf,
  )

/** Few rows, since each waits for an operator. `executions` is that table, with a store's own additions. */
export const lateFills = (executions: string) =>
  query(
    `select t.tenant_id, t.partner_slug, t.environment, cast(sum(x.n) as bigint) as kept, min(x.since) as oldest_at,
       cast(sum(x.unkept) as bigint) as unkept, min(x.first_unkept) as first_unkept
     from (
       select tenant_id, count(*) as n, min(received_at) as since, 0 as unkept, null as first_unkept
       from late_reports where decided_at is null
         and tenant_id in (select tenant_id from tenants where environment = :environment) group by tenant_id
       union all select tenant_id, 0, null, unkept_reports, execution_id
       from ${executions} where unkept_reports > 0
       union all select tenant_id, 0, null, unkept_reports, null from tenants where unkept_reports > 0) x
     cross join tenants t where t.tenant_id = x.tenant_id and t.environment = :environment group by t.tenant_id`,
    (row: LateRow) => ({
      tenant: tenantOf(row),
      lateFills: {
        kept: Number(row.kept),
        oldestAt: instantOrNull(row.oldest_at),
        unkept: Number(row.unkept),
        firstUnkept: row.first_unkept,
      },
    }),
  )

const REASON = query<{ failure_reason: string | null }>(
  `select failure_reason from (
     select failure_reason, usd_amount from trades where tenant_id = :tenant
     order by recorded_at desc, execution_id desc limit :orders) d
   where usd_amount is null and failure_reason is not null
   group by failure_reason order by count(*) desc, failure_reason limit 1`,
)

function partnersReader(
  base: Base,
  own: PartnerSql,
): (now: Instant, stock: Stock) => Promise<PartnerVitals[]> {
  async function addReasons(partners: readonly PartnerVitals[]): Promise<void> {
    const failing = partners
      .filter(({ orders }) => orders.failed > 0)
      .sort((a, b) => b.orders.failed - a.orders.failed)
      .slice(0, PARTNERS_ASKED)
    for (const { tenant, orders } of failing) {
      const row = await base.look((tx) => tx.get(REASON, { tenant: tenant.tenantId, orders: ORDERS_ASKED }))
      orders.commonestReason = row?.failure_reason ?? null
    }
  }

  return async (now, stock) => {
    const backlogs = await base.look((tx) => tx.all(OPEN_BY_TENANT, { now }))
    const open = new Map(backlogs.map((backlog) => [backlog.tenantId, backlog]))
    const waiting = await base.look((tx) => tx.all(own.lateFills, { environment: 'live' }))
    const late = new Map(waiting.map(({ tenant, lateFills }) => [tenant.tenantId, lateFills]))
    const partners: PartnerVitals[] = []
    // As many hours as there are in the time looked at, including the current one.
    const hour = Math.floor((now - ORDERS_SEEN_MS) / HOUR_MS)
    for (let after = -1; ; ) {
      const page = await base.look((tx) => tx.all(own.page, { after, hour, limit: PAGE_PARTNERS }))
      for (const partner of page) {
        const { tenantId } = partner.tenant
        const { due = 0, oldestDueAt = null } = open.get(tenantId) ?? {}
        partners.push({
          ...partner,
          due,
          oldestDueAt,
          plansSince: stock.plansSince.get(tenantId) ?? null,
          lateFills: late.get(tenantId) ?? null,
        })
      }
      const last = page.at(-1)
      if (page.length < PAGE_PARTNERS || last === undefined) break
      after = last.tenant.tenantId
      await breathe()
    }
    await addReasons(partners)
    return partners
  }
}

const partnerOf = (
  row: PartnerRow,
): Omit<PartnerVitals, 'due' | 'oldestDueAt' | 'plansSince' | 'lateFills'> => ({
  tenant: tenantOf(row),
  status: row.status as PartnerStatus,
  held: row.held === 1n,
  polledAt: instantOrNull(row.polled_at),
  confirmedAt: instantOrNull(row.confirmed_at),
  stuck:
    row.first_stuck === null ? null : { count: Number(row.stuck), first: row.first_stuck as ExecutionId },
  orders: {
    filled: Number(row.filled ?? 0n),
    failed: Number(row.failed ?? 0n),
    newestFailed: row.newest_failed >= FAILED_ORDERS_MIN,
    commonestReason: null,
  },
  webhook:
    row.failures === null
      ? null
      : {
          paused: row.webhook_status === 'paused',
          failures: Number(row.failures),
          lastReason: row.last_failure_reason,
          lastDeliveredAt: instantOrNull(row.last_delivered_at),
        },
})

// Figures that take reading many rows, in pages: how many plans there are, and which windows ended with money left.

type PlanRow = {
  tenant_id: bigint
  environment: Environment
  status: keyof PlanCounts
  n: bigint
  timed_since: bigint | null
}
type UnspentRow = TenantRow & {
  closed_at: bigint
  window_id: bigint
  released: bigint
  partner_plan_id: string
}

/** Whether a window `w` ended, at `:since` or later, with money left. Phrased exactly like an index's condition. */
const ENDED_UNSPENT = `w.close_reason = 'ended' and w.released > 0 and w.closed_at >= :since`

const NEWEST_PLAN = query<{ newest: bigint | null }>('select max(plan_id) as newest from plans')
const PLANS_BETWEEN = query<PlanRow>(
  `select p.tenant_id, t.environment, p.status, count(*) as n,
     min(case when p.status = 'active' and p.smart_timing_enabled = 1 then p.created_at end) as timed_since
   from plans p join tenants t on t.tenant_id = p.tenant_id
   where p.plan_id > :from and p.plan_id <= :to group by p.tenant_id, t.environment, p.status`,
)
const UNSPENT_AFTER = query<UnspentRow>(
  `select w.closed_at, w.window_id, w.released, p.partner_plan_id, t.*
   from windows w join plans p on p.plan_id = w.plan_id join tenants t on t.tenant_id = p.tenant_id
   where ${ENDED_UNSPENT} and (w.closed_at, w.window_id) > (:closed_at, :window_id)
     -- One that was brought back has a later window in its own time, which has the money.
     and not exists (
       select 1 from windows n where n.plan_id = w.plan_id and n.window_id > w.window_id and n.window_start < w.window_end)
   order by w.closed_at, w.window_id limit :limit`,
)

export function stockTaker(base: Base): MonitoringStore['takeStock'] {
  async function countPlans(): Promise<Pick<Stock, 'plans' | 'plansSince'>> {
    const none = (): PlanCounts => ({ active: 0, paused: 0, cancelled: 0 })
    const plans = { test: none(), live: none() }
    const plansSince = new Map<number, Instant>()
    const newest = (await base.look((tx) => tx.get(NEWEST_PLAN)))?.newest ?? 0n
    for (let from = 0n; from < newest; from += BigInt(PAGE_ROWS)) {
      const rows = await base.look((tx) => tx.all(PLANS_BETWEEN, { from, to: from + BigInt(PAGE_ROWS) }))
      for (const { tenant_id, environment, status, n, timed_since } of rows) {
        plans[environment][status] += Number(n)
        const since = instantOrNull(timed_since)
        if (environment === 'test' || since === null) continue
        const tenantId = Number(tenant_id)
        plansSince.set(tenantId, earlier(since, plansSince.get(tenantId) ?? since))
      }
      await breathe()
    }
    return { plans, plansSince }
  }

  async function listUnspent(since: Instant): Promise<UnspentWindows[]> {
    const found = new Map<number, UnspentPlans>()
    let after = { closed_at: BigInt(since) - 1n, window_id: -1n }
    for (;;) {
      const rows = await base.look((tx) => tx.all(UNSPENT_AFTER, { since, ...after, limit: PAGE_ROWS }))
      for (const row of rows) {
        // In a test environment no real money was left unspent.
        if (row.environment === 'test') continue
        const tenant = tenantOf(row)
        const { windows, byPlan } = found.get(tenant.tenantId) ?? { windows: 0, byPlan: new Map() }
        byPlan.set(row.partner_plan_id, (byPlan.get(row.partner_plan_id) ?? 0n) + row.released)
        found.set(tenant.tenantId, { tenant, windows: windows + 1, byPlan })
      }
      const last = rows.at(-1)
      if (rows.length < PAGE_ROWS || last === undefined) break
      after = last
      await breathe()
    }
    return [...found.values()].map(unspentOf).sort((a, b) => a.tenant.tenantId - b.tenant.tenantId)
  }

  return async (now) => ({
    ...(await countPlans()),
    unspent: await listUnspent(plus(now, -UNSPENT_DAYS * DAY_MS)),
  })
}

/** The amounts that the plans of a tenant left unspent. */
type UnspentPlans = Pick<UnspentWindows, 'tenant' | 'windows'> & { byPlan: Map<string, bigint> }

/** A tenant's entry has the name of the plan that left the most. */
function unspentOf({ tenant, windows, byPlan }: UnspentPlans): UnspentWindows {
  let [released, worst] = [ZERO_USD, { partnerPlanId: '', released: ZERO_USD }]
  for (const [partnerPlanId, usd] of byPlan as Map<string, Usd>) {
    released = (released + usd) as Usd
    if (usd > worst.released) worst = { partnerPlanId, released: usd }
  }
  return { tenant, windows, released, worst }
}

// The recorded passes, and since when plans have waited for one: the facts that decide whether the scheduler is late.

const LATEST = query('select at from ticks order by tick_id desc limit :limit', atOf)
const NEWEST_SCHEDULE = query<{ newest: bigint | null }>('select max(plan_id) as newest from schedules')

/** When the first awake plan of a range was created. `schedules` is the table `s`, with a store's own additions. */
export const firstAwake = (schedules: string): Query<Instant> =>
  query(
    `select p.created_at as at from ${schedules} join plans p on p.plan_id = s.plan_id
       join tenants t on t.tenant_id = p.tenant_id
     where s.plan_id > :from and s.plan_id <= :to and s.awake = 1 and ${IS_LIVE}
     order by s.plan_id limit 1`,
    atOf,
  )

function schedulerReader(base: Base, first: ReturnType<typeof firstAwake>): MonitoringStore['readScheduler'] {
  /**
   * Plan ids follow the order of creation, so the first awake plan is the earliest. It is usually near the start. Where
   * many plans before it sleep or are in test environments, they are skipped page by page.
   */
  async function findWaitingSince(): Promise<Instant | null> {
    const newest = (await base.look((tx) => tx.get(NEWEST_SCHEDULE)))?.newest ?? 0n
    for (let from = 0n; from < newest; from += BigInt(PAGE_ROWS)) {
      const found = await base.look((tx) => tx.get(first, { from, to: from + BigInt(PAGE_ROWS) }))
      if (found !== undefined) return found
      await breathe()
    }
    return null
  }

  return async () => {
    const [latestAt, lastFinishedAt = null] = await base.read((tx) =>
      tx.together(tx.all(LATEST, { limit: LATENESS_PASSES }), tx.get(NEWEST_FINISHED_PASS)),
    )
    return { latestAt, lastFinishedAt, waitingSince: await findWaitingSince() }
  }
}

// The backlog: open and due executions of each tenant, summed for each environment.

type OpenRow = {
  tenant_id: bigint
  environment: Environment
  open: bigint
  due: bigint
  oldest_at: bigint | null
}

const IS_DUE = `r.status = 'active' and ${unleasedAt(OWN_NOW)}`
/** Open executions of every tenant at `:now`, along their index. A disabled partner's are not due: it cannot poll. */
const OPEN_BY_TENANT = query(
  `select e.tenant_id, t.environment, count(*) as open, count(*) filter (where ${IS_DUE}) as due,
     min(e.created_at) filter (where ${IS_DUE}) as oldest_at
   from partners r cross join tenants t cross join executions e
     left join sandboxes s on s.tenant_id = e.tenant_id
   where t.partner_slug = r.partner_slug and e.tenant_id = t.tenant_id and ${IS_OPEN} group by e.tenant_id, t.environment`,
  (row: OpenRow) => ({
    tenantId: Number(row.tenant_id),
    environment: row.environment,
    open: Number(row.open),
    due: Number(row.due),
    oldestDueAt: instantOrNull(row.oldest_at),
  }),
)

const backlogReader =
  (base: Base): MonitoringStore['readBacklog'] =>
  async (now: Instant) => {
    const none = (): Backlog => ({ open: 0, due: 0, oldestDueAt: null })
    const backlog = { test: none(), live: none() }
    const tenants = await base.look((tx) => tx.all(OPEN_BY_TENANT, { now }))
    for (const { environment, open, due, oldestDueAt } of tenants) {
      const sum = backlog[environment]
      sum.open += open
      sum.due += due
      if (oldestDueAt !== null) sum.oldestDueAt = earlier(oldestDueAt, sum.oldestDueAt ?? oldestDueAt)
    }
    return backlog
  }

const PASSES_AFTER = query(
  'select tick_id, at, finished_at from ticks where tick_id > :after order by tick_id',
  (row: { tick_id: bigint; at: bigint; finished_at: bigint | null }) => ({
    passId: Number(row.tick_id),
    at: instant(row.at),
    finishedAt: instantOrNull(row.finished_at),
  }),
)
/** At most one row a tenant. */
const WEBHOOKS = query(
  `select t.environment, h.status,
     case when h.consecutive_failures > 0 then 'failed' when h.last_delivered_at is not null then 'delivered' end
       as last,
     count(*) as count
   from webhooks h join tenants t on t.tenant_id = h.tenant_id group by 1, 2, 3`,
  (row: Omit<WebhookCount, 'count'> & { count: bigint }) => ({ ...row, count: Number(row.count) }),
)

export const monitoringReader = (base: Base, own: OwnVitals) =>
  ({
    readScheduler: schedulerReader(base, own.firstAwake),
    readBacklog: backlogReader(base),
    takeStock: stockTaker(base),
    readVitals: vitalsReader(base, own),

    listPassesAfter: (passId) => base.look((tx) => tx.all(PASSES_AFTER, { after: passId })),
    countWebhooks: () => base.look((tx) => tx.all(WEBHOOKS)),
  }) satisfies Partial<MonitoringStore>
