// Rows as a table, and one thing as a list of fields. Their values may be anybody's text; each is kept on its own line.

import { visibleCell } from '../../core/visible-text.ts'
import { measureColumns } from './text-width.ts'

type Value = string | number | boolean | null

export type Column<T> = { title: string; of: (row: T) => Value; right?: boolean }

/** The titles and one line a row, in columns as wide as their widest cell, two spaces between them. */
export async function renderTable<T>(columns: Column<T>[], rows: T[]): Promise<string> {
  return (await layTable(columns))(rows)
}

/**
 * Lays a table out in parts, for listings of any length: the function that it returns gives the lines of some rows,
 * with the titles before the first. A column is as wide as its widest cell so far, so a part is never narrower than the
 * one before.
 */
export async function layTable<T>(columns: Column<T>[]): Promise<(rows: T[]) => string> {
  const [{ default: Table }, columnsOf] = await Promise.all([import('cli-table3'), measureColumns()])
  const colAligns = columns.map(({ right }) => (right ? 'right' : 'left'))
  const colWidths = columns.map(() => 1)
  let lines: string[][] = [columns.map(({ title }) => title)]
  // Each line is a table of its own: the work of laying out many together grows with the square of their number.
  const layOut = (cells: string[]): string => {
    const table = new Table({ ...PLAIN, colAligns, colWidths })
    table.push(cells)
    return table.toString().trimEnd()
  }
  return (rows) => {
    for (const row of rows) lines.push(columns.map((column) => shown(column.of(row))))
    for (const cells of lines)
      for (const [i, text] of cells.entries()) colWidths[i] = Math.max(colWidths[i] ?? 1, columnsOf(text))
    const text = lines.map(layOut).join('\n')
    lines = []
    return text
  }
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

const shown = (value: Value | undefined): string => {
  if (value === null || value === undefined) return '-'
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : visibleCell(String(value))
}

/** Names and values of one thing, one a line. */
export function renderFields(fields: Record<string, Value | undefined>): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${shown(value)}`)
    .join('\n')
}
