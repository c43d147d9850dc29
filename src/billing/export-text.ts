// An export as text: the same bytes to a pipe, to a file and over HTTP.

import type { FixedPeriod } from '../core/report-period.ts'
import type { TenantFilter } from '../store/partners.ts'
import { BOM, csvHeader, csvRow, type Row } from './csv.ts'
import { EXPORTS, type ExportScope, type ReportKind } from './export.ts'
import { createTotals } from './totals.ts'

export type Form = { report: ReportKind; format: 'csv' | 'json'; bom?: boolean; totals?: boolean }

/** What an export reads: each month as its period was fixed. */
export type Reading = { store: ExportScope['store']; periods: readonly FixedPeriod[]; filter: TenantFilter }

/** Text gathered before it is written: a write for every row would be slow. */
const CHUNK_CHARS = 64 * 1024

/** An export as text, in pieces: month after month under one header, and a last row of totals if asked for. */
export async function* textOf(reading: Reading, form: Form): AsyncGenerator<{ text: string; rows: number }> {
  const { columns } = EXPORTS[form.report]
  const json = form.format === 'json'
  let text = (form.bom ? BOM : '') + (json ? '[' : csvHeader(columns))
  let pending = 0
  let first = true
  for await (const page of pagesOf(reading, form)) {
    for (const row of page) {
      text += json ? `${first ? '' : ',\n'}${JSON.stringify(row)}` : csvRow(columns, row)
      first = false
      pending += 1
    }
    if (text.length < CHUNK_CHARS) continue
    yield { text, rows: pending }
    text = ''
    pending = 0
  }
  yield { text: text + (json ? ']\n' : ''), rows: pending }
}

async function* pagesOf(
  { store, periods, filter }: Reading,
  { report, totals: asked }: Form,
): AsyncGenerator<Iterable<Row>> {
  const { columns, pages } = EXPORTS[report]
  const totals = asked ? createTotals(columns.map(({ name }) => name)) : null
  for (const period of periods) {
    for await (const page of pages({ store, period, filter })) yield totals ? totals.adding(page) : page
  }
  if (totals) yield [totals.row()]
}
