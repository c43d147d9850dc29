// An invoice as Markdown: for a mail, a ticket, a repository.

import { visibleCell } from '../../core/visible.ts'
import type { Layout, Words } from './words.ts'

export const MARKDOWN: Layout = {
  head: (words, hasAdjustments) =>
    [
      `# ${escaped(words.title)} ${escaped(words.number)}`,
      ...(words.warning === null ? [] : [`**${escaped(words.warning)}**`]),
      ...words.parties.map(({ heading, lines }) => `**${heading}**\\\n${lines.map(escaped).join('\\\n')}`),
      table(['', ''], words.facts),
      '## Fees',
      table(['Item', 'Arithmetic', 'USD'], [...words.fees, ['**Total**', '', words.total[1]]]),
      '## Volume',
      table(['', 'USD'], words.volume),
      `## ${words.adjustments.heading}`,
      hasAdjustments ? tableHead(words.adjustments.columns) : `${words.adjustments.none}\n`,
    ].join('\n\n'),

  adjustment: (cells) => `\n${row(cells)}`,

  foot: (words, hasAdjustments) =>
    `${hasAdjustments ? '\n\n' : '\n'}${[
      `## ${words.evidence.heading}`,
      words.evidence.text,
      ...(words.evidence.facts.length === 0 ? [] : [evidence(words)]),
      words.notes.map(escaped).join('\n\n'),
    ].join('\n\n')}\n`,
}

/** As code, so that it can be copied: a slug and a checksum hold nothing that ends it. */
const evidence = ({ evidence: { facts } }: Words): string =>
  facts.map(([label, value]) => `- ${label}: \`${value}\``).join('\n')

const table = (titles: readonly string[], rows: readonly (readonly string[])[]): string =>
  [tableHead(titles), ...rows.map(row)].join('\n')

/** Amounts, in columns that are named for their unit, stand on the right. */
const tableHead = (titles: readonly string[]): string =>
  `| ${titles.join(' | ')} |\n|${titles.map((title) => (/^(USD|BTC)$/.test(title) ? '---:' : '---')).join('|')}|`

const row = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => (cell.startsWith('**') ? cell : escaped(cell))).join(' | ')} |`

/** Somebody else's words stay words: none of them begins a heading, a list, an emphasis, a link or a tag. */
const escaped = (text: string): string =>
  visibleCell(text)
    .replace(/[\\`*{}[\]!|<>~&]|(?<!\w)_|_(?!\w)/g, '\\$&')
    .replace(/^([#+=-])/, '\\$1')
    .replace(/^(\d+)([.)])/, '$1\\$2')
