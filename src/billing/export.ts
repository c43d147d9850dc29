// Exports: the rows of the reports, read a few at a time, and their text.

import { createHash } from 'node:crypto'
import { executedAtOf } from '../core/confirmation.ts'
import type { Statement } from '../core/fees.ts'
import { type Issued, signed } from '../core/invoice.ts'
import { formatBtc, formatPrice, formatUsd, type Usd } from '../core/money.ts'
import { type FixedPeriod, periodOf } from '../core/month.ts'
import { DAY_MS, formatInstant, formatInstantOrNull, plus, utcDate } from '../core/time.ts'
import type { AdjustmentLine, TenantFilter, TradeLine } from '../store/store.ts'
import {
  type AnyReport,
  type ColumnOf,
  columnsOf,
  createTotals,
  csvColumnsOf,
  type ReportKind,
} from './columns.ts'
import {
  BOM,
  type CsvColumn,
  type CsvForm,
  csvHeader,
  csvRow,
  type Row,
  type Texts,
  writtenAs,
} from './csv.ts'
import {
  type BillingStore,
  bill,
  pagesAfter,
  statementJson,
  sumsByTenant,
  userLineJson,
} from './statement.ts'

/** Few, because a page is held in memory, and its read should be short. */
const ROWS_PER_PAGE = 250

export type ExportScope = { store: BillingStore; period: FixedPeriod; filter: TenantFilter }

/** Pages of rows that are made when they are read. */
type Pages<C extends string = string> = AsyncGenerator<Iterable<Row<C>>>

type Report = {
  columns: readonly CsvColumn[]
  /** Whether the report has a row for each line of a month, so that the number of rows is known before reading. */
  isOfLines: boolean
  /** In pages, because waiting for each row would take longer than reading it. */
  pages: (scope: ExportScope) => Pages
}

export const EXPORTS: Record<ReportKind, Report> & { partners: Omit<Report, 'pages'> } = {
  summary: { columns: csvColumnsOf('summary'), isOfLines: false, pages: summaryPages },
  users: { columns: csvColumnsOf('users'), isOfLines: false, pages: userPages },
  trades: { columns: csvColumnsOf('trades'), isOfLines: true, pages: tradePages },
  adjustments: { columns: csvColumnsOf('adjustments'), isOfLines: false, pages: adjustmentRowPages },
  invoices: { columns: csvColumnsOf('invoices'), isOfLines: false, pages: invoicePages },
  partners: { columns: csvColumnsOf('partners'), isOfLines: false },
}

async function* summaryPages({ store, period, filter }: ExportScope): Pages<ColumnOf<'summary'>> {
  for (const tenant of await store.listTenants(filter, periodOf(period.month).end))
    yield [statementJson((await bill(store, tenant, period)).statement)]
}

export async function sumsOfPartners(reading: Reading): Promise<Row<ColumnOf<'partners'>>[]> {
  const { store, periods, filter } = reading
  const statements: Statement[] = []
  for (const period of periods)
    for (const tenant of await store.listTenants(filter, periodOf(period.month).end))
      statements.push((await bill(store, tenant, period)).statement)
  return sumsByTenant(statements)
}

async function* userPages({ store, period, filter }: ExportScope): Pages<ColumnOf<'users'>> {
  for (const tenant of await store.listTenants(filter, periodOf(period.month).end)) {
    const { users } = await bill(store, tenant, period)
    const whose = { month: period.month, partner_slug: tenant.partnerSlug, environment: tenant.environment }
    yield rowsOf(users, (user) => ({ ...whose, ...userLineJson(user) }))
  }
}

async function* tradePages({ store, period, filter }: ExportScope): Pages<ColumnOf<'trades'>> {
  const pages = pagesAfter<TradeLine>(ROWS_PER_PAGE, (page) => store.readTradeLines(period, filter, page))
  for await (const page of pages) {
    yield rowsOf(page, tradeRow)
    // A turn of the event loop between two reads, so that the log can be checkpointed and other calls answered.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

type AdjustmentScope = Pick<ExportScope, 'period' | 'filter'> & {
  store: Pick<BillingStore, 'readAdjustmentLines'>
}

export const adjustmentPages = ({ store, period, filter }: AdjustmentScope) =>
  pagesAfter<AdjustmentLine>(ROWS_PER_PAGE, (page) => store.readAdjustmentLines(period, filter, page))

async function* adjustmentRowPages(scope: ExportScope): Pages<ColumnOf<'adjustments'>> {
  for await (const page of adjustmentPages(scope)) yield rowsOf(page, adjustmentLineJson)
}

async function* invoicePages(scope: ExportScope): Pages<ColumnOf<'invoices'>> {
  for await (const page of issuedPages(scope)) yield rowsOf(page, issuedJson)
}

/** The invoices and credit notes of a month, page by page. Only live months have any. */
export async function* issuedPages({ store, period, filter }: ExportScope): AsyncGenerator<Issued[]> {
  if (filter.environment === 'test') return
  const { start: from, end: before } = periodOf(period.month)
  const within = { slug: filter.slug, from, before }
  yield* pagesAfter<Issued>(ROWS_PER_PAGE, (page) => store.listInvoices(within, page))
}

/** Makes each row on demand: a whole page of rows would outlive the garbage collector's nursery. */
function* rowsOf<T, R>(page: readonly T[], rowOf: (item: T) => R): Generator<R> {
  for (const item of page) yield rowOf(item)
}

// An export as text: the same bytes to a pipe, to a file and over HTTP.

export type Form = {
  report: AnyReport
  format: 'csv' | 'json'
  bom?: boolean
  totals?: boolean
  /** How texts from outside are written, which a spreadsheet could take for formulas or numbers. */
  texts?: Texts
  csv?: CsvForm
}

export type Reading = { store: ExportScope['store']; periods: readonly FixedPeriod[]; filter: TenantFilter }

/** Text gathered before it is written: a write for every row would be slow. */
const CHUNK_CHARS = 64 * 1024

/** An export as text, in pieces: month after month under one header, and a last row of totals if asked for. */
export async function* exportText(
  reading: Reading,
  form: Form,
): AsyncGenerator<{ text: string; rows: number }> {
  const columns = writtenAs(EXPORTS[form.report].columns, form.texts)
  const json = form.format === 'json'
  let text = (form.bom ? BOM : '') + (json ? '[' : csvHeader(columns, form.csv))
  let pending = 0
  let first = true
  for await (const page of pagesOf(reading, form)) {
    for (const row of page) {
      text += json ? `${first ? '' : ',\n'}${JSON.stringify(row)}` : csvRow(columns, row, form.csv)
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

/** The number of rows of an export, and the checksum of exactly the bytes that it writes. */
export async function checksumOf(reading: Reading, form: Form): Promise<{ rows: number; sha256: string }> {
  const hash = createHash('sha256')
  let rows = 0
  for await (const chunk of exportText(reading, form)) {
    hash.update(chunk.text)
    rows += chunk.rows
  }
  return { rows, sha256: hash.digest('hex') }
}

async function* pagesOf(reading: Reading, { report, totals: hasTotals }: Form): Pages {
  const totals = hasTotals ? createTotals(columnsOf(report)) : null
  for await (const page of report === 'partners'
    ? [await sumsOfPartners(reading)]
    : monthPages(reading, report))
    yield totals ? totals.adding(page) : page
  if (totals) yield [totals.row()]
}

async function* monthPages({ store, periods, filter }: Reading, report: ReportKind): Pages {
  for (const period of periods) yield* EXPORTS[report].pages({ store, period, filter })
}

export const tradeRow = (line: TradeLine): Row<ColumnOf<'trades'>> =>
  line.entry.kind === 'trade' ? fillRow(line, line.entry) : adjustmentRow(line, line.entry)

/** A correction as signed differences: added to the fill that it names, it gives the true amounts. */
function adjustmentRow(
  line: LineNames,
  { partnerOrderId, adjustment }: TradeLine['entry'] & { kind: 'adjustment' },
): Row<ColumnOf<'trades'>> {
  const { fill } = adjustment
  return {
    ...namesOf(line),
    partner_order_id: partnerOrderId,
    status: 'adjustment',
    usd_amount: formatUsd(adjustment.usd),
    btc_amount: formatBtc(adjustment.btc),
    execution_price: fill && formatPrice(fill.executionPrice),
    partner_fee_usd: fill?.partnerFee == null ? null : formatUsd(fill.partnerFee),
    executed_at: fill && formatInstant(fill.executedAt),
    failure_reason: adjustment.reason,
  }
}

/** A row of the adjustments report: an adjustment beside the fill it corrects. */
export function adjustmentLineJson({ adjustment, original, partnerOrderId, ...line }: AdjustmentLine) {
  const fill = 'usdAmount' in original.report ? original.report : null
  return {
    ...namesOf(line),
    partner_order_id: partnerOrderId,
    adjustment: adjustment.adjustmentId,
    usd_difference: formatUsd(adjustment.usd),
    btc_difference: formatBtc(adjustment.btc),
    reason: adjustment.reason,
    original_recorded_at: formatInstant(original.recordedAt),
    original_status: original.report.status,
    original_order_id: original.report.partnerOrderId,
    original_usd_amount: fill && formatUsd(fill.usdAmount),
    original_btc_amount: fill && formatBtc(fill.btcAmount),
  } satisfies Row<ColumnOf<'adjustments'>>
}

type LineNames = Omit<TradeLine, 'entry' | 'number'>

const namesOf = (line: LineNames) => ({
  recorded_at: formatInstant(line.recordedAt),
  partner_slug: line.tenant.partnerSlug,
  environment: line.tenant.environment,
  partner_user_id: line.partnerUserId,
  partner_plan_id: line.partnerPlanId,
  execution_id: line.executionId,
})

function fillRow(
  line: LineNames,
  { report, receivedAt }: TradeLine['entry'] & { kind: 'trade' },
): Row<ColumnOf<'trades'>> {
  const fill = 'usdAmount' in report ? report : null
  const names = namesOf(line)
  const executedAt = executedAtOf({ report, recordedAt: line.recordedAt, receivedAt })
  // Of a million rows, a spread would take several times as long.
  return {
    recorded_at: names.recorded_at,
    partner_slug: names.partner_slug,
    environment: names.environment,
    partner_user_id: names.partner_user_id,
    partner_plan_id: names.partner_plan_id,
    execution_id: names.execution_id,
    partner_order_id: report.partnerOrderId,
    status: report.status,
    usd_amount: fill && formatUsd(fill.usdAmount),
    btc_amount: fill && formatBtc(fill.btcAmount),
    execution_price: fill && formatPrice(fill.executionPrice),
    partner_fee_usd: fill?.partnerFee == null ? null : formatUsd(fill.partnerFee),
    executed_at: formatInstantOrNull(executedAt),
    failure_reason: 'failureReason' in report ? report.failureReason : null,
  }
}

/** An invoice or a credit note. Amounts of a credit note are negative, so that a column adds up. */
export function issuedJson({ number, partnerSlug, month, corrects, issuedAt, ...issued }: Issued) {
  const { dueDays }: { dueDays: number | null } = JSON.parse(issued.details)
  const sign = (amount: Usd) => formatUsd(signed({ corrects }, amount))
  return {
    invoice_number: number,
    invoice_date: utcDate(issuedAt),
    due_date: corrects === null && dueDays !== null ? utcDate(plus(issuedAt, dueDays * DAY_MS)) : null,
    partner_slug: partnerSlug,
    month,
    corrects,
    net_usd: sign(issued.net),
    tax_usd: sign(issued.tax),
    total_usd: sign((issued.net + issued.tax) as Usd),
  } satisfies Row<ColumnOf<'invoices'>>
}
