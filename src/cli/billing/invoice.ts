// billing invoice: a partner's month, those of all partners, or a credit note, as pages that can be sent.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { issuedJson } from '../../billing/export.ts'
import {
  creditPage,
  type Invoice,
  invoiceOf,
  type Layout,
  numberOf,
  type OrdersScope,
  orderLineJson,
  orderPages,
  pageOf,
  partiesOf,
} from '../../billing/invoice.ts'
import { HTML, invoiceJson, MARKDOWN } from '../../billing/invoice-print.ts'
import { periodOf } from '../../core/month.ts'
import type { Tenant } from '../../core/partner.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import type { Store } from '../../store/store.ts'
import { tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { note, print } from '../terminal.ts'
import { presentMonth } from './months.ts'
import { collectOften, fixPeriodFor, noteStage, refuseTarget, type Target, writeTo } from './reports.ts'
import { readSettings, type Settings } from './settings.ts'

export type InvoiceFormat = 'html' | 'md' | 'json'
export type InvoiceOptions = Target & {
  partner?: string
  month?: string
  number?: string
  outputDir?: string
  format: InvoiceFormat
  settings?: string
}

export async function writeInvoice(cli: Cli, store: Store, options: InvoiceOptions): Promise<void> {
  const { partner, month, number, outputDir, settings: file } = options
  if (number !== undefined) return writeNumbered(cli, store, { ...options, number })
  if (month === undefined) throw new Problem('usage', 'Give --month, or --number of what was issued.')
  const settings = file === undefined ? null : readSettings(file)
  if (outputDir !== undefined) {
    await writeAll(cli, store, { ...options, month, outputDir, settings })
    return
  }
  if (partner === undefined)
    throw new Problem('usage', 'Give --partner, or --output-dir for the invoices of all partners.')
  await refuseTarget(cli, options)
  const drawn = await drawUp(cli, store, { slug: partner, month, settings })
  await writeOne(cli, options, drawn)
}

/** One that was issued, by its number: an invoice of its month, or a credit note. */
async function writeNumbered(
  cli: Cli,
  store: Store,
  { number, ...options }: InvoiceOptions & { number: string },
): Promise<void> {
  const { partner, month, settings, outputDir, format } = options
  if ([partner, month, settings, outputDir].some((given) => given !== undefined))
    throw new Problem(
      'usage',
      'A number names one page with its own settings: --number goes without --partner, --month, --settings and --output-dir.',
    )
  await refuseTarget(cli, options)
  const issued = await store.findInvoice(number)
  if (!issued) throw notFound('invoice', number)
  if (issued.corrects === null) {
    const of = { slug: issued.partnerSlug, month: issued.month, settings: null }
    await writeOne(cli, options, await drawUp(cli, store, of))
    return
  }
  const invoice = await store.findInvoice(issued.corrects)
  if (!invoice) throw notFound('invoice', issued.corrects)
  const text =
    format === 'json'
      ? `${JSON.stringify({ ...issuedJson(issued), ...partiesOf(issued) })}\n`
      : creditPage(issued, invoice, LAYOUTS[format])
  await writeTo(
    cli,
    options,
    (async function* () {
      yield text
    })(),
  )
  if (options.output === null) return
  const done = { file: options.output, ...issuedJson(issued) }
  if (cli.globals().json) print(cli, done, () => '')
  else note(cli, `Credit note ${number} of ${done.total_usd} USD in ${options.output}.`)
}

/** Those of all partners that owe something, each in a file of its own. */
async function writeAll(
  cli: Cli,
  store: Store,
  asked: Omit<InvoiceOptions, 'settings'> & { month: string; outputDir: string; settings: Settings | null },
): Promise<void> {
  const { partner, month, outputDir, format, settings } = asked
  const filter = { slug: partner ?? null, environment: 'live' } as const
  const drawn: Drawn[] = []
  const unbilled: string[] = []
  for (const { partnerSlug: slug } of await store.listTenants(filter, periodOf(month).end)) {
    const one = await drawUp(cli, store, {
      slug,
      month,
      settings,
      isQuiet: drawn.length + unbilled.length > 0,
    })
    if (one.invoice.statement.fees.total > 0n) drawn.push(one)
    else unbilled.push(slug)
  }
  const targets = drawn.map(({ tenant }) => ({
    ...asked,
    output: join(outputDir, `${tenant.partnerSlug}-${month}.${format}`),
  }))
  mkdirSync(outputDir, { recursive: true })
  for (const target of targets) await refuseTarget(cli, target)
  const done = []
  for (const [at, one] of drawn.entries()) {
    const target = targets[at]
    if (!target) throw new Error('each has a file')
    await writePage(cli, target, one)
    done.push(doneJson(target.output, one))
  }
  if (unbilled.length > 0) note(cli, `Nothing is owed by ${unbilled.join(', ')}.`)
  if (cli.globals().json) print(cli, done, () => '')
  else note(cli, `${counted(done.length, 'invoice')} written to ${outputDir}`)
}

type Drawn = { tenant: Tenant; scope: OrdersScope; invoice: Invoice }
type Asked = { slug: string; month: string; settings: Settings | null; isQuiet?: boolean }

/** An invoice as it is to be printed. Throws what says why there is none. */
async function drawUp(cli: Cli, store: Store, { slug, month, settings, isQuiet }: Asked): Promise<Drawn> {
  collectOften()
  const parties = settings?.parties({ month, slug }) ?? null
  const tenant = await tenantNamed(store, slug, 'live')
  const filter = { slug, environment: 'live' } as const
  if ((await store.listTenants(filter, periodOf(month).end)).length === 0) {
    throw new Problem(
      'partner_not_found',
      `There was no partner ${slug} yet in ${month}: nothing is owed for it.`,
    )
  }
  const period = await fixPeriodFor(cli, store, { month, filter })
  if (!isQuiet) noteStage(cli, period)
  const scope = { store, period, filter }
  const isNumbered = settings !== null && settings.numbers(await presentMonth(store)) !== null
  const invoice = await invoiceOf(scope, tenant, { parties, isNumbered })
  if (!isQuiet) noteParties(cli, invoice, parties !== null)
  return { tenant, scope, invoice }
}

function noteParties(cli: Cli, { parties, issued, isDraft }: Invoice, areGiven: boolean): void {
  if (parties === null) note(cli, 'Without --settings the invoice has no issuer and no address.')
  if (issued && areGiven)
    note(cli, `${issued.number} was issued: names, addresses and tax are those of then.`)
  if (isDraft) note(cli, 'A draft: tranche billing issue gives the invoice its number.')
}

async function writeOne(cli: Cli, options: Printing, drawn: Drawn): Promise<void> {
  await writePage(cli, options, drawn)
  if (options.output === null) return
  const done = doneJson(options.output, drawn)
  const { invoice_number: number, total_usd: total } = done
  const what =
    number !== null
      ? `Invoice ${number}`
      : drawn.invoice.isDraft
        ? 'Draft of an invoice'
        : 'Provisional invoice'
  if (cli.globals().json) print(cli, done, () => '')
  else note(cli, `${what} of ${total} USD in ${options.output}.`)
}

type Printing = Target & Pick<InvoiceOptions, 'format'>

const writePage = (cli: Cli, options: Printing, { scope, invoice }: Drawn): Promise<void> =>
  writeTo(
    cli,
    options,
    options.format === 'json' ? jsonOf(scope, invoice) : pageOf(scope, invoice, LAYOUTS[options.format]),
  )

function doneJson(file: string, { invoice }: Drawn) {
  const { total_fee_usd, tax_usd, total_usd, final } = invoiceJson(invoice)
  return { file, invoice_number: numberOf(invoice), total_fee_usd, final, tax_usd, total_usd }
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
