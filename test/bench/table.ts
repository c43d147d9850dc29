// A report as a table for a terminal.

import Table from 'cli-table3'
import type { Report } from './report.ts'
import { type Failure, hasFailed, type Result } from './row.ts'
import { besideOf, goalsOf, mainOf, ratiosOf } from './words.ts'

const WIDTHS = [30, 30, 32, 30, 42]

/** One row for each contestant; ratios and goals are beside the first. */
export function tableOf(rows: Report['rows']): string {
  const table = new Table({
    head: ['what', 'who', 'median (least to most)', 'beside it', 'ratios and goals'],
    colWidths: WIDTHS,
    wordWrap: true,
    style: { head: [], border: [], compact: false },
  })
  for (const row of rows) table.push(...(hasFailed(row) ? failed(row) : measured(row)))
  return table.toString()
}

function measured(row: Result): Table.HorizontalTableRow[] {
  const { name, what, on, contestants, notes } = row
  const span = contestants.length
  const first = { rowSpan: span, content: [`${name}:`, what, `(${on})`].join('\n') }
  const last = { rowSpan: span, content: [...ratiosOf(row), ...goalsInWords(row), ...notes].join('\n') }
  return contestants.map((contestant, i) => {
    const own = [contestant.name, mainOf(row, contestant), besideOf(row, contestant).join('\n')]
    return i === 0 ? [first, ...own, last] : own
  })
}

const goalsInWords = (row: Result): string[] =>
  goalsOf(row).map(({ words, verdict }) => `${words}: ${verdict}`)

const failed = ({ name, what, failed }: Failure): Table.HorizontalTableRow[] => [
  [`${name}:\n${what}`, { colSpan: 4, content: `NOT MEASURED: ${failed}` }],
]
