// An invoice drawn from what is on record: the statement of the month, its adjustments, and the checksum of its trades.

import { createHash } from 'node:crypto'
import type { Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import { adjustmentPages, type ExportScope } from '../export.ts'
import { textOf } from '../export-text.ts'
import { bill } from '../statement.ts'
import type { Evidence, Invoice, Parties } from './figures.ts'
import { adjustmentCells, type Layout, wordsOf } from './printed-lines.ts'

/** The scope is the month of one live tenant. */
export async function invoiceOf(
  scope: ExportScope,
  tenant: Tenant,
  parties: Parties | null,
): Promise<Invoice> {
  const { store, period } = scope
  const { statement } = await bill(store, tenant, period)
  return {
    statement,
    period,
    parties,
    adjusted: await sumAdjustments(scope),
    evidence: period.final ? await evidenceOf(scope, tenant.partnerSlug) : null,
  }
}

async function sumAdjustments(scope: ExportScope): Promise<Invoice['adjusted']> {
  const sum = { count: 0, usd: 0n as Usd }
  for await (const page of adjustmentPages(scope)) {
    for (const { adjustment } of page) {
      sum.count += 1
      sum.usd = (sum.usd + adjustment.usd) as Usd
    }
  }
  return sum
}

/** Takes the checksum of the very bytes that the export writes. */
async function evidenceOf({ store, period, filter }: ExportScope, slug: string): Promise<Evidence> {
  const hash = createHash('sha256')
  let rows = 0
  for await (const text of textOf(
    { store, periods: [period], filter },
    { report: 'trades', format: 'csv' },
  )) {
    hash.update(text.text, 'utf8')
    rows += text.rows
  }
  return {
    command: `tranche billing export --report trades --month ${period.month} --partner ${slug} --env live`,
    rows,
    sha256: hash.digest('hex'),
  }
}

/** The invoice as a page, in pieces. */
export async function* pageOf(scope: ExportScope, invoice: Invoice, layout: Layout): AsyncGenerator<string> {
  const words = wordsOf(invoice)
  const hasAdjustments = invoice.adjusted.count > 0
  yield layout.head(words, hasAdjustments)
  for await (const page of adjustmentPages(scope))
    yield page.map((line) => layout.adjustment(adjustmentCells(line))).join('')
  yield layout.foot(words, hasAdjustments)
}
