// An export as the command writes it, as one text.

import { csvHeader, csvRow } from '../../../src/billing/columns.ts'
import { EXPORTS, type ReportKind } from '../../../src/billing/export.ts'
import type { FixedPeriod } from '../../../src/core/month.ts'
import { periodOf } from '../../../src/core/month.ts'
import type { Store } from '../../../src/store/store.ts'

export async function exportText(
  store: Store,
  { month, report }: { month: string; report: ReportKind },
): Promise<string> {
  return textOf(store, await store.fixPeriod(periodOf(month), null), report)
}

/** The same of a period that is fixed already. */
export async function textOf(store: Store, period: FixedPeriod, report: ReportKind): Promise<string> {
  const filter = { slug: null, environment: null }
  const { columns, pages } = EXPORTS[report]
  let text = csvHeader(columns)
  for await (const page of pages({ store, period, filter })) {
    for (const row of page) text += csvRow(columns, row)
  }
  return text
}
