// billing invoice, issue, credit and issued. An invoice is a partner's month, the months of all partners, or a credit
// note, as pages that can be sent.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type ColumnOf, withTotal } from '../../billing/columns.ts'
import type { Row } from '../../billing/csv.ts'
import { adjustmentPages, issuedJson, issuedPages } from '../../billing/export.ts'
import {
  creditPage,
  detailsOf,
  drawCredit,
  type Invoice,
  invoiceOf,
  invoiceText,
  type Layout,
  numberOf,
  type OrdersScope,
  orderLineJson,
  orderPages,
  type Parties,
  partiesOf,
} from '../../billing/invoice.ts'
import { HTML, invoiceJson, MARKDOWN } from '../../billing/invoice-layouts.ts'
import { bill } from '../../billing/statement.ts'
import type { Statement } from '../../core/fees.ts'
import { type Issued, lacksOf, type Series, taxOf } from '../../core/invoice.ts'
import { formatUsd, type Usd, usd } from '../../core/money.ts'
import { type FixedPeriod, periodOf } from '../../core/month.ts'
import type { Tenant } from '../../core/partner.ts'
import { notFound, Problem, usage } from '../../core/problem.ts'
import { counted } from '../../core/text.ts'
import { type Instant, LATEST, monthOf } from '../../core/time.ts'
import type { Drawn, Store, TenantFilter } from '../../store/store.ts'
import { auditEntry, commandLine, tenantNamed } from '../command.ts'
import type { Cli } from '../context.ts'
import { type Column, confirmOnTerminal, note, print, printWritten, renderTable, warn } from '../terminal.ts'
import { type Months, presentMonth, spellMonths } from './months.ts'
import {
  type Covered,
  collectOften,
  fixPeriodFor,
  fixPeriods,
  noteStages,
  refuseTarget,
  statementsOf,
  type Target,
  writeTo,
} from './reports.ts'
import type { Settings } from './settings.ts'

export type InvoiceFormat = 'html' | 'md' | 'json'
export type InvoiceOptions = Target & {
  partner?: string
  month?: string
  number?: string
  outputDir?: string
  format: InvoiceFormat
  settings: Settings | null
}

export async function writeInvoice(cli: Cli, store: Store, options: InvoiceOptions): Promise<void> {
  const { partner, month, number, outputDir, settings } = options
  if (number !== undefined) return writeNumbered(cli, store, { ...options, number })
  if (month === undefined) throw usage('Give --month, or --number of what was issued.')
  if (outputDir !== undefined) return writeAll(cli, store, { ...options, month, outputDir })
  if (partner === undefined) throw usage('Give --partner, or --output-dir for the invoices of all partners.')
  await refuseTarget(cli, options)
  await writeOne(cli, store, options, { slug: partner, month, settings })
}

async function writeNumbered(
  cli: Cli,
  store: Store,
  { number, ...options }: InvoiceOptions & { number: string },
): Promise<void> {
  const { format } = options
  await refuseTarget(cli, options)
  const issued = await store.findInvoice(number)
  if (!issued) throw notFound('invoice', number)
  if (issued.corrects === null) {
    const { partnerSlug: slug, month } = issued
    return writeOne(cli, store, options, { slug, month, settings: null })
  }
  const invoice = await store.findInvoice(issued.corrects)
  if (!invoice) throw notFound('invoice', issued.corrects)
  const text =
    format === 'json'
      ? `${JSON.stringify({ ...issuedJson(issued), ...partiesOf(issued) })}\n`
      : creditPage(issued, invoice, LAYOUTS[format])
  await writeTo(cli, options, [text])
  if (options.output === null) return
  const done = { file: options.output, ...issuedJson(issued) }
  printWritten(cli, done, `Credit note ${number} of ${done.total_usd} USD in ${options.output}.`)
}

/** The invoices of all partners that owe something, each in a file of its own. */
async function writeAll(
  cli: Cli,
  store: Store,
  options: InvoiceOptions & { month: string; outputDir: string },
): Promise<void> {
  const { partner, month, outputDir, format, settings } = options
  const filter = { slug: partner ?? null, environment: 'live' } as const
  if (partner !== undefined) await refuseUnknown(store, partner, month)
  const period = await fixPeriodFor(cli, store, { month, filter })
  const { billed, unbilled } = await billAll(store, period, filter)
  const drawn: Printable[] = []
  for (const statement of billed) {
    const parties = partiesIn(settings, statement.tenant.partnerSlug, month)
    drawn.push(await drawUp(store, period, { statement, settings, parties }))
  }
  tellAbout(cli, period, { drawn, settings })
  const pages = drawn.map((one) => ({
    one,
    target: { ...options, output: join(outputDir, `${one.tenant.partnerSlug}-${month}.${format}`) },
  }))
  if (pages.length > 0) mkdirSync(outputDir, { recursive: true })
  for (const { target } of pages) await refuseTarget(cli, target)
  for (const { one, target } of pages) await writePage(cli, target, one)
  if (unbilled.length > 0) note(cli, `Nothing is owed by ${unbilled.join(', ')}.`)
  const done = pages.map(({ one, target }) => doneJson(target.output, one))
  const words = `${counted(done.length, 'invoice')} written to ${outputDir}`
  printWritten(cli, done, done.length === 0 ? 'No invoice was written.' : words)
}

/** The statements of a month with a fee, and the partners that owe nothing: those need no settings, and no page. */
async function billAll(store: Store, period: FixedPeriod, filter: TenantFilter) {
  const statements = await statementsOf(store, period, filter)
  const owes = ({ fees }: Statement): boolean => fees.total !== 0n
  const unbilled = statements.filter((one) => !owes(one)).map(({ tenant }) => tenant.partnerSlug)
  return { billed: statements.filter(owes), unbilled }
}

type Printable = { tenant: Tenant; scope: OrdersScope; invoice: Invoice }
type Charged = { slug: string; month: string; settings: Settings | null }
type Drawing = { statement: Statement; settings: Settings | null; parties: Parties | null }

/** The invoice of one partner, with the remarks on it. Throws the reason why there is none. */
async function drawOne(cli: Cli, store: Store, { slug, month, settings }: Charged): Promise<Printable> {
  const parties = partiesIn(settings, slug, month)
  const tenant = await refuseUnknown(store, slug, month)
  const period = await fixPeriodFor(cli, store, { month, filter: { slug, environment: 'live' } })
  const { statement } = await bill(store, tenant, period)
  const drawn = await drawUp(store, period, { statement, settings, parties })
  tellAbout(cli, period, { drawn: [drawn], settings })
  return drawn
}

async function drawUp(
  store: Store,
  period: Covered,
  { statement, settings, parties }: Drawing,
): Promise<Printable> {
  collectOften()
  const { tenant } = statement
  const scope = { store, period, filter: { slug: tenant.partnerSlug, environment: 'live' } as const }
  const isNumbered = settings !== null && settings.numbers(await presentMonth(store)) !== null
  return { tenant, scope, invoice: await invoiceOf(scope, statement, { parties, isNumbered }) }
}

const partiesIn = (settings: Settings | null, slug: string, month: string): Parties | null =>
  settings?.parties({ month, slug }) ?? null

/** The live environment of a partner that existed in this month. */
async function refuseUnknown(store: Store, slug: string, month: string): Promise<Tenant> {
  const tenant = await tenantNamed(store, slug, 'live')
  if ((await store.listTenants({ slug, environment: 'live' }, periodOf(month).end)).length > 0) return tenant
  throw new Problem('partner_not_found', `Partner ${slug} did not exist in ${month}: nothing is owed.`)
}

/** Remarks on the invoices of one month, each made once. */
function tellAbout(
  cli: Cli,
  period: Covered,
  { drawn, settings }: { drawn: readonly Printable[]; settings: Settings | null },
): void {
  noteStages(cli, [period])
  const invoices = drawn.map(({ invoice }) => invoice)
  if (invoices.some(({ parties }) => parties === null))
    note(cli, 'Without --settings, the invoice has no issuer or address.')
  const issued = settings === null ? [] : invoices.flatMap(({ issued }) => issued?.number ?? [])
  if (issued.length > 0) {
    const were = issued.length === 1 ? 'was' : 'were'
    note(cli, `${issued.join(', ')} ${were} issued: names, addresses and tax are as they were then.`)
  }
  if (invoices.some(({ isDraft }) => isDraft))
    note(cli, 'A draft: tranche billing issue gives the invoice its number.')
}

async function writeOne(cli: Cli, store: Store, options: Printing, charged: Charged): Promise<void> {
  const drawn = await drawOne(cli, store, charged)
  await writePage(cli, options, drawn)
  if (options.output === null) return
  const done = doneJson(options.output, drawn)
  const unnumbered = drawn.invoice.isDraft ? 'Draft of an invoice' : 'Provisional invoice'
  const what = done.invoice_number === null ? unnumbered : `Invoice ${done.invoice_number}`
  printWritten(cli, done, `${what} of ${done.total_usd} USD in ${options.output}.`)
}

type Printing = Target & Pick<InvoiceOptions, 'format'>

const writePage = (cli: Cli, options: Printing, { scope, invoice }: Printable): Promise<void> =>
  writeTo(
    cli,
    options,
    options.format === 'json' ? jsonOf(scope, invoice) : invoiceText(scope, invoice, LAYOUTS[options.format]),
  )

function doneJson(file: string, { invoice }: Printable) {
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

// billing issue, credit and issued: invoices get their numbers, credit notes correct them, and an index has both.

export type IssueOptions = { month: string; partner?: string; settings: Settings }

type ToIssue = { slug: string; month: string } & Drawn

/** Numbers the invoices of a month, in the order of the partners; safe to repeat. */
export async function issueInvoices(cli: Cli, store: Store, options: IssueOptions): Promise<void> {
  const { month, partner, settings } = options
  const series = seriesOf(settings, await presentMonth(store))
  const filter = { slug: partner ?? null, environment: 'live' } as const
  const period = await fixPeriodFor(cli, store, { month, filter })
  if (!period.final)
    throw new Problem(
      'invoice_conflict',
      `${month} can still change: only a month that is final can be invoiced.`,
    )
  const { billed, unbilled } = await billAll(store, period, filter)
  const drawn = billed.map(({ tenant, fees }): ToIssue => {
    const whose = { slug: tenant.partnerSlug, month }
    const parties = settings.parties(whose)
    return { ...whose, net: fees.total, tax: taxOf(fees.total, parties.tax), details: detailsOf(parties) }
  })
  refuseLacks(settings, drawn)
  let left = drawn.length
  for (const { slug } of drawn) if (await store.findInvoiceOf(slug, month)) left -= 1
  if (left > 0)
    await confirmOnTerminal(
      cli,
      `Give numbers to ${counted(left, 'invoice')} of ${month}, ${series.prefix}...? They are given once.`,
    )
  const rows = []
  for (const invoice of drawn) {
    const { issued, isNew } = await store.issueInvoice(invoice, series, (numbered) =>
      entryOf(cli, 'billing.issue', numbered),
    )
    rows.push({ ...issuedJson(issued), is_new: isNew })
  }
  const table = await renderTable(COLUMNS, rows)
  print(cli, rows, () => table)
  const added = rows.filter(({ is_new }) => is_new).length
  const earlier = rows.length === added ? '' : `, ${rows.length - added} had been issued before`
  const none = unbilled.length === 0 ? '' : `; nothing is owed by ${unbilled.join(', ')}`
  note(cli, `${counted(added, 'invoice')} issued${earlier}${none}.`)
}

/** Before any number is assigned: an invoice that lacks a legal requirement would have to be credited. */
function refuseLacks(settings: Settings, drawn: readonly ToIssue[]): void {
  const lacks = drawn.flatMap(({ slug, month }) => {
    const { issuer, partner, tax } = settings.parties({ slug, month })
    return lacksOf(issuer, { ...partner, tax }).map((lack) =>
      lack.startsWith('issuer.') ? lack : `partners.${slug}.${lack}`,
    )
  })
  if (lacks.length > 0) throw settings.wrong([...new Set(lacks)].join('; '))
}

/** Numbers belong to the month in which they are assigned, so that their order is that of their dates. */
function seriesOf(settings: Settings, month: string): Series {
  const series = settings.numbers(month)
  if (series === null)
    throw settings.wrong(`issuer.numbers is missing for ${month}: it says which numbers invoices have`)
  return series
}

const entryOf = (cli: Cli, action: string, issued: Issued) =>
  auditEntry(cli, action, issued.partnerSlug, {
    invoice_number: issued.number,
    month: issued.month,
    net_usd: formatUsd(issued.net),
    tax_usd: formatUsd(issued.tax),
    ...(issued.corrects !== null && { corrects: issued.corrects, reason: partiesOf(issued).reason }),
  })

export type CreditOptions = { number: string; usd: string; reason: string; settings: Settings }

/** Issues a credit note for a part of an invoice, or for all that is left of it. */
export async function creditInvoice(cli: Cli, store: Store, options: CreditOptions): Promise<void> {
  const { number, reason, settings } = options
  const net = usd(options.usd)
  const series = seriesOf(settings, await presentMonth(store))
  const warnings = await loweredSince(store, number)
  for (const warning of warnings) warn(cli, warning)
  await confirmOnTerminal(
    cli,
    `Credit ${formatUsd(net)} USD, without tax, of ${number}? A credit note cannot be taken back.`,
  )
  const issued = await store.creditInvoice(
    number,
    series,
    (invoice, earlier) => drawCredit(invoice, { earlier, net, reason }),
    (credit) => entryOf(cli, 'billing.credit', credit),
  )
  const row = issuedJson(issued)
  const table = await renderTable(COLUMNS, [row])
  cli.streams.shownOnce?.({
    what: `the credit note ${issued.number}`,
    remedy: `it is issued, so do not credit again; \`${cli.self()} billing invoice --number ${issued.number}\` prints it.`,
  })
  print(cli, { ...row, warnings }, () => table)
}

/** Whether later corrections of an invoice's purchases have already lowered the fee of a later month. */
async function loweredSince(store: Store, number: string): Promise<string[]> {
  const invoice = await store.findInvoice(number)
  if (invoice === null) return []
  const { month, partnerSlug: slug } = invoice
  const { end } = periodOf(month)
  const after = { month, start: end, end: LATEST, final: false }
  const filter = { slug, environment: 'live' } as const
  const lowered = new Map<string, bigint>()
  for await (const page of adjustmentPages({ store, period: after, filter }))
    for (const { adjustment, original } of page) {
      if (monthOf(original.recordedAt) !== month || adjustment.usd >= 0n) continue
      const later = monthOf(adjustment.recordedAt)
      lowered.set(later, (lowered.get(later) ?? 0n) - adjustment.usd)
    }
  return [...lowered].map(
    ([later, volume]) =>
      `Corrections of purchases of ${month} have lowered the volume of ${later} by ${formatUsd(volume as Usd)} USD, and so its fee: credit nothing for them, or it is given back twice.`,
  )
}

export async function listIssued(cli: Cli, store: Store, { months, filter }: Months): Promise<void> {
  const rows: ReturnType<typeof issuedJson>[] = []
  const forgotten: Unissued[] = []
  const [first] = await store.listInvoices(EVER, { after: null, limit: 1 })
  for (const period of await fixPeriods(cli, store, { months, filter })) {
    if (period.final && first !== undefined && period.month >= first.month)
      forgotten.push(...(await unissued(store, period, filter)))
    for await (const page of issuedPages({ store, period, filter })) rows.push(...page.map(issuedJson))
  }
  const table = await renderTable(COLUMNS, withTotal('invoices', rows))
  if (rows.length > 0 || cli.globals().json) print(cli, rows, () => table)
  else
    note(
      cli,
      `Nothing was issued${filter.slug === null ? '' : ` for ${filter.slug}`} ${spellMonths(months)}.`,
    )
  noteForgotten(cli, forgotten)
}

const EVER = { slug: null, from: 0 as Instant, before: Number.MAX_SAFE_INTEGER as Instant }
const FORGOTTEN_NAMED = 10

type Unissued = { slug: string; month: string; fee: Usd }

/** A month is easily left out where invoices are issued for one partner at a time. */
function noteForgotten(cli: Cli, forgotten: readonly Unissued[]): void {
  const [oldest] = forgotten
  if (oldest === undefined) return
  const named = forgotten.slice(0, FORGOTTEN_NAMED)
  const rest = forgotten.length - named.length
  const words = named.map(({ slug, month, fee }) => `${slug} ${month} ${formatUsd(fee)} USD`).join(', ')
  const next = ['tranche', 'billing', 'issue', '--month', oldest.month, '--settings', 'FILE']
  note(cli, `Not issued: ${words}${rest > 0 ? ` and ${rest} more` : ''}; > ${commandLine(cli.self(), next)}`)
}

/** The partners that owe something for a month, and have no invoice. */
async function unissued(store: Store, period: FixedPeriod, filter: TenantFilter): Promise<Unissued[]> {
  const { month } = period
  const found: Unissued[] = []
  for (const { tenant, fees } of (await billAll(store, period, filter)).billed) {
    const { partnerSlug: slug } = tenant
    if (!(await store.findInvoiceOf(slug, month))) found.push({ slug, month, fee: fees.total })
  }
  return found
}

const COLUMNS: Column<Row<ColumnOf<'invoices'>>>[] = [
  { title: 'NUMBER', of: (row) => row.invoice_number },
  { title: 'DATE', of: (row) => row.invoice_date },
  { title: 'DUE', of: (row) => row.due_date },
  { title: 'PARTNER', of: (row) => row.partner_slug },
  { title: 'MONTH', of: (row) => row.month },
  { title: 'CORRECTS', of: (row) => row.corrects },
  { title: 'NET USD', of: (row) => row.net_usd, right: true },
  { title: 'TAX USD', of: (row) => row.tax_usd, right: true },
  { title: 'TOTAL USD', of: (row) => row.total_usd, right: true },
]
