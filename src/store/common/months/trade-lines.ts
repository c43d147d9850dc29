// The lines of a trades export: confirmations and adjustments, in one order, page by page.

import type { Instant } from '../../../core/instant.ts'
import type { LinePlace, MonthStore, TradeLine } from '../../months.ts'
import { type AdjustmentRow, adjustmentOf } from '../../rows/adjustment.ts'
import { reportOf } from '../../rows/confirmation-report.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { TradeRow } from '../../rows/trade.ts'
import { OF_TENANT } from '../../sql/which-tenants.ts'
import { ask, type Params, type Reader, sql } from '../reader.ts'
import { IN_PERIOD } from './active-users-and-volume.ts'

const COUNT = sql<{ n: bigint }>(
  `select cast(sum(x.n) as bigint) as n from (
     select count(*) as n from trades d join tenants t on t.tenant_id = d.tenant_id
     where ${IN_PERIOD} and ${OF_TENANT}
     union all select count(*) from adjustments d join tenants t on t.tenant_id = d.tenant_id
     where ${IN_PERIOD} and ${OF_TENANT}) x`,
)

/** The lines of the tenants `t` that `scope` lets through. */
const linesOf = (scope: string) => ({
  trades: sql<TradeLineRow>(
    `select d.execution_id, d.recorded_at, d.received_at, d.partner_order_id, d.status, d.usd_amount, d.btc_amount,
       d.execution_price, d.partner_fee_usd, d.executed_at, d.failure_reason,
       t.tenant_id, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id
     from trades d join tenants t on t.tenant_id = d.tenant_id join users u on u.user_id = d.user_id
       join plans p on p.plan_id = d.plan_id
     where (d.recorded_at, d.execution_id) > (:at, :id) and d.recorded_at < :end and ${scope}
     order by d.recorded_at, d.execution_id limit :limit`,
  ),
  adjustments: sql<AdjustmentLineRow>(
    `select a.*, d.partner_order_id as trade_order_id, t.partner_slug, t.environment, u.partner_user_id, p.partner_plan_id
     from adjustments a join trades d on d.execution_id = a.execution_id
       join tenants t on t.tenant_id = a.tenant_id join users u on u.user_id = a.user_id
       join plans p on p.plan_id = a.plan_id
     where (a.recorded_at, a.execution_id, a.adjustment_id) > (:at, :id, :number) and a.recorded_at < :end
       and ${scope}
     order by a.recorded_at, a.execution_id, a.adjustment_id limit :limit`,
  ),
})
const OF_MANY = linesOf(OF_TENANT)
const OF_ONE = linesOf('t.tenant_id = :tenant')

export function tradeLines(
  reader: Reader,
): Pick<MonthStore, 'readTradeLines' | 'readTenantLines' | 'countTradeLines'> {
  async function read(lines: typeof OF_MANY, whose: Params, after: LinePlace, limit: number) {
    // A single lower bound, so that a page begins at its own place in the index and not at the start of the month.
    const params = { ...whose, at: after.recordedAt, id: after.executionId, number: after.number, limit }
    // A trade comes before its adjustments, so that one under the last line's key has been read already.
    const [trades, adjustments] = await reader.together<[TradeLineRow, AdjustmentLineRow]>(
      ask(lines.trades, params),
      ask(lines.adjustments, params),
    )
    return merged(trades.map(tradeLineOf), adjustments.map(adjustmentLineOf)).slice(0, limit)
  }
  return {
    readTradeLines: ({ start, end }, filter, { after, limit }) =>
      read(OF_MANY, { ...filter, end }, after ?? beginningOf(start), limit),

    readTenantLines: ({ tenantId }, { start, end }, { after, limit }) =>
      read(OF_ONE, { tenant: tenantId, end }, after ?? beginningOf(start), limit),

    countTradeLines: async ({ start, end }, filter) =>
      Number((await reader.get(COUNT, { ...filter, start, end }))?.n),
  }
}

const beginningOf = (start: Instant): LinePlace => ({ recordedAt: start, executionId: '', number: 0 })

export type LineNames = TenantRow & { partner_user_id: string; partner_plan_id: string }
type TradeLineRow = TradeRow & LineNames
type AdjustmentLineRow = AdjustmentRow & LineNames & { trade_order_id: string }

/** Where a line belongs, and the names a reader knows it by. */
export const lineOf = (
  row: LineNames & { execution_id: string; recorded_at: bigint },
): Omit<TradeLine, 'entry' | 'number'> => ({
  tenant: tenantOf(row),
  executionId: row.execution_id as TradeLine['executionId'],
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  recordedAt: instant(row.recorded_at),
})

const tradeLineOf = (row: TradeLineRow): TradeLine => ({
  ...lineOf(row),
  number: 0,
  entry: { kind: 'trade', report: reportOf(row), receivedAt: instantOrNull(row.received_at) },
})

const adjustmentLineOf = (row: AdjustmentLineRow): TradeLine => ({
  ...lineOf(row),
  number: Number(row.adjustment_id),
  entry: {
    kind: 'adjustment',
    partnerOrderId: row.partner_order_id ?? row.trade_order_id,
    adjustment: adjustmentOf(row),
  },
})

/** Both in the order of an export. Ids are ASCII: comparing them here is comparing them as a store does. */
function merged(trades: TradeLine[], adjustments: TradeLine[]): TradeLine[] {
  if (adjustments.length === 0) return trades
  // The sort is stable: of equal keys the trade stays before its adjustments, and those in their order.
  return [...trades, ...adjustments].sort(
    (a, b) =>
      a.recordedAt - b.recordedAt ||
      (a.executionId < b.executionId ? -1 : a.executionId > b.executionId ? 1 : 0),
  )
}
