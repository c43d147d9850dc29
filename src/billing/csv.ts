// CSV as RFC 4180 has it: CRLF, quotes where they are needed, a header always.

export type Cell = string | number | boolean | null
export type CsvColumn<T> = {
  name: string
  of: (row: T) => Cell
  /** Somebody else's text: a spreadsheet must not take it for a formula. */
  foreign?: true
  /** Figures, instants and words of ours, without a character that means something in CSV. */
  plain?: true
}

/** The byte order mark by which spreadsheets recognise UTF-8. */
export const BOM = '\uFEFF'

export const csvHeader = <T>(columns: readonly CsvColumn<T>[]): string =>
  `${columns.map(({ name }) => quoted(name)).join(',')}\r\n`

export function csvRow<T>(columns: readonly CsvColumn<T>[], row: T): string {
  let line = ''
  let separator = ''
  for (const { of, foreign, plain } of columns) {
    const value = of(row) ?? ''
    if (plain) line += separator + value
    else line += separator + quoted(foreign && typeof value === 'string' ? defused(value) : String(value))
    separator = ','
  }
  return `${line}\r\n`
}

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** A quote in front of what a spreadsheet would otherwise compute. */
const defused = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)
