// Reads for the operator's page and for screens: each goes along an index and touches a bounded number of rows.

import type { ExecutionId, ExecutionStatus } from '../../core/execution.ts'
import type { Btc, Price, Usd } from '../../core/money.ts'
import type { Environment } from '../../core/partner.ts'
import type { MonitoringStore, OpsPageStore, StatusStore } from '../monitoring.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import { priceOrNull } from '../rows/ledger.ts'
import { breathe, instant, instantOrNull, PAGE_ROWS, type Query, query } from '../statement.ts'
import type { Base } from '../transaction.ts'

/** The most open windows that are read to find the live ones among them. */
const LOOKED_AT = 20_000

type PlaceRow = { recorded_at: bigint; execution_id: string }
type SumRow = { partner_slug: string; n: bigint; filled: bigint; usd: bigint; btc: bigint }
type WindowRow = TenantRow & {
  partner_plan_id: string
  window_start: bigint
  window_end: bigint
  budget: bigint
  fireable: bigint
}
type TrancheRow = TenantRow & {
  execution_id: string
  partner_plan_id: string
  amount_usd: bigint
  status: ExecutionStatus
  created_at: bigint
  price: bigint | null
}

/** The SQL that each store has of its own. */
export type OpsSql = {
  /** The latest live tranches of all, as `TRANCHE` shows them. */
  latest: Query<TrancheRow>
  /** The newest price in each `:step` since `:since`. */
  prices: Query<PricePoint>
}
type PricePoint = { at: bigint; price: bigint }

const BEHIND = '(recorded_at, execution_id) > (:at, :id) and recorded_at <= :until'
export const TRANCHE = 'e.execution_id, e.amount_usd, e.status, e.created_at, e.price, p.partner_plan_id, t.*'

const LAST_TRADE = query<PlaceRow>(
  `select recorded_at, execution_id from trades where ${BEHIND}
   order by recorded_at, execution_id limit 1 offset :before`,
)
const NEWEST_TRADE = query<PlaceRow>(
  `select recorded_at, execution_id from trades where ${BEHIND}
   order by recorded_at desc, execution_id desc limit 1`,
)
const TRADE_SUMS = query<SumRow>(
  `select t.partner_slug, count(*) as n, count(d.usd_amount) as filled,
     cast(coalesce(sum(d.usd_amount), 0) as bigint) as usd, cast(coalesce(sum(d.btc_amount), 0) as bigint) as btc
   from (select tenant_id, usd_amount, btc_amount from trades where ${BEHIND}
         order by recorded_at, execution_id limit :limit) d
   join tenants t on t.tenant_id = d.tenant_id where t.environment = 'live' group by t.partner_slug`,
)
const WINDOWS = query<WindowRow>(
  `select s.*, p.partner_plan_id, t.tenant_id, t.partner_slug, t.environment
   from (select plan_id, window_start, window_end, budget, fireable from schedules
         where awake = 1 and fireable >= floor order by window_end limit :most) s
   join plans p on p.plan_id = s.plan_id join tenants t on t.tenant_id = p.tenant_id
   where t.environment = 'live' order by s.window_end, s.plan_id limit :limit`,
)

export const createOpsPageStore = (base: Base, specific: OpsSql): OpsPageStore => ({
  async sumTradesAfter({ recordedAt, executionId }, until, limit) {
    const page = { at: recordedAt, id: executionId, until, limit, before: limit - 1 }
    const [full, newest, sums] = await base.read((tx) =>
      tx.together(tx.get(LAST_TRADE, page), tx.get(NEWEST_TRADE, page), tx.all(TRADE_SUMS, page)),
    )
    const last = full ?? newest
    return {
      sums: sums.map((row) => ({
        partnerSlug: row.partner_slug,
        filled: Number(row.filled),
        failed: Number(row.n - row.filled),
        usd: row.usd as Usd,
        btc: row.btc as Btc,
      })),
      last: last ? { recordedAt: instant(last.recorded_at), executionId: last.execution_id } : null,
    }
  },

  listOpenWindows: async (limit) =>
    (await base.look((tx) => tx.all(WINDOWS, { limit, most: LOOKED_AT }))).map((row) => ({
      tenant: tenantOf(row),
      partnerPlanId: row.partner_plan_id,
      start: instant(row.window_start),
      end: instant(row.window_end),
      budget: row.budget as Usd,
      left: row.fireable as Usd,
    })),

  listTranches: async (limit) =>
    (await base.look((tx) => tx.all(specific.latest, { limit }))).map((row) => ({
      tenant: tenantOf(row),
      executionId: row.execution_id as ExecutionId,
      partnerPlanId: row.partner_plan_id,
      amount: row.amount_usd as Usd,
      status: row.status,
      createdAt: instant(row.created_at),
      price: priceOrNull(row.price),
    })),

  samplePrices: async (span, stepMs) =>
    (await base.look((tx) => tx.all(specific.prices, { ...span, step: stepMs }))).map((row) => ({
      at: instant(row.at),
      price: row.price as Price,
    })),
})

// What a screen shows beside the vitals: the latest passes and executions and the version of the schema.

type PassRow = { at: bigint; finished_at: bigint | null; plans_evaluated: bigint; executions_created: bigint }
type LatestRow = {
  partner_slug: string
  environment: Environment
  partner_plan_id: string
  amount_usd: bigint
  status: ExecutionStatus
  created_at: bigint
}

const PASSES = query<PassRow>(
  'select at, finished_at, plans_evaluated, executions_created from ticks order by tick_id desc limit :limit',
)
// Ids grow with time, so the latest are at the end of the table.
const LATEST = query<LatestRow>(
  `select t.partner_slug, t.environment, p.partner_plan_id, e.amount_usd, e.status, e.created_at
   from (select * from executions order by execution_id desc limit :limit) e
   join plans p on p.plan_id = e.plan_id join tenants t on t.tenant_id = e.tenant_id
   order by e.execution_id desc`,
)

export const createStatusStore = (base: Base): StatusStore => ({
  async readRecent(limit) {
    const [passes, executions] = await base.read((tx) =>
      tx.together(tx.all(PASSES, { limit: limit.passes }), tx.all(LATEST, { limit: limit.executions })),
    )
    return {
      passes: passes.reverse().map((row) => ({
        at: instant(row.at),
        finishedAt: instantOrNull(row.finished_at),
        plansEvaluated: Number(row.plans_evaluated),
        executionsCreated: Number(row.executions_created),
      })),
      executions: executions.map((row) => ({
        tenant: `${row.partner_slug} ${row.environment}`,
        partnerPlanId: row.partner_plan_id,
        amount: row.amount_usd as Usd,
        status: row.status,
        createdAt: instant(row.created_at),
      })),
    }
  },
})

// How many executions there are after a mark: a count that continues from where it was last read.

type CreatedRow = { environment: Environment; n: bigint; last: ExecutionId }
export const NEWEST_EXECUTION = query<{ newest: ExecutionId | null }>(
  'select max(execution_id) as newest from executions',
)
const NEWEST_PASS = query<{ newest: bigint | null }>('select max(tick_id) as newest from ticks')
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
  const newest = async () => (await base.look((tx) => tx.get(NEWEST_EXECUTION)))?.newest ?? null
  return {
    async readMarks() {
      const executionId = await settled()
      return {
        executionId: executionId === undefined ? await newest() : executionId,
        passId: Number((await base.look((tx) => tx.get(NEWEST_PASS)))?.newest ?? 0n),
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
