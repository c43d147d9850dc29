// What is on an invoice that a person reads, in words and in its order; how it looks is the layouts' business.

import { formatInstant, utcDate } from '../../core/instant.ts'
import { formatBtc, formatUsd } from '../../core/money.ts'
import type { AdjustmentLine } from '../../store/months.ts'
import { feeLines, tierReason } from './fee-lines.ts'
import { dateOf, fillsOf, firstDayOf, type Invoice, lastDayOf, numberOf, type Party } from './figures.ts'

type Fact = readonly [label: string, value: string]

export type Words = {
  title: string
  number: string
  /** What a reader must know before anything else. */
  warning: string | null
  parties: { heading: string; lines: readonly string[] }[]
  facts: readonly Fact[]
  fees: readonly (readonly [item: string, arithmetic: string, amount: string])[]
  total: Fact
  volume: readonly Fact[]
  adjustments: { heading: string; columns: readonly string[]; none: string }
  evidence: { heading: string; text: string; facts: readonly Fact[] }
  notes: readonly string[]
}

/** Cells of an adjustment, under the columns of `adjustments`; amounts come last. */
export type AdjustmentCells = readonly [date: string, what: string, why: string, usd: string, btc: string]

/** How a kind of file is written: a beginning, the adjustments one by one, an end. */
export type Layout = {
  head: (words: Words, hasAdjustments: boolean) => string
  adjustment: (cells: AdjustmentCells) => string
  foot: (words: Words, hasAdjustments: boolean) => string
}

export function wordsOf(invoice: Invoice): Words {
  const { statement, period, parties, adjusted, evidence } = invoice
  const { tenant, tier, activity, fees } = statement
  const trades = activity.executionsFilled + activity.executionsPartial
  return {
    title: period.final ? 'Invoice' : 'Provisional invoice',
    number: numberOf(statement),
    warning: warningOf(invoice),
    parties: [
      ...(parties ? [{ heading: 'From', lines: partyLines(parties.issuer) }] : []),
      { heading: 'To', lines: parties ? partyLines(parties.partner) : [tenant.partnerSlug] },
    ],
    facts: [
      ['Invoice date', dateOf(statement)],
      ['Period', `${firstDayOf(statement)} to ${lastDayOf(statement)} (UTC)`],
      ['Tier', `${tier.name}: ${terms(invoice)}`],
      ['Why this tier', tierReason(statement)],
    ],
    fees: feeLines(statement).map(({ item, arithmetic, amount }) => [item, arithmetic, formatUsd(amount)]),
    total: ['Total', `${formatUsd(fees.total)} USD`],
    volume: [
      [`Filled and partly filled trades: ${trades}`, formatUsd(fillsOf(invoice))],
      [`Adjustments: ${adjusted.count}`, formatUsd(adjusted.usd)],
      ['Volume', formatUsd(activity.volume)],
    ],
    adjustments: {
      heading: 'Adjustments recorded in this month',
      columns: ['Recorded', 'What is corrected', 'Why', 'USD', 'BTC'],
      none: 'None.',
    },
    evidence: {
      heading: 'The trades behind it',
      text: evidence
        ? 'The export made by this command has this SHA-256 checksum, whenever it is made.'
        : 'Their checksum is here once the month is final.',
      facts: evidence
        ? [
            ['Command', evidence.command],
            ['SHA-256', evidence.sha256],
            ['Rows', String(evidence.rows)],
          ]
        : [],
    },
    notes: [
      'All amounts are in US dollars, without tax. All times are UTC.',
      ...(parties?.issuer.notes ?? []),
    ],
  }
}

function warningOf({ statement, period }: Invoice): string | null {
  if (period.final) return null
  const isAhead = period.end <= statement.period.start
  const covered = isAhead
    ? 'Nothing of it is recorded yet'
    : `This is what was recorded until ${formatInstant(period.end)}`
  return `Provisional: ${period.month} can still change. ${covered}; do not pay it.`
}

function terms({ statement: { tier } }: Invoice): string {
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

export function adjustmentCells({ adjustment, original, ...line }: AdjustmentLine): AdjustmentCells {
  const { report } = original
  const was =
    'usdAmount' in report
      ? `${formatUsd(report.usdAmount)} USD for ${formatBtc(report.btcAmount)} BTC`
      : report.status
  return [
    utcDate(adjustment.recordedAt),
    `Order ${line.partnerOrderId}, confirmed ${utcDate(original.recordedAt)}: ${was} (${line.executionId})`,
    adjustment.reason,
    formatUsd(adjustment.usd),
    formatBtc(adjustment.btc),
  ]
}
