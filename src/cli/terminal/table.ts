// Rows as a table, and one thing as a list of fields. What they hold may be anybody's words: each keeps to its line.

import { visibleCell } from '../../core/visible.ts'

type Value = string | number | boolean | null

export type Column<T> = { title: string; of: (row: T) => Value; right?: boolean }

/** The titles and one line a row, in columns as wide as their widest cell, two spaces between them. */
export async function renderTable<T>(columns: Column<T>[], rows: T[]): Promise<string> {
  return (await layTable(columns))(rows)
}

/**
 * Lays a table out in parts, for listings without end: what it answers gives the lines of some rows, the titles first of
 * all. A column is as wide as its widest cell so far, so a part never gets narrower than the one before.
 */
export async function layTable<T>(columns: Column<T>[]): Promise<(rows: T[]) => string> {
  const { default: stringWidth } = await import('string-width')
  const widths = columns.map(() => 1)
  let lines: string[][] = [columns.map(({ title }) => title)]
  return (rows) => {
    for (const row of rows) lines.push(columns.map((column) => shown(column.of(row))))
    const measured = lines.map((cells) => cells.map((text) => ({ text, width: stringWidth(text) })))
    for (const cells of measured)
      for (const [i, { width }] of cells.entries()) widths[i] = Math.max(widths[i] ?? 1, width)
    lines = []
    const aligned = ({ text, width }: { text: string; width: number }, i: number): string => {
      const blanks = ' '.repeat((widths[i] ?? width) - width)
      return columns[i]?.right ? blanks + text : text + blanks
    }
    return measured.map((cells) => cells.map(aligned).join('  ').trimEnd()).join('\n')
  }
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
