// An invoice as Markdown: for a mail, a ticket, a repository.

import { visibleCell } from '../../core/visible-text.ts'
import type { Layout, Words } from './printed-lines.ts'

export const MARKDOWN: Layout = {
  head: (words, hasAdjustments) =>
    [
      `# ${[words.title, words.number ?? ''].map(escaped).join(' ').trimEnd()}`,
      ...(words.warning === null ? [] : [`**${escaped(words.warning)}**`]),
      ...words.parties.map(
        ({ heading, lines }) => `**${heading}**\\\n${lines.map(escapedLine).join('\\\n')}`,
      ),
      table(['', ''], words.facts),
      '## Fees',
      `${table(['Item', 'Arithmetic', 'USD'], words.fees)}\n| **${words.total[0]}** |  | ${escaped(words.total[1])} |`,
      words.terms.map(escapedLine).join('\n\n'),
      '## Volume',
      table(['', 'USD'], words.volume),
      `## ${words.evidence.heading}`,
      words.evidence.text,
      ...(words.evidence.facts.length === 0 ? [] : [evidence(words)]),
      `## ${words.adjustments.heading}`,
      hasAdjustments ? tableHead(words.adjustments.columns) : `${words.adjustments.none}\n`,
    ].join('\n\n'),

  adjustment: (cells) => `\n${row(cells)}`,

  foot: (hasAdjustments) => (hasAdjustments ? '\n' : ''),
}

/** As code, so that it can be copied: a slug and a checksum hold nothing that ends it. */
const evidence = ({ evidence: { facts } }: Words): string =>
  facts.map(([label, value]) => `- ${label}: \`${value}\``).join('\n')

const table = (titles: readonly string[], rows: readonly (readonly string[])[]): string =>
  [tableHead(titles), ...rows.map(row)].join('\n')

/** Amounts, in columns that are named for their unit, are on the right. */
const tableHead = (titles: readonly string[]): string =>
  `| ${titles.join(' | ')} |\n|${titles.map((title) => (/^(USD|BTC)$/.test(title) ? '---:' : '---')).join('|')}|`

const row = (cells: readonly string[]): string => `| ${cells.map(escaped).join(' | ')} |`

/** Somebody else's words stay words: none of them makes an emphasis, a link, a tag or a cell. */
const escaped = (text: string): string =>
  visibleCell(text).replace(/[\\`*{}[\]!|<>~&]|(?<!\w)_|_(?!\w)/g, '\\$&')

/** At the beginning of a line they could make a heading or a list as well. */
const escapedLine = (text: string): string =>
  escaped(text)
    .replace(/^[#+=-]/, '\\$&')
    .replace(/^(\d+)([.)])/, '$1\\$2')
