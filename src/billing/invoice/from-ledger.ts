// An invoice drawn from what is on record: the statement of the month, its adjustments, and the checksum of its trades.

import { createHash } from 'node:crypto'
import { type Usd, ZERO_USD } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import { type OrdersScope, orderPages } from '../adjusted-orders.ts'
import type { ExportScope } from '../export.ts'
import { textOf } from '../export-text.ts'
import { bill } from '../statement.ts'
import type { Evidence, Invoice, Parties } from './figures.ts'
import { adjustmentCells, type Layout, printedChange, wordsOf } from './printed-lines.ts'

/** The scope is the month of one live tenant. */
export async function invoiceOf(
  scope: OrdersScope,
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

async function sumAdjustments(scope: OrdersScope): Promise<Invoice['adjusted']> {
  const sum: Invoice['adjusted'] = { count: 0, usd: ZERO_USD, printed: ZERO_USD }
  for await (const page of orderPages(scope)) {
    for (const { adjustment, changed } of page) {
      sum.count += 1
      sum.usd = (sum.usd + adjustment.usd) as Usd
      sum.printed = (sum.printed + printedChange(changed)) as Usd
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
export async function* pageOf(scope: OrdersScope, invoice: Invoice, layout: Layout): AsyncGenerator<string> {
  const words = wordsOf(invoice)
  const hasAdjustments = invoice.adjusted.count > 0
  yield layout.head(words, hasAdjustments)
  for await (const page of orderPages(scope))
    yield page.map((line) => layout.adjustment(adjustmentCells(line))).join('')
  yield layout.foot(hasAdjustments)
}
