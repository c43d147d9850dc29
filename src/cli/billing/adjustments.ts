// billing adjustments: what was corrected in a month or in several, why, and what it was before.

import { type OrderLine, orderLineJson, orderPages } from '../../billing/adjusted-orders.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { printPages } from '../terminal/print.ts'
import type { Column } from '../terminal/table.ts'
import { fixPeriodFor, noteStage } from './month-not-final.ts'

/** So many rows have columns of the same width. An operator makes each of them by hand: there are seldom more. */
const ROWS_TOGETHER = 1_000

export async function listAdjustments(
  cli: Cli,
  store: Store,
  { months, filter }: { months: readonly string[]; filter: TenantFilter },
): Promise<void> {
  const columns = months.length > 1 ? [MONTH, ...COLUMNS] : COLUMNS
  await printPages(cli, together(linesOf(cli, store, { months, filter })), { json: orderLineJson, columns })
}

async function* linesOf(
  cli: Cli,
  store: Store,
  { months, filter }: { months: readonly string[]; filter: TenantFilter },
): AsyncGenerator<OrderLine[]> {
  for (const month of months) {
    const period = await fixPeriodFor(cli, store, { month, filter })
    noteStage(cli, period)
    yield* orderPages({ store, period, filter })
  }
}

/** The same rows in pages as large as they may be: a page for each month would be a table for each month. */
async function* together<T>(pages: AsyncIterable<T[]>): AsyncGenerator<T[]> {
  let rows: T[] = []
  for await (const page of pages) {
    rows.push(...page)
    if (rows.length < ROWS_TOGETHER) continue
    yield rows
    rows = []
  }
  yield rows
}

type Row = ReturnType<typeof orderLineJson>

const MONTH: Column<Row> = { title: 'MONTH', of: (row) => row.recorded_at.slice(0, 'YYYY-MM'.length) }

const COLUMNS: Column<Row>[] = [
  { title: 'NO', of: (row) => row.adjustment, right: true },
  { title: 'RECORDED', of: (row) => row.recorded_at },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'USD', of: (row) => row.usd_difference, right: true },
  { title: 'BTC', of: (row) => row.btc_difference, right: true },
  { title: 'REASON', of: (row) => row.reason },
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'ORDER', of: (row) => row.orders.join(' + ') },
  { title: 'BEFORE', of: (row) => `${row.usd_amount_before} USD for ${row.btc_amount_before} BTC` },
  { title: 'AFTER', of: (row) => `${row.usd_amount} USD for ${row.btc_amount} BTC` },
  { title: 'CONFIRMED', of: (row) => row.original_recorded_at },
]
