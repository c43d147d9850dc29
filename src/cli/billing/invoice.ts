// billing invoice: one partner's month as a page that can be sent.

import {
  type Invoice,
  invoiceOf,
  type Layout,
  numberOf,
  type OrdersScope,
  orderLineJson,
  orderPages,
  pageOf,
} from '../../billing/invoice.ts'
import { HTML, invoiceJson, MARKDOWN } from '../../billing/invoice-print.ts'
import { formatUsd } from '../../core/money.ts'
import { periodOf } from '../../core/month.ts'
import { Problem } from '../../core/problem.ts'
import type { Store } from '../../store/store.ts'
import { tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { note, print } from '../terminal.ts'
import { collectOften, fixPeriodFor, noteStage, refuseTarget, type Target, writeTo } from './reports.ts'
import { readSettings } from './settings.ts'

export type InvoiceFormat = 'html' | 'md' | 'json'
export type InvoiceOptions = Target & {
  partner: string
  month: string
  format: InvoiceFormat
  settings?: string
}

export async function writeInvoice(cli: Cli, store: Store, options: InvoiceOptions): Promise<void> {
  const { partner: slug, month, format, settings, output } = options
  await refuseTarget(cli, options)
  collectOften()
  const parties = settings === undefined ? null : readSettings(settings).parties({ month, slug })
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
  const invoice = await invoiceOf(scope, tenant, parties)
  const { statement } = invoice
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
  else
    note(
      cli,
      `${number === null ? 'Provisional invoice' : `Invoice ${number}`} of ${total} USD in ${output}.`,
    )
}

const LAYOUTS: Record<Exclude<InvoiceFormat, 'json'>, Layout> = { html: HTML, md: MARKDOWN }

async function* jsonOf(scope: OrdersScope, invoice: Invoice): AsyncGenerator<string> {
  yield `${JSON.stringify(invoiceJson(invoice)).slice(0, -1)},"adjustments":[`
  let separator = ''
  for await (const page of orderPages(scope)) {
    for (const line of page) {
      yield separator + JSON.stringify(orderLineJson(line))
      separator = ','
    }
  }
  yield ']}\n'
}
