// The layouts of an invoice: HTML for printing, Markdown, and JSON.

import { tradesIn } from '../core/fees.ts'
import type { Tax } from '../core/invoice.ts'
import { formatBtc, formatUsd, type Usd } from '../core/money.ts'
import { htmlText, visibleCell } from '../core/text.ts'
import { formatInstant } from '../core/time.ts'
import {
  dateOf,
  dueOf,
  feeLines,
  fillsOf,
  type Invoice,
  type Layout,
  numberOf,
  type Party,
  taxIn,
  termsOf,
  tierReason,
  type Words,
} from './invoice.ts'

// One HTML file for print: no script, no outside address, nothing to load.

const STYLE = `
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 14mm 0; max-width: 174mm; background: #fff; color: #1c1f24;
  font: 10pt/1.4 "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; overflow-wrap: anywhere; }
header { display: flex; justify-content: space-between; align-items: baseline; border-bottom: 1.5pt solid #1c1f24;
  padding-bottom: 3mm; gap: 8mm; }
h1 { font-size: 20pt; font-weight: 600; margin: 0; letter-spacing: -0.2pt; }
header p { margin: 0; font-size: 12pt; }
h2 { font-size: 11pt; font-weight: 600; margin: 5mm 0 1mm; break-after: avoid; }
.warning { margin: 5mm 0 0; padding: 3mm 4mm; border: 1pt solid #b54708; background: #fff6ed; color: #7a2e0e; font-weight: 600; }
.parties { display: flex; gap: 12mm; margin: 5mm 0; }
.parties section { flex: 1; }
.parties h2 { margin: 0 0 1mm; font-size: 8.5pt; font-weight: 600; color: #5b6470; }
.parties p { margin: 0; }
.parties p:first-of-type { font-weight: 600; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 0.9mm 3mm 0.9mm 0; border-bottom: 0.5pt solid #d5d9de; }
th { font-weight: 600; font-size: 8.5pt; color: #5b6470; }
tr, section, .fees { break-inside: avoid; }
p { orphans: 3; widows: 3; }
.small thead, .small tbody tr:nth-child(-n+2) { break-after: avoid; }
.small tbody tr:nth-last-child(-n+3) { break-before: avoid; }
.amount { text-align: right; padding-right: 0; padding-left: 3mm; white-space: nowrap; }
.facts th { width: 38mm; font-weight: 400; font-size: inherit; }
.total td { border-bottom: 0; border-top: 1pt solid #1c1f24; font-weight: 600; font-size: 12pt; padding-top: 2.4mm; }
.sum td { font-weight: 600; }
.small { font-size: 9pt; }
td:first-child { white-space: nowrap; }
code { font: 8pt/1.4 "DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace; }
section > p { margin: 0 0 1mm; }
.terms { margin-top: 2mm; font-size: 9pt; color: #3d444d; }
.terms p { margin: 0 0 1mm; }
@media print { body { padding: 0; max-width: none; } }
@media print, (min-width: 600px) { .small td:nth-child(3) { min-width: 32mm; } }
@media screen and (max-width: 720px) { body { padding: 5mm; } .facts th { width: 26mm; }
  .small { font-size: 8pt; } .small td:nth-child(3) { min-width: 18mm; } }
`

export const HTML: Layout = {
  head: (words) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${htmlText(words.number === null ? words.name : `${words.title} ${words.number}`)}</title>
<style>${STYLE}${pageNumbers(words)}</style>
</head>
<body>
<header><h1>${htmlText(words.title)}</h1><p>${htmlText(words.number ?? '')}</p></header>
${words.warning === null ? '' : `<p class="warning">${htmlText(words.warning)}</p>\n`}<div class="parties">
${words.parties.map(party).join('\n')}
</div>
${facts(words.facts)}
<div class="fees"><h2>Fees</h2>
<table>
${htmlRow(['Item', 'Arithmetic', 'USD'], 'th', 1)}
${words.fees.map((cells) => htmlRow(cells, 'td', 1)).join('\n')}
<tr class="total"><td colspan="2">${htmlText(words.total[0])}</td><td class="amount">${htmlText(words.total[1])}</td></tr>
</table>
<div class="terms">
${words.terms.map((line) => `<p>${htmlText(line)}</p>`).join('\n')}
</div></div>
${volume(words)}${proof(words)}${adjustmentsHead(words)}`,

  adjustment: (cells) => `${htmlRow(cells, 'td', 2)}\n`,

  foot: ({ adjustments }) => `${adjustments === null ? '' : '</table>\n'}</body>
</html>
`,
}

const volume = ({ volume: rows }: Words): string =>
  rows === null
    ? ''
    : `<section><h2>Volume</h2>
<table>
${rows.map((cells, at) => htmlRow(cells, 'td', 1, at === rows.length - 1 ? 'sum' : '')).join('\n')}
</table></section>
`

const proof = ({ evidence }: Words): string =>
  evidence === null
    ? ''
    : `<section><h2>${htmlText(evidence.heading)}</h2>
<p>${htmlText(evidence.text)}</p>
${evidence.facts.length === 0 ? '' : facts(evidence.facts, 'code')}
</section>
`

const adjustmentsHead = ({ adjustments }: Words): string =>
  adjustments === null
    ? ''
    : `<h2>${htmlText(adjustments.heading)}</h2>
<table class="small">
<thead>${htmlRow(adjustments.columns, 'th', 2)}</thead>
`

/** The size and foot of every printed page. A number, or a slug and a month, contain no character special to CSS. */
const pageNumbers = ({ name, page }: Words): string =>
  `@page { size: ${page}; margin: 16mm 18mm 18mm; @bottom-left { content: "${name}"; font: 8pt sans-serif; color: #5b6470; }
  @bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; color: #5b6470; } }
`

const party = ({ heading, lines }: Words['parties'][number]): string =>
  `<section><h2>${htmlText(heading)}</h2>${lines.map((line) => `<p>${htmlText(line)}</p>`).join('')}</section>`

const facts = (rows: Words['facts'], tag: 'code' | 'span' = 'span'): string =>
  `<table class="facts">\n${rows
    .map(
      ([label, value]) => `<tr><th>${htmlText(label)}</th><td><${tag}>${htmlText(value)}</${tag}></td></tr>`,
    )
    .join('\n')}\n</table>`

/** A row whose last `amounts` cells are aligned to the right. */
function htmlRow(cells: readonly string[], tag: 'td' | 'th', amounts: number, kind = ''): string {
  const written = cells.map((cell, at) => {
    const right = at >= cells.length - amounts ? ' class="amount"' : ''
    return `<${tag}${right}>${htmlText(cell)}</${tag}>`
  })
  return `<tr${kind === '' ? '' : ` class="${kind}"`}>${written.join('')}</tr>`
}

export const MARKDOWN: Layout = {
  head: (words) =>
    [
      `# ${[words.title, words.number ?? ''].map(escaped).join(' ').trimEnd()}`,
      ...(words.warning === null ? [] : [`**${escaped(words.warning)}**`]),
      ...words.parties.map(
        ({ heading, lines }) => `**${escaped(heading)}**\\\n${lines.map(escapedLine).join('\\\n')}`,
      ),
      table(['', ''], words.facts),
      '## Fees',
      `${table(['Item', 'Arithmetic', 'USD'], words.fees)}\n| **${escaped(words.total[0])}** |  | ${escaped(words.total[1])} |`,
      words.terms.map(escapedLine).join('\n\n'),
      ...(words.volume === null ? [] : ['## Volume', table(['', 'USD'], words.volume)]),
      ...(words.evidence === null ? [] : evidence(words.evidence)),
      ...(words.adjustments === null
        ? []
        : [`## ${words.adjustments.heading}`, tableHead(words.adjustments.columns)]),
    ].join('\n\n'),

  adjustment: (cells) => `\n${markdownRow(cells)}`,

  foot: () => '\n',
}

/** Written as code, so that it can be copied: a slug and a checksum contain nothing that would end it. */
const evidence = ({ heading, text, facts }: NonNullable<Words['evidence']>): string[] => [
  `## ${heading}`,
  text,
  ...(facts.length === 0 ? [] : [facts.map(([label, value]) => `- ${label}: \`${value}\``).join('\n')]),
]

const table = (titles: readonly string[], rows: readonly (readonly string[])[]): string =>
  [tableHead(titles), ...rows.map(markdownRow)].join('\n')

/** Columns of amounts, which are named after their unit, are aligned to the right. */
const tableHead = (titles: readonly string[]): string =>
  `| ${titles.join(' | ')} |\n|${titles.map((title) => (/^(USD|BTC)$/.test(title) ? '---:' : '---')).join('|')}|`

const markdownRow = (cells: readonly string[]): string => `| ${cells.map(escaped).join(' | ')} |`

/** Escapes text from outside, so that it creates no emphasis, link, tag or cell. */
const escaped = (text: string): string =>
  visibleCell(text).replace(/[\\`*{}[\]!|<>~&]|(?<!\w)_|_(?!\w)/g, '\\$&')

/** At the beginning of a line, text could also create a heading or a list. */
const escapedLine = (text: string): string =>
  escaped(text)
    .replace(/^[#+=-]/, '\\$&')
    .replace(/^(\d+)([.)])/, '$1\\$2')

/** The adjustments are left out: they follow one by one. */
export function invoiceJson(invoice: Invoice) {
  const { statement, period, parties, adjusted, evidence } = invoice
  const { tenant, tier, activity, fees } = statement
  return {
    invoice_number: numberOf(invoice),
    partner_slug: tenant.partnerSlug,
    month: period.month,
    period_start: formatInstant(statement.period.start),
    period_end: formatInstant(statement.period.end),
    invoice_date: dateOf(invoice),
    due_date: dueOf(invoice),
    currency: 'USD' as const,
    final: period.final,
    covers_until: formatInstant(period.end),
    issuer: parties && { ...partyJson(parties.issuer), notes: termsOf(invoice) },
    partner: parties && partyJson(parties.partner),
    pricing_tier: tier.name,
    pricing_tier_source: statement.tierSource,
    pricing_tier_reason: tierReason(statement),
    rate_bps: tier.rateBps,
    per_active_user_usd: formatUsd(tier.perActiveUser),
    minimum_fee_usd: formatUsd(fees.minimumFee),
    active_users: activity.activeUsers,
    trade_count: tradesIn(activity),
    fills_usd: formatUsd(fillsOf(invoice)),
    adjustment_count: adjusted.count,
    adjustments_usd: formatUsd(adjusted.usd),
    volume_usd: formatUsd(activity.volume),
    volume_btc: formatBtc(activity.btc),
    lines: feeLines(statement).map(({ item, arithmetic, amount }) => ({
      item,
      arithmetic,
      amount_usd: formatUsd(amount),
    })),
    total_fee_usd: formatUsd(fees.total),
    tax: parties?.tax ? taxJson(parties.tax) : null,
    tax_usd: formatUsd(taxIn(invoice)),
    total_usd: formatUsd((fees.total + taxIn(invoice)) as Usd),
    trades_export: evidence,
  }
}

const taxJson = (tax: Tax) => ({
  kind: tax.kind,
  rate_percent: tax.kind === 'rate' ? String(tax.rateBps / 100) : null,
  why: tax.kind === 'exempt' ? tax.why : null,
})

const partyJson = ({ name, address, country, taxId }: Party) => ({ name, address, country, tax_id: taxId })
