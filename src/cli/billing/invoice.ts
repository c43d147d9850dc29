// billing invoice: one partner's month as a page that can be sent.

import { createHash } from 'node:crypto'
import { adjustmentLineJson, adjustmentPages, type ExportScope } from '../../billing/export.ts'
import { HTML } from '../../billing/invoice/html.ts'
import { type Evidence, type Invoice, invoiceJson, numberOf } from '../../billing/invoice/invoice.ts'
import { MARKDOWN } from '../../billing/invoice/markdown.ts'
import { adjustmentCells, type Layout, wordsOf } from '../../billing/invoice/words.ts'
import { bill } from '../../billing/statement.ts'
import { formatUsd, type Usd } from '../../core/money.ts'
import { periodOf } from '../../core/month.ts'
import { Problem } from '../../core/problem.ts'
import type { Store } from '../../store/store.ts'
import type { Cli } from '../context.ts'
import { tenantNamed } from '../find.ts'
import { note, print } from '../terminal/print.ts'
import { refuseTarget, type Target, textOf, writeTo } from './export-file.ts'
import { fixPeriodFor, noteStage } from './period.ts'
import { readParties } from './settings.ts'

export type InvoiceFormat = 'html' | 'md' | 'json'
export type InvoiceOptions = Target & {
  partner: string
  month: string
  format: InvoiceFormat
  settings?: string
}

export async function writeInvoice(cli: Cli, store: Store, options: InvoiceOptions): Promise<void> {
  const { partner: slug, month, format, settings, output } = options
  refuseTarget(cli, options)
  const parties = settings === undefined ? null : readParties(settings, { month, slug })
  const tenant = await tenantNamed(store, slug, 'live')
  const filter = { slug, environment: 'live' } as const
  if ((await store.listTenants(filter, periodOf(month).end)).length === 0) {
    throw new Problem(
      'partner_not_found',
      `There was no partner ${slug} yet in ${month}: nothing is owed for it.`,
    )
  }
  const period = await fixPeriodFor(cli, store, { month, filter })
  noteStage(cli, period)
  if (parties === null) note(cli, 'Without --settings the invoice has no issuer and no address.')
  const scope = { store, period, filter }
  const { statement } = await bill(store, tenant, period)
  const invoice: Invoice = {
    statement,
    period,
    parties,
    adjusted: await sumAdjustments(scope),
    evidence: period.final ? await evidenceOf(scope, slug) : null,
  }
  await writeTo(
    cli,
    options,
    format === 'json' ? jsonOf(scope, invoice) : pageOf(scope, invoice, LAYOUTS[format]),
  )
  if (output === null) return
  const number = numberOf(statement)
  const total = formatUsd(statement.fees.total)
  const done = { file: output, invoice_number: number, total_fee_usd: total, final: period.final }
  if (cli.globals().json) print(cli, done, () => '')
  else note(cli, `Invoice ${number} of ${total} USD in ${output}.`)
}

const LAYOUTS: Record<Exclude<InvoiceFormat, 'json'>, Layout> = { html: HTML, md: MARKDOWN }

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
async function evidenceOf(
  { store, period, filter }: ExportScope & { store: Store },
  slug: string,
): Promise<Evidence> {
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

async function* pageOf(scope: ExportScope, invoice: Invoice, layout: Layout): AsyncGenerator<string> {
  const words = wordsOf(invoice)
  const hasAdjustments = invoice.adjusted.count > 0
  yield layout.head(words, hasAdjustments)
  for await (const page of adjustmentPages(scope))
    yield page.map((line) => layout.adjustment(adjustmentCells(line))).join('')
  yield layout.foot(words, hasAdjustments)
}

async function* jsonOf(scope: ExportScope, invoice: Invoice): AsyncGenerator<string> {
  yield `${JSON.stringify(invoiceJson(invoice)).slice(0, -1)},"adjustments":[`
  let separator = ''
  for await (const page of adjustmentPages(scope)) {
    for (const line of page) {
      yield separator + JSON.stringify(adjustmentLineJson(line))
      separator = ','
    }
  }
  yield ']}\n'
}
