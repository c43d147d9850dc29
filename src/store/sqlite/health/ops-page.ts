// Reads for the page of the operator: each along an index, and of a bounded number of rows.

import type { ExecutionStatus } from '../../../core/execution.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Btc, Price, Usd } from '../../../core/money.ts'
import type { OpsPageStore } from '../../ops-page.ts'
import { instant } from '../../rows/instant.ts'
import { priceOrNull } from '../../rows/price.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { Connection } from '../file/connection.ts'

/** How many open windows are looked at, at most, for the live ones among them. */
const LOOKED_AT = 20_000

export function createOpsPageStore(connection: Connection): OpsPageStore {
  const { read } = connection
  const sql = prepare(connection)

  return {
    sumTradesAfter: ({ recordedAt, executionId }, until, limit) =>
      read(() => {
        const page = { at: recordedAt, id: executionId, until, limit }
        const last = sql.lastTrade.get({ ...page, limit: limit - 1 }) ?? sql.newestTrade.get(page)
        return {
          sums: sql.tradeSums.all(page).map((row) => ({
            partnerSlug: row.partner_slug,
            filled: Number(row.filled),
            failed: Number(row.n - row.filled),
            usd: row.usd as Usd,
            btc: row.btc as Btc,
          })),
          last: last ? { recordedAt: instant(last.recorded_at), executionId: last.execution_id } : null,
        }
      }),

    listOpenWindows: (limit) =>
      read(() =>
        sql.windows.all({ limit, most: LOOKED_AT }).map((row) => ({
          tenant: tenantOf(row),
          partnerPlanId: row.partner_plan_id,
          start: instant(row.window_start),
          end: instant(row.window_end),
          budget: row.budget as Usd,
          left: row.fireable as Usd,
        })),
      ),

    listTranches: (planId, limit) =>
      read(() => {
        const rows = planId === null ? sql.latest.all({ limit }) : sql.ofPlan.all({ plan: planId, limit })
        return rows.map((row) => ({
          tenant: tenantOf(row),
          executionId: row.execution_id as ExecutionId,
          partnerPlanId: row.partner_plan_id,
          amount: row.amount_usd as Usd,
          status: row.status,
          createdAt: instant(row.created_at),
          price: priceOrNull(row.price),
        }))
      }),

    samplePrices: (since, stepMs) =>
      read(() =>
        sql.prices
          .all({ since, step: stepMs })
          .map((row) => ({ at: instant(row.at), price: row.price as Price })),
      ),
  }
}

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

const BEHIND = '(recorded_at, execution_id) > (:at, :id) and recorded_at <= :until'
const TRANCHE = 'e.execution_id, e.amount_usd, e.status, e.created_at, e.price, p.partner_plan_id, t.*'

function prepare({ db }: Connection) {
  return {
    lastTrade: db.prepare<object, PlaceRow>(
      `select recorded_at, execution_id from trades where ${BEHIND}
       order by recorded_at, execution_id limit 1 offset :limit`,
    ),
    newestTrade: db.prepare<object, PlaceRow>(
      `select recorded_at, execution_id from trades where ${BEHIND}
       order by recorded_at desc, execution_id desc limit 1`,
    ),
    tradeSums: db.prepare<object, SumRow>(
      `select t.partner_slug, count(*) as n, count(d.usd_amount) as filled,
         coalesce(sum(d.usd_amount), 0) as usd, coalesce(sum(d.btc_amount), 0) as btc
       from (select tenant_id, usd_amount, btc_amount from trades where ${BEHIND}
             order by recorded_at, execution_id limit :limit) d
       join tenants t using (tenant_id) where t.environment = 'live' group by t.partner_slug`,
    ),
    windows: db.prepare<object, WindowRow>(
      `select s.*, p.partner_plan_id, t.tenant_id, t.partner_slug, t.environment
       from (select plan_id, window_start, window_end, budget, fireable from schedules
             where awake = 1 and fireable >= floor order by window_end limit :most) s
       join plans p using (plan_id) join tenants t using (tenant_id)
       where t.environment = 'live' order by s.window_end, s.plan_id limit :limit`,
    ),
    // Tenant by tenant, so that nothing of a test environment is ever read. The latest so many of all are among the
    // latest so many of the tenants that fired last.
    latest: db.prepare<object, TrancheRow>(
      `select ${TRANCHE}
       from (select tenant_id, (select max(created_at) from executions x where x.tenant_id = l.tenant_id) as fired_at
             from tenants l where environment = 'live' order by fired_at desc limit :limit) n
         cross join executions e join plans p using (plan_id) join tenants t on t.tenant_id = n.tenant_id
       where e.execution_id in (select execution_id from executions x where x.tenant_id = n.tenant_id
                                order by created_at desc, execution_id desc limit :limit)
       order by e.created_at desc, e.execution_id desc limit :limit`,
    ),
    ofPlan: db.prepare<object, TrancheRow>(
      `select ${TRANCHE} from executions e join plans p using (plan_id) join tenants t on t.tenant_id = e.tenant_id
       where e.plan_id = :plan order by e.window_start desc, e.tranche_index desc limit :limit`,
    ),
    // SQLite takes the other columns from the row that has the maximum.
    prices: db.prepare<object, { at: bigint; price: bigint }>(
      'select max(at) as at, price from prices where at >= :since group by at / :step order by at',
    ),
  }
}
