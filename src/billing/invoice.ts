// Invoices: made from the statement of a month, its adjustments and the checksum of its trades, and put into words.

import { isFill, type Trade } from '../core/confirmation.ts'
import { type AdjustedOrders, type Amounts, ordersAdjusted } from '../core/corrections/adjustment.ts'
import { BPS_ONE, type Statement, tradesIn } from '../core/fees.ts'
import {
  creditOf,
  hasVatNumber,
  type Issued,
  numberWithoutSeries,
  percentOf,
  type Tax,
  taxOf,
} from '../core/invoice.ts'
import {
  floorToCents,
  formatBtc,
  formatCents,
  formatExact,
  formatUsd,
  printUsd,
  roundToCents,
  type Usd,
  ZERO_USD,
} from '../core/money.ts'
import type { FixedPeriod } from '../core/month.ts'
import { Problem } from '../core/problem.ts'
import { counted, grouped } from '../core/text.ts'
import { DAY_MS, formatInstant, plus, utcDate } from '../core/time.ts'
import type { AdjustmentLine, ExecutionStore } from '../store/store.ts'
import { adjustmentLineJson, adjustmentPages, checksumOf, type ExportScope } from './export.ts'

/**
 * The invoice of a live tenant's statement. An issued one keeps its names and tax; else `parties` gives them, and
 * whether the issuer assigns numbers. Throws invoice_conflict.
 */
export async function invoiceOf(
  scope: OrdersScope,
  statement: Statement,
  { parties, isNumbered }: { parties: Parties | null; isNumbered: boolean },
): Promise<Invoice> {
  const { store, period } = scope
  const { partnerSlug } = statement.tenant
  const issued = period.final ? await store.findInvoiceOf(partnerSlug, period.month) : null
  if (issued) refuseOtherFees(issued, statement)
  return {
    statement,
    period,
    parties: issued ? partiesOf(issued) : parties,
    issued,
    isDraft: period.final && isNumbered && issued === null,
    adjusted: await sumAdjustments(scope),
    evidence: period.final ? await evidenceOf(scope, partnerSlug) : null,
  }
}

/** An assigned number belongs to one amount. A page with another amount must not bear it. */
function refuseOtherFees({ number, net }: Issued, { fees, period }: Statement): void {
  if (net === fees.total) return
  const now = `${period.month} now comes to ${formatUsd(fees.total)}`
  throw new Problem('invoice_conflict', `${number} was issued with ${formatUsd(net)} USD, and ${now}.`)
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

async function evidenceOf({ store, period, filter }: ExportScope, slug: string): Promise<Evidence> {
  const command = `tranche billing export --report trades --month ${period.month} --partner ${slug} --env live`
  const trades = { report: 'trades', format: 'csv' } as const
  return { command, ...(await checksumOf({ store, periods: [period], filter }, trades)) }
}

export async function* invoiceText(
  scope: OrdersScope,
  invoice: Invoice,
  layout: Layout,
): AsyncGenerator<string> {
  const words = wordsOf(invoice)
  yield layout.head(words)
  for await (const page of orderPages(scope))
    yield page.map((line) => layout.adjustment(adjustmentCells(line))).join('')
  yield layout.foot(words)
}

// The content of an invoice: one partner's live month with everything that explains its total. It is made from records
// that never change once the month is over, and from the given names and addresses.

/** The sender or the recipient of an invoice: lines as they are printed. */
export type Party = {
  name: string
  address: readonly string[]
  country: string | null
  taxId: string | null
}
export type Parties = {
  issuer: Party & { notes: readonly string[] }
  partner: Party
  /** Null when the settings do not give it, which the page then says. */
  tax: Tax | null
  /** Days from the invoice's date until payment is due. */
  dueDays: number | null
  /** The service charged for. Missing in invoices issued before it was kept, like the fields below. */
  description?: string | undefined
  page?: Page | undefined
  reference?: string | undefined
  note?: string | undefined
}

export const PAGES = ['A4', 'Letter'] as const
export type Page = (typeof PAGES)[number]
/** The service charged for, where the settings have no words of their own. */
export const DESCRIPTION = 'Timing of recurring Bitcoin purchases'

/** The trades export that the invoice rests on: the command that repeats it, and the result that it must give. */
type Evidence = { command: string; rows: number; sha256: string }

export type Invoice = {
  statement: Statement
  issued: Issued | null
  /** Whether the issuer assigns numbers, and this invoice has none yet. */
  isDraft: boolean
  /** The period of the statement; for a month that is not over, it holds the figures so far. */
  period: FixedPeriod
  parties: Parties | null
  /** The sum of the month's adjustments, exact and as printed; the rest of the volume is fills. */
  adjusted: { count: number; usd: Usd; printed: Usd }
  /** Null while the month can change, because a later export would differ. */
  evidence: Evidence | null
}

/** Unique, and always the same. Null while there is none: a page with a number would be taken for the invoice. */
export function numberOf({ statement: { tenant, period, final }, issued, isDraft }: Invoice): string | null {
  if (issued) return issued.number
  return final && !isDraft ? numberWithoutSeries(tenant.partnerSlug, period.month) : null
}

/** The day of issue; else the day after the period, the first on which the invoice can be final. */
export function dateOf(invoice: Invoice): string | null {
  const { issued, statement } = invoice
  if (issued) return utcDate(issued.issuedAt)
  return numberOf(invoice) === null ? null : utcDate(statement.period.end)
}

export function dueOf(invoice: Invoice): string | null {
  const days = invoice.parties?.dueDays ?? null
  const start = invoice.issued?.issuedAt ?? invoice.statement.period.end
  return days === null || numberOf(invoice) === null ? null : utcDate(plus(start, days * DAY_MS))
}

/** The issuer's closing lines, such as how to pay; none while there is nothing to pay. */
export const termsOf = (invoice: Invoice): readonly string[] =>
  numberOf(invoice) === null ? [] : (invoice.parties?.issuer.notes ?? [])

export const taxIn = ({ statement, parties, issued }: Invoice): Usd =>
  issued?.tax ?? taxOf(statement.fees.total, parties?.tax ?? null)

/** An amount as an invoice prints it. The fractions of a cent that `formatCents` cuts off have a line of their own. */
const inCents = (amount: Usd): string => grouped(formatCents(amount))

export const fillsOf = ({ statement, adjusted }: Invoice): Usd =>
  (statement.activity.volume - adjusted.usd) as Usd

type FeeLine = { item: string; arithmetic: string; amount: Usd }

/** The lines of the total: their amounts add up to it. */
export function feeLines({ tier, activity, fees }: Statement): FeeLine[] {
  const { volume, activeUsers } = activity
  const lines: FeeLine[] = [
    {
      item: 'Volume fee',
      arithmetic: volumeArithmetic(volume, tier.rateBps, fees.volumeFee),
      amount: fees.volumeFee,
    },
    {
      item: 'User fee',
      arithmetic: `${activeUsers} active ${activeUsers === 1 ? 'user' : 'users'} x ${printUsd(tier.perActiveUser)}`,
      amount: fees.userFee,
    },
  ]
  const sum = fees.volumeFee + fees.userFee
  if (fees.total === sum) return lines
  const arithmetic = `${printUsd(fees.minimumFee)} - (${printUsd(fees.volumeFee)} + ${printUsd(fees.userFee)})`
  return [...lines, { item: 'Up to the monthly minimum', arithmetic, amount: (fees.total - sum) as Usd }]
}

/** The printed reason: for a tier that begins at zero, only that no higher one is reached. */
const printedReason = (statement: Statement): string =>
  statement.tierSource === 'volume' && statement.tier.minVolume === 0n && statement.activity.volume >= 0n
    ? `the volume of ${inCents(statement.activity.volume)} reaches no higher one`
    : tierReason(statement)

/** The lines whose amounts are not zero, or all lines if all are zero. */
function printedLines(statement: Statement): FeeLine[] {
  const lines = feeLines(statement)
  const some = lines.filter(({ amount }) => amount !== ZERO_USD)
  if (statement.fees.volumeFee + statement.fees.userFee === 0n && some.length === 1)
    return [{ item: 'Monthly minimum', arithmetic: '', amount: statement.fees.total }]
  return some.length === 0 ? lines.slice(0, 1) : some
}

/** A dollar has eight places, a basis point four. */
const PRODUCT_PLACES = 12

/** Uses the volume to the cent, or with all its places where the cents alone would give another fee. */
function volumeArithmetic(volume: Usd, bps: number, fee: Usd): string {
  if (volume < 0n) return `${inCents(volume)} is below zero and charged as 0.00; nothing is carried over`
  const cut = floorToCents(volume)
  const charged = roundToCents(cut * BigInt(bps), BPS_ONE) === fee ? cut : volume
  const exact = formatExact(charged * BigInt(bps), PRODUCT_PLACES)
  const rounded = exact === formatUsd(fee) ? '' : ', rounded half-even to the cent'
  return `${printUsd(charged)} x ${grouped(bps)} / 10,000 = ${grouped(exact)}${rounded}`
}

export function tierReason({ tenant, tier, tierSource, activity }: Statement): string {
  if (tierSource === 'override') return `set for ${tenant.partnerSlug}, whatever its volume`
  const volume = `the volume of ${inCents(activity.volume)}`
  return tier.minVolume !== null && activity.volume >= tier.minVolume
    ? `${volume} reaches ${printUsd(tier.minVolume)}, where this tier begins, and no higher one`
    : `${volume} reaches no tier, so the lowest applies`
}

export type OrdersScope = ExportScope & { store: Pick<ExecutionStore, 'findExecution'> }

export type OrderLine = AdjustmentLine & { changed: AdjustedOrders }

export async function* orderPages(scope: OrdersScope): AsyncGenerator<OrderLine[]> {
  for await (const page of adjustmentPages(scope)) {
    const lines: OrderLine[] = []
    for (const line of page) lines.push({ ...line, changed: await changedBy(scope.store, line) })
    yield lines
  }
}

async function changedBy(
  store: OrdersScope['store'],
  { executionId, adjustment, original }: AdjustmentLine,
): Promise<AdjustedOrders> {
  const found = await store.findExecution(executionId)
  const earlier = (found?.adjustments ?? []).filter((one) => one.adjustmentId < adjustment.adjustmentId)
  return ordersAdjusted(original, earlier, adjustment)
}

/** A line as JSON: the row of the adjustments report, and its effect on the orders. */
export const orderLineJson = ({ changed, ...line }: OrderLine) => ({
  ...adjustmentLineJson(line),
  orders: changed.orders,
  usd_amount_before: formatUsd(changed.before.usd),
  usd_amount: formatUsd(changed.after.usd),
  btc_amount_before: formatBtc(changed.before.btc),
  btc_amount: formatBtc(changed.after.btc),
})

// The content of a printed invoice, in words and in order. The layouts decide how it looks.

type Fact = readonly [label: string, value: string]

const fact = (label: string, value: string | false | null | undefined): Fact[] =>
  typeof value === 'string' ? [[label, value]] : []

export type Words = {
  title: string
  /** Null while the month can change. */
  number: string | null
  /** The name of the page: the number, or the partner and the month. */
  name: string
  page: Page
  warning: string | null
  parties: { heading: string; lines: readonly string[] }[]
  facts: readonly Fact[]
  fees: readonly (readonly [item: string, arithmetic: string, amount: string])[]
  total: Fact
  /** Printed below the total: how to pay it, and in which currency. */
  terms: readonly string[]
  /** Null where there is none, as on a credit note. */
  volume: readonly Fact[] | null
  adjustments: { heading: string; columns: readonly string[] } | null
  evidence: { heading: string; text: string; facts: readonly Fact[] } | null
}

/** Cells of an adjustment, under the columns of `adjustments`; amounts come last. */
type AdjustmentCells = readonly [date: string, what: string, why: string, usd: string, btc: string]

export type Layout = {
  head: (words: Words) => string
  adjustment: (cells: AdjustmentCells) => string
  foot: (words: Words) => string
}

function wordsOf(invoice: Invoice): Words {
  const { statement, period, parties, adjusted } = invoice
  const { tenant, tier } = statement
  const { start, end } = statement.period
  const [number, date, due] = [numberOf(invoice), dateOf(invoice), dueOf(invoice)]
  const title = !period.final ? 'Provisional invoice' : number === null ? 'Draft of an invoice' : 'Invoice'
  return {
    title,
    number,
    page: parties?.page ?? 'A4',
    name: number ?? `${tenant.partnerSlug}, ${period.month}, ${period.final ? 'draft' : 'provisional'}`,
    warning: warningOf(invoice),
    parties: [
      ...(parties ? [{ heading: 'From', lines: partyLines(parties.issuer) }] : []),
      { heading: 'To', lines: parties ? partyLines(parties.partner) : [tenant.partnerSlug] },
    ],
    facts: [
      ...fact('Invoice date', date),
      ...fact('Due date', due),
      ...renderedIn(invoice),
      ...fact('Your reference', parties?.reference),
      ['Period', `${utcDate(start)} to ${utcDate(plus(end, -1))} (UTC)`],
      ['Tier', `${tier.name}: ${rates(invoice)}`],
      ['Why this tier', printedReason(statement)],
    ],
    fees: [
      ...printedLines(statement).map(
        ({ item, arithmetic, amount }) => [item, arithmetic, printUsd(amount)] as const,
      ),
      ...taxLines({ net: statement.fees.total, tax: taxIn(invoice), kind: parties?.tax ?? null }),
    ],
    total: [
      period.final ? 'Total, USD' : 'Total so far, USD',
      printUsd((statement.fees.total + taxIn(invoice)) as Usd),
    ],
    terms: [
      ...(parties?.note === undefined ? [] : [parties.note]),
      ...taxSentence(parties?.tax ?? null),
      ...termsOf(invoice),
      currencyWords(parties?.tax ?? null),
      ...(hasFractions(invoice) ? [FRACTIONS] : []),
    ],
    volume: volumeLines(invoice),
    adjustments:
      adjusted.count === 0
        ? null
        : {
            heading: 'Adjustments recorded in this month',
            columns: ['Recorded', 'What is corrected', 'Why', 'USD', 'BTC'],
          },
    evidence: evidenceWords(invoice),
  }
}

const MONTH = new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', month: 'long', year: 'numeric' })

function renderedIn({ statement: { activity, period }, parties }: Invoice): Fact[] {
  const description = parties === null ? DESCRIPTION : parties.description
  if (description === undefined) return []
  const purchases = tradesIn(activity)
  const many =
    purchases === 0 ? '' : `, ${counted(purchases, 'purchase')} of ${counted(activity.activeUsers, 'user')}`
  return [['For', `${description}, ${MONTH.format(period.start)}${many}`]]
}

// Tax as it is printed: two more lines, or a sentence that says why there is none.

function taxLines({ net, tax, kind }: { net: Usd; tax: Usd; kind: Tax | null }): Words['fees'] {
  if (kind?.kind !== 'rate') return []
  const rate = percentOf(kind.rateBps)
  return [
    ['Net amount', '', printUsd(net)],
    [kind.label ?? 'VAT', `${rate} of ${printUsd(net)}`, printUsd(tax)],
  ]
}

const taxSentence = (tax: Tax | null): string[] =>
  tax?.kind === 'reverse-charge' ? [REVERSE_CHARGE] : tax?.kind === 'exempt' ? [tax.why] : []

const REVERSE_CHARGE =
  'Reverse charge: the customer owes the VAT (Articles 44 and 196 of Council Directive 2006/112/EC).'

const currencyWords = (tax: Tax | null): string =>
  `All amounts are in US dollars${tax === null ? ', without tax' : ''}. All times are UTC.`

const FRACTIONS = 'Fractions of a cent in trades are cut off on this page; the volume fee counts them.'

const hasFractions = (invoice: Invoice): boolean =>
  [invoice.statement.activity.volume, invoice.adjusted.usd, fillsOf(invoice)].some(
    (amount) => floorToCents(amount) !== amount,
  )

/** The parts of the volume as printed, and the fractions cut off from them, so that they add up. */
function volumeLines(invoice: Invoice): Fact[] | null {
  const { statement, adjusted } = invoice
  const { volume } = statement.activity
  const fills = floorToCents(fillsOf(invoice))
  const rest = (floorToCents(volume) - fills - adjusted.printed) as Usd
  const trades = tradesIn(statement.activity)
  if (trades === 0 && adjusted.count === 0) return null
  return [
    ...fact(`Filled and partly filled trades: ${trades}`, trades > 0 && printUsd(fills)),
    ...fact(`Adjustments: ${adjusted.count}`, adjusted.count > 0 && printUsd(adjusted.printed)),
    ...fact('Fractions of a cent', rest !== 0n && printUsd(rest)),
    ['Volume', inCents(volume)],
  ]
}

/** For a reader without the program: only the operator runs the command that makes the file. */
function evidenceWords({ evidence, period }: Invoice): Words['evidence'] {
  if (period.final && !evidence?.rows) return null
  const heading = 'The trades behind it'
  if (!evidence) return { heading, text: 'The final invoice shows their checksum here.', facts: [] }
  return {
    heading,
    text: 'They are listed in a CSV file, which the issuer can send you. This checksum shows that it is the right one.',
    facts: [
      ['SHA-256', evidence.sha256],
      ['Rows', String(evidence.rows)],
    ],
  }
}

function warningOf({ statement, period, isDraft }: Invoice): string | null {
  if (period.final) return isDraft ? 'Draft: this is not an invoice yet. It has no number.' : null
  const isAhead = period.end <= statement.period.start
  const covered = isAhead
    ? 'Nothing of it is recorded yet'
    : `This is what was recorded until ${formatInstant(period.end)}`
  return `Provisional: ${period.month} can still change. ${covered}.`
}

function rates({ statement: { tier, fees } }: Invoice): string {
  const percent = `${Math.floor(tier.rateBps / 100)}.${String(tier.rateBps % 100).padStart(2, '0')} %`
  const isByVolume = tier.rateBps > 0 || (tier.perActiveUser === 0n && fees.minimumFee === 0n)
  return [
    ...(isByVolume ? [`${tier.rateBps} basis points (${percent}) of the volume`] : []),
    ...(tier.perActiveUser > 0n ? [`${printUsd(tier.perActiveUser)} for each active user`] : []),
    ...(fees.minimumFee > 0n ? [`at least ${printUsd(fees.minimumFee)} a month`] : []),
  ].join(', ')
}

const partyLines = (party: Party): string[] => [
  party.name,
  ...party.address,
  ...(party.taxId === null ? [] : [`${hasVatNumber(party) ? 'VAT number' : 'Tax id'} ${party.taxId}`]),
]

const adjustmentCells = ({ adjustment, original, changed, executionId }: OrderLine): AdjustmentCells => [
  utcDate(adjustment.recordedAt),
  `${ordersOf(changed, original)}: from ${amountsInWords(changed.before)} to ${amountsInWords(changed.after)} (${executionId})`,
  adjustment.reason,
  printUsd(printedChange(changed)),
  formatBtc(adjustment.btc),
]

const printedChange = ({ before, after }: AdjustedOrders): Usd =>
  (floorToCents(after.usd) - floorToCents(before.usd)) as Usd

function ordersOf({ orders, isFurther }: AdjustedOrders, { recordedAt, report }: Trade): string {
  const [first = '', ...others] = orders
  if (others.length > 0)
    return `Orders ${[orders.slice(0, -1).join(', '), orders.at(-1)].join(' and ')} together`
  if (isFurther) return `Order ${first}, a further purchase`
  const outcome = isFill(report) ? '' : ` as ${report.status}`
  return `Order ${first}, confirmed ${utcDate(recordedAt)}${outcome}`
}

const amountsInWords = ({ usd, btc }: Amounts): string =>
  usd === 0n && btc === 0n ? 'nothing' : `${inCents(usd)} USD for ${formatBtc(btc)} BTC`

// Records of what was issued: an invoice keeps the settings that it used, and so does a credit note that corrects it.

export const detailsOf = (parties: Parties, reason: string | null = null): string =>
  JSON.stringify({ ...parties, reason })

/** The stored settings, which were checked before the issue. */
export const partiesOf = ({ details }: Issued): Parties & { reason: string | null } => JSON.parse(details)

/** Computes a credit note for an invoice. Throws invoice_conflict. */
export function drawCredit(
  invoice: Issued,
  { earlier, net, reason }: { earlier: readonly Issued[]; net: Usd; reason: string },
): Pick<Issued, 'net' | 'tax' | 'details'> {
  const { reason: _, ...parties } = partiesOf(invoice)
  return creditOf(invoice, { earlier, net, tax: parties.tax, details: detailsOf(parties, reason) })
}

/** A credit note as a page. `invoice` is the invoice that it corrects. */
export function creditPage(credit: Issued, invoice: Issued, layout: Layout): string {
  const { issuer, partner, tax, reason, page = 'A4', reference } = partiesOf(credit)
  const words: Words = {
    title: 'Credit note',
    number: credit.number,
    name: credit.number,
    page,
    warning: null,
    parties: [
      { heading: 'From', lines: partyLines(issuer) },
      { heading: 'To', lines: partyLines(partner) },
    ],
    facts: [
      ['Date', utcDate(credit.issuedAt)],
      ['Corrects', `Invoice ${invoice.number} of ${utcDate(invoice.issuedAt)}, for ${invoice.month}`],
      ['Why', reason ?? ''],
      ...fact('Your reference', reference),
    ],
    fees: [
      ['Correction of the fees', `of ${printUsd(invoice.net)} invoiced`, printUsd(credit.net)],
      ...taxLines({ net: credit.net, tax: credit.tax, kind: tax }),
    ],
    total: ['Total credited, USD', printUsd((credit.net + credit.tax) as Usd)],
    terms: [...taxSentence(tax), currencyWords(tax)],
    volume: null,
    adjustments: null,
    evidence: null,
  }
  return layout.head(words) + layout.foot(words)
}
