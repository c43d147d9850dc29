// What is on an invoice that a person reads, in words and in its order; how it looks is the layouts' business.

import type { AdjustedOrders, Amounts } from '../../core/adjustment.ts'
import { isFill } from '../../core/confirmation-report.ts'
import { formatInstant, utcDate } from '../../core/instant.ts'
import { floorToCents, formatBtc, formatUsd, type Usd } from '../../core/money.ts'
import type { Trade } from '../../core/trade.ts'
import type { OrderLine } from '../adjusted-orders.ts'
import { feeLines, tierReason } from './fee-lines.ts'
import {
  dateOf,
  fillsOf,
  firstDayOf,
  type Invoice,
  inCents,
  lastDayOf,
  numberOf,
  type Party,
  termsOf,
} from './figures.ts'

type Fact = readonly [label: string, value: string]

export type Words = {
  title: string
  /** Null while the month can change. */
  number: string | null
  /** What a page is known by: the number, or whose month it is. */
  name: string
  /** What a reader must know before anything else. */
  warning: string | null
  parties: { heading: string; lines: readonly string[] }[]
  facts: readonly Fact[]
  fees: readonly (readonly [item: string, arithmetic: string, amount: string])[]
  total: Fact
  /** Below the total: how to pay it, and what it is in. */
  terms: readonly string[]
  volume: readonly Fact[]
  adjustments: { heading: string; columns: readonly string[]; none: string }
  evidence: { heading: string; text: string; facts: readonly Fact[] }
}

/** Cells of an adjustment, under the columns of `adjustments`; amounts come last. */
export type AdjustmentCells = readonly [date: string, what: string, why: string, usd: string, btc: string]

/** How a kind of file is written: a beginning, the adjustments one by one, an end. */
export type Layout = {
  head: (words: Words, hasAdjustments: boolean) => string
  adjustment: (cells: AdjustmentCells) => string
  foot: (hasAdjustments: boolean) => string
}

export function wordsOf(invoice: Invoice): Words {
  const { statement, period, parties } = invoice
  const { tenant, tier, fees } = statement
  const [number, date] = [numberOf(statement), dateOf(statement)]
  return {
    title: period.final ? 'Invoice' : 'Provisional invoice',
    number,
    name: number ?? `${tenant.partnerSlug}, ${period.month}, provisional`,
    warning: warningOf(invoice),
    parties: [
      ...(parties ? [{ heading: 'From', lines: partyLines(parties.issuer) }] : []),
      { heading: 'To', lines: parties ? partyLines(parties.partner) : [tenant.partnerSlug] },
    ],
    facts: [
      ...(date === null ? [] : [['Invoice date', date] as const]),
      ['Period', `${firstDayOf(statement)} to ${lastDayOf(statement)} (UTC)`],
      ['Tier', `${tier.name}: ${rates(invoice)}`],
      ['Why this tier', tierReason(statement)],
    ],
    fees: feeLines(statement).map(({ item, arithmetic, amount }) => [item, arithmetic, formatUsd(amount)]),
    total: [period.final ? 'Total' : 'Total so far', `${formatUsd(fees.total)} USD`],
    terms: [
      ...termsOf(invoice),
      'All amounts are in US dollars, without tax. All times are UTC.',
      ...(hasFractions(invoice) ? [FRACTIONS] : []),
    ],
    volume: volumeLines(invoice),
    adjustments: {
      heading: 'Adjustments recorded in this month',
      columns: ['Recorded', 'What is corrected', 'Why', 'USD', 'BTC'],
      none: 'None.',
    },
    evidence: evidenceOf(invoice),
  }
}

const FRACTIONS = 'Fractions of a cent in trades are cut off on this page; the volume fee counts them.'

const isWhole = (amount: Usd): boolean => floorToCents(amount) === amount

const hasFractions = (invoice: Invoice): boolean => {
  const { statement, adjusted } = invoice
  return ![statement.activity.volume, adjusted.usd, fillsOf(invoice)].every(isWhole)
}

/** The parts of the volume as they are printed: what was cut off them makes a line of its own, so they add up. */
function volumeLines(invoice: Invoice): Fact[] {
  const { statement, adjusted } = invoice
  const { volume, executionsFilled, executionsPartial } = statement.activity
  const fills = floorToCents(fillsOf(invoice))
  const rest = (floorToCents(volume) - fills - adjusted.printed) as Usd
  return [
    [`Filled and partly filled trades: ${executionsFilled + executionsPartial}`, formatUsd(fills)],
    [`Adjustments: ${adjusted.count}`, formatUsd(adjusted.printed)],
    ...(rest === 0n ? [] : [['Fractions of a cent', formatUsd(rest)] as const]),
    ['Volume', inCents(volume)],
  ]
}

/** For somebody who has the invoice and not the program: the command that makes the file is the operator's business. */
function evidenceOf({ evidence }: Invoice): Words['evidence'] {
  const heading = 'The trades behind it'
  if (!evidence) return { heading, text: 'The final invoice has their checksum here.', facts: [] }
  return {
    heading,
    text: 'They are listed in a CSV file, which the issuer can send you. This checksum shows that it is the right one.',
    facts: [
      ['SHA-256', evidence.sha256],
      ['Rows', String(evidence.rows)],
    ],
  }
}

function warningOf({ statement, period }: Invoice): string | null {
  if (period.final) return null
  const isAhead = period.end <= statement.period.start
  const covered = isAhead
    ? 'Nothing of it is recorded yet'
    : `This is what was recorded until ${formatInstant(period.end)}`
  return `Provisional: ${period.month} can still change. ${covered}.`
}

function rates({ statement: { tier } }: Invoice): string {
  const percent = `${Math.floor(tier.rateBps / 100)}.${String(tier.rateBps % 100).padStart(2, '0')} %`
  return [
    `${tier.rateBps} basis points (${percent}) of the volume`,
    ...(tier.perActiveUser > 0n ? [`${formatUsd(tier.perActiveUser)} for each active user`] : []),
    ...(tier.monthlyMinimum > 0n ? [`at least ${formatUsd(tier.monthlyMinimum)} a month`] : []),
  ].join(', ')
}

const partyLines = ({ name, address, taxId }: Party): string[] => [
  name,
  ...address,
  ...(taxId === null ? [] : [`Tax id ${taxId}`]),
]

export const adjustmentCells = ({
  adjustment,
  original,
  changed,
  executionId,
}: OrderLine): AdjustmentCells => [
  utcDate(adjustment.recordedAt),
  `${ordersOf(changed, original)}: from ${inWords(changed.before)} to ${inWords(changed.after)} (${executionId})`,
  adjustment.reason,
  formatUsd(printedChange(changed)),
  formatBtc(adjustment.btc),
]

/** The difference between the two amounts of a line as they are printed. */
export const printedChange = ({ before, after }: AdjustedOrders): Usd =>
  (floorToCents(after.usd) - floorToCents(before.usd)) as Usd

function ordersOf({ orders, isFurther }: AdjustedOrders, { recordedAt, report }: Trade): string {
  const [first = '', ...others] = orders
  if (others.length > 0)
    return `Orders ${[orders.slice(0, -1).join(', '), orders.at(-1)].join(' and ')} together`
  if (isFurther) return `Order ${first}, a further purchase`
  const outcome = isFill(report) ? '' : ` as ${report.status}`
  return `Order ${first}, confirmed ${utcDate(recordedAt)}${outcome}`
}

const inWords = ({ usd, btc }: Amounts): string =>
  usd === 0n && btc === 0n ? 'nothing' : `${inCents(usd)} USD for ${formatBtc(btc)} BTC`
