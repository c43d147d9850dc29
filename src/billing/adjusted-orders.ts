// What the adjustments of a month changed: each with the orders that it is about, before and after.

import { type AdjustedOrders, ordersAdjusted } from '../core/adjustment.ts'
import { formatBtc, formatUsd } from '../core/money.ts'
import type { ExecutionStore } from '../store/executions.ts'
import type { AdjustmentLine } from '../store/months.ts'
import { adjustmentPages, type ExportScope } from './export.ts'
import { adjustmentLineJson } from './trade-rows.ts'

/** The scope of a report that looks up what was adjusted before. */
export type OrdersScope = ExportScope & { store: Pick<ExecutionStore, 'findExecution'> }

export type OrderLine = AdjustmentLine & { changed: AdjustedOrders }

/** The adjustments of a period, page by page, each with its orders. */
export async function* orderPages(scope: OrdersScope): AsyncGenerator<OrderLine[]> {
  for await (const page of adjustmentPages(scope)) {
    const lines: OrderLine[] = []
    for (const line of page) lines.push({ ...line, changed: await changedBy(scope.store, line) })
    yield lines
  }
}

async function changedBy(
  store: OrdersScope['store'],
  { executionId, adjustment, original }: AdjustmentLine,
): Promise<AdjustedOrders> {
  const found = await store.findExecution(executionId)
  const earlier = (found?.adjustments ?? []).filter((one) => one.adjustmentId < adjustment.adjustmentId)
  return ordersAdjusted(original, earlier, adjustment)
}

/** A line as JSON: the row of the adjustments report, and what it did to its orders. */
export const orderLineJson = ({ changed, ...line }: OrderLine) => ({
  ...adjustmentLineJson(line),
  orders: changed.orders,
  usd_amount_before: formatUsd(changed.before.usd),
  usd_amount: formatUsd(changed.after.usd),
  btc_amount_before: formatBtc(changed.before.btc),
  btc_amount: formatBtc(changed.after.btc),
})
