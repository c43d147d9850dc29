// Reads for the operator's page: each goes along an index and touches a bounded number of rows.

import type { ExecutionStatus } from '../../../core/execution.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Btc, Price, Usd } from '../../../core/money.ts'
import type { OpsPageStore } from '../../ops-page.ts'
import { instant } from '../../rows/instant.ts'
import { priceOrNull } from '../../rows/price.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { ask, type Reader, type Sql, sql } from '../reader.ts'

/** How many open windows are looked at, at most, for the live ones among them. */
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
export type TrancheRow = TenantRow & {
  execution_id: string
  partner_plan_id: string
  amount_usd: bigint
  status: ExecutionStatus
  created_at: bigint
  price: bigint | null
}

/** What a store asks in SQL of its own. */
export type OpsSql = {
  /** The latest live tranches of all, as `TRANCHE` shows them. */
  latest: Sql<TrancheRow>
  /** The newest price in each `:step` since `:since`. */
  prices: Sql<PricePoint>
}
export type PricePoint = { at: bigint; price: bigint }

const BEHIND = '(recorded_at, execution_id) > (:at, :id) and recorded_at <= :until'
export const TRANCHE = 'e.execution_id, e.amount_usd, e.status, e.created_at, e.price, p.partner_plan_id, t.*'

const LAST_TRADE = sql<PlaceRow>(
  `select recorded_at, execution_id from trades where ${BEHIND}
   order by recorded_at, execution_id limit 1 offset :before`,
)
const NEWEST_TRADE = sql<PlaceRow>(
  `select recorded_at, execution_id from trades where ${BEHIND}
   order by recorded_at desc, execution_id desc limit 1`,
)
const TRADE_SUMS = sql<SumRow>(
  `select t.partner_slug, count(*) as n, count(d.usd_amount) as filled,
     cast(coalesce(sum(d.usd_amount), 0) as bigint) as usd, cast(coalesce(sum(d.btc_amount), 0) as bigint) as btc
   from (select tenant_id, usd_amount, btc_amount from trades where ${BEHIND}
         order by recorded_at, execution_id limit :limit) d
   join tenants t on t.tenant_id = d.tenant_id where t.environment = 'live' group by t.partner_slug`,
)
const WINDOWS = sql<WindowRow>(
  `select s.*, p.partner_plan_id, t.tenant_id, t.partner_slug, t.environment
   from (select plan_id, window_start, window_end, budget, fireable from schedules
         where awake = 1 and fireable >= floor order by window_end limit :most) s
   join plans p on p.plan_id = s.plan_id join tenants t on t.tenant_id = p.tenant_id
   where t.environment = 'live' order by s.window_end, s.plan_id limit :limit`,
)
const OF_PLAN = sql<TrancheRow>(
  `select ${TRANCHE} from executions e join plans p on p.plan_id = e.plan_id
     join tenants t on t.tenant_id = e.tenant_id
   where e.plan_id = :plan order by e.window_start desc, e.tranche_index desc limit :limit`,
)

export const opsPageReader = (reader: Reader, own: OpsSql): OpsPageStore => ({
  async sumTradesAfter({ recordedAt, executionId }, until, limit) {
    const page = { at: recordedAt, id: executionId, until, limit, before: limit - 1 }
    const [full, newest, sums] = await reader.together<[PlaceRow, PlaceRow, SumRow]>(
      ask(LAST_TRADE, page),
      ask(NEWEST_TRADE, page),
      ask(TRADE_SUMS, page),
    )
    const last = full[0] ?? newest[0]
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
    (await reader.all(WINDOWS, { limit, most: LOOKED_AT })).map((row) => ({
      tenant: tenantOf(row),
      partnerPlanId: row.partner_plan_id,
      start: instant(row.window_start),
      end: instant(row.window_end),
      budget: row.budget as Usd,
      left: row.fireable as Usd,
    })),

  async listTranches(planId, limit) {
    const rows =
      planId === null ? reader.all(own.latest, { limit }) : reader.all(OF_PLAN, { plan: planId, limit })
    return (await rows).map((row) => ({
      tenant: tenantOf(row),
      executionId: row.execution_id as ExecutionId,
      partnerPlanId: row.partner_plan_id,
      amount: row.amount_usd as Usd,
      status: row.status,
      createdAt: instant(row.created_at),
      price: priceOrNull(row.price),
    }))
  },

  samplePrices: async (since, stepMs) =>
    (await reader.all(own.prices, { since, step: stepMs })).map((row) => ({
      at: instant(row.at),
      price: row.price as Price,
    })),
})
