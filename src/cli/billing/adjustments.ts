// billing adjustments: what was corrected in a month, why, and what it was before.

import { adjustmentPages } from '../../billing/export.ts'
import { adjustmentLineJson } from '../../billing/trade-rows.ts'
import type { AdjustmentLine } from '../../store/months.ts'
import type { TenantFilter } from '../../store/partners.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { printPages } from '../terminal/print.ts'
import type { Column } from '../terminal/table.ts'
import { fixPeriodFor, noteStage } from './month-not-final.ts'

export async function listAdjustments(
  cli: Cli,
  store: Store,
  { months, filter }: { months: readonly string[]; filter: TenantFilter },
): Promise<void> {
  const pages = (async function* (): AsyncGenerator<AdjustmentLine[]> {
    for (const month of months) {
      const period = await fixPeriodFor(cli, store, { month, filter })
      noteStage(cli, period)
      yield* adjustmentPages({ store, period, filter })
    }
  })()
  await printPages(cli, pages, { json: adjustmentLineJson, columns: COLUMNS })
}

const COLUMNS: Column<ReturnType<typeof adjustmentLineJson>>[] = [
  { title: 'NO', of: (row) => row.adjustment, right: true },
  { title: 'RECORDED', of: (row) => row.recorded_at },
  { title: 'PARTNER', of: (row) => `${row.partner_slug} ${row.environment}` },
  { title: 'USD', of: (row) => row.usd_difference, right: true },
  { title: 'BTC', of: (row) => row.btc_difference, right: true },
  { title: 'REASON', of: (row) => row.reason },
  { title: 'EXECUTION', of: (row) => row.execution_id },
  { title: 'ORDER', of: (row) => row.partner_order_id },
  {
    title: 'ORIGINALLY',
    of: (row) =>
      row.original_usd_amount === null
        ? row.original_status
        : `${row.original_usd_amount} USD for ${row.original_btc_amount} BTC`,
  },
  { title: 'CONFIRMED', of: (row) => row.original_recorded_at },
]
