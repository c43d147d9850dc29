// Reads for the operator's page and for screens: each goes along an index and touches a bounded number of rows.

import type { ExecutionId, ExecutionStatus } from '../../core/execution.ts'
import type { Btc, Price, Usd } from '../../core/money.ts'
import { type Environment, tenantName } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import type {
  FiredTranche,
  MonitoringStore,
  OpenWindow,
  OpsPageStore,
  StatusStore,
  TradePlace,
  TradeSum,
} from '../monitoring.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import { priceOrNull } from '../rows/ledger.ts'
import { breathe, countOf, instant, instantOrNull, PAGE_ROWS, type Query, query } from '../statement.ts'
import type { RowOf } from '../tables.ts'
import type { Base } from '../transaction.ts'

/** The most open windows that are read to find the live ones among them. */
const LOOKED_AT = 20_000

/** The SQL that each store has of its own. */
export type OpsSql = {
  /** The latest live tranches of all, as `TRANCHE` shows them. */
  latest: Query<FiredTranche>
  /** The newest price in each `:step` since `:since`. */
  prices: Query<{ at: Instant; price: Price }>
}

export const TRANCHE = 'e.execution_id, e.amount_usd, e.status, e.created_at, e.price, p.partner_plan_id, t.*'
type OfExecution = 'execution_id' | 'amount_usd' | 'status' | 'created_at' | 'price'
export const trancheOf = (
  row: TenantRow & Pick<RowOf<'executions'>, OfExecution> & { partner_plan_id: string },
): FiredTranche => ({
  tenant: tenantOf(row),
  executionId: row.execution_id as ExecutionId,
  partnerPlanId: row.partner_plan_id,
  amount: row.amount_usd as Usd,
  status: row.status as ExecutionStatus,
  createdAt: instant(row.created_at),
  price: priceOrNull(row.price),
})
export const pricePointOf = (row: { at: bigint; price: bigint }) => ({
  at: instant(row.at),
  price: row.price as Price,
})

const BEHIND = '(recorded_at, execution_id) > (:at, :id) and recorded_at <= :until'
const LAST_TRADE = query(
  `select recorded_at, execution_id from (
     select recorded_at, execution_id from trades where ${BEHIND} order by recorded_at, execution_id limit :limit) x
   order by recorded_at desc, execution_id desc limit 1`,
  (row: { recorded_at: bigint; execution_id: string }): TradePlace => ({
    recordedAt: instant(row.recorded_at),
    executionId: row.execution_id,
  }),
)
const TRADE_SUMS = query(
  `select t.partner_slug, count(*) as n, count(d.usd_amount) as filled,
     cast(coalesce(sum(d.usd_amount), 0) as bigint) as usd, cast(coalesce(sum(d.btc_amount), 0) as bigint) as btc
   from (select tenant_id, usd_amount, btc_amount from trades where ${BEHIND}
         order by recorded_at, execution_id limit :limit) d
   join tenants t on t.tenant_id = d.tenant_id where t.environment = 'live' group by t.partner_slug`,
  (row: { partner_slug: string; n: bigint; filled: bigint; usd: bigint; btc: bigint }): TradeSum => ({
    partnerSlug: row.partner_slug,
    filled: Number(row.filled),
    failed: Number(row.n - row.filled),
    usd: row.usd as Usd,
    btc: row.btc as Btc,
  }),
)
const WINDOWS = query(
  `select s.*, p.partner_plan_id, t.tenant_id, t.partner_slug, t.environment
   from (select plan_id, window_start, window_end, budget, fireable from schedules
         where awake = 1 and fireable >= floor order by window_end limit :most) s
   join plans p on p.plan_id = s.plan_id join tenants t on t.tenant_id = p.tenant_id
   where t.environment = 'live' order by s.window_end, s.plan_id limit :limit`,
  (row: TenantRow & RowOf<'schedules'> & { partner_plan_id: string }): OpenWindow => ({
    tenant: tenantOf(row),
    partnerPlanId: row.partner_plan_id,
    start: instant(row.window_start),
    end: instant(row.window_end),
    budget: row.budget as Usd,
    left: row.fireable as Usd,
  }),
)

export const createOpsPageStore = (base: Base, specific: OpsSql): OpsPageStore => ({
  async sumTradesAfter({ recordedAt, executionId }, until, limit) {
    const page = { at: recordedAt, id: executionId, until, limit }
    const [last = null, sums] = await base.read((tx) =>
      tx.together(tx.get(LAST_TRADE, page), tx.all(TRADE_SUMS, page)),
    )
    return { sums, last }
  },

  listOpenWindows: (limit) => base.look((tx) => tx.all(WINDOWS, { limit, most: LOOKED_AT })),
  listTranches: (limit) => base.look((tx) => tx.all(specific.latest, { limit })),
  samplePrices: (span, stepMs) => base.look((tx) => tx.all(specific.prices, { ...span, step: stepMs })),
})

// What a screen shows beside the vitals: the latest passes and executions and the version of the schema.

const PASSES = query('select * from ticks order by tick_id desc limit :limit', (row: RowOf<'ticks'>) => ({
  at: instant(row.at),
  finishedAt: instantOrNull(row.finished_at),
  plansEvaluated: Number(row.plans_evaluated),
  executionsCreated: Number(row.executions_created),
}))
// Ids grow with time, so the latest are at the end of the table.
const LATEST = query(
  `select ${TRANCHE} from (select * from executions order by execution_id desc limit :limit) e
   join plans p on p.plan_id = e.plan_id join tenants t on t.tenant_id = e.tenant_id
   order by e.execution_id desc`,
  trancheOf,
)

export const createStatusStore = (base: Base): StatusStore => ({
  async readRecent(limit) {
    const [passes, executions] = await base.read((tx) =>
      tx.together(tx.all(PASSES, { limit: limit.passes }), tx.all(LATEST, { limit: limit.executions })),
    )
    return {
      passes: passes.reverse(),
      executions: executions.map(({ tenant, partnerPlanId, amount, status, createdAt }) => ({
        tenant: tenantName(tenant),
        partnerPlanId,
        amount,
        status,
        createdAt,
      })),
    }
  },
})

// How many executions there are after a mark: a count that continues from where it was last read.

type CreatedRow = { environment: Environment; n: bigint; last: ExecutionId }
export const NEWEST_EXECUTION = query(
  'select max(execution_id) as newest from executions',
  (row: { newest: ExecutionId | null }) => row.newest,
)
const NEWEST_PASS = query('select coalesce(max(tick_id), 0) as n from ticks', countOf)
const CREATED = query<CreatedRow>(
  `select t.environment, count(*) as n, max(x.execution_id) as last
   from (select tenant_id, execution_id from executions
         where execution_id > :after and execution_id <= :until order by execution_id limit :limit) x
   join tenants t on t.tenant_id = x.tenant_id group by t.environment`,
)

/**
 * `settled` is the newest execution, once none can appear below it any more: null when there is none, undefined when
 * that takes too long. A count that is not settled waits for the next reading.
 */
export function marksReader(
  base: Base,
  settled: () => Promise<ExecutionId | null | undefined>,
): Pick<MonitoringStore, 'readMarks' | 'countExecutionsAfter'> {
  const newest = async () => (await base.look((tx) => tx.get(NEWEST_EXECUTION))) ?? null
  return {
    async readMarks() {
      const executionId = await settled()
      return {
        executionId: executionId === undefined ? await newest() : executionId,
        passId: (await base.look((tx) => tx.get(NEWEST_PASS))) ?? 0,
      }
    },

    async countExecutionsAfter(after) {
      const created: Record<Environment, number> = { test: 0, live: 0 }
      const until = await settled()
      let last = after
      if (!until) return { created, last }
      for (;;) {
        const rows = await base.look((tx) => tx.all(CREATED, { after: last ?? '', until, limit: PAGE_ROWS }))
        for (const { environment, n } of rows) created[environment] += Number(n)
        for (const row of rows) if (last === null || row.last > last) last = row.last
        if (rows.reduce((sum, { n }) => sum + Number(n), 0) < PAGE_ROWS) return { created, last }
        await breathe()
      }
    },
  }
}
