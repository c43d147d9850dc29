// Rows as a table, and one thing as a list of fields. What they hold may be anybody's words: each keeps to its line.

import { visibleCell } from '../../core/visible.ts'

type Value = string | number | boolean | null

export type Column<T> = { title: string; of: (row: T) => Value; right?: boolean }

/** The titles and one line a row, in columns as wide as their widest cell. */
export async function renderTable<T>(columns: Column<T>[], rows: T[]): Promise<string> {
  const [{ default: Table }, { default: stringWidth }] = await Promise.all([
    import('cli-table3'),
    import('string-width'),
  ])
  const lines = [columns.map(({ title }) => title)]
  for (const row of rows) lines.push(columns.map((column) => shown(column.of(row))))
  const colWidths = columns.map((_, i) =>
    lines.reduce((widest, cells) => Math.max(widest, stringWidth(cells[i] ?? '')), 1),
  )
  const colAligns = columns.map(({ right }) => (right ? 'right' : 'left'))
  // Each line is a table of its own: the work of laying out many together grows with the square of their number.
  const layOut = (cells: string[]): string => {
    const table = new Table({ ...PLAIN, colAligns, colWidths })
    table.push(cells)
    return table.toString()
  }
  return lines.map((cells) => layOut(cells).trimEnd()).join('\n')
}

/** No rules and no colours: two spaces between the columns. */
const PLAIN = {
  chars: {
    top: '',
    'top-mid': '',
    'top-left': '',
    'top-right': '',
    bottom: '',
    'bottom-mid': '',
    'bottom-left': '',
    'bottom-right': '',
    left: '',
    'left-mid': '',
    mid: '',
    'mid-mid': '',
    right: '',
    'right-mid': '',
    middle: '  ',
  },
  style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
}

const shown = (value: Value): string => {
  if (value === null) return '-'
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : visibleCell(String(value))
}

/** Names and values of one thing, one a line. */
export function renderFields(fields: Record<string, Value>): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${shown(value)}`)
    .join('\n')
}
