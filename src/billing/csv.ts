// CSV as RFC 4180 has it: CRLF, quotes where they are needed, a header always.

export type Cell = string | number | boolean | null
export type CsvColumn<T> = {
  name: string
  of: (row: T) => Cell
  /** Somebody else's text: a spreadsheet must not take it for a formula. */
  foreign?: true
}

/** The byte order mark by which spreadsheets recognise UTF-8. */
export const BOM = '\uFEFF'

export const csvHeader = <T>(columns: readonly CsvColumn<T>[]): string =>
  csvLine(columns.map(({ name }) => name))

export const csvRow = <T>(columns: readonly CsvColumn<T>[], row: T): string =>
  csvLine(
    columns.map(({ of, foreign }) => {
      const value = of(row)
      return foreign && typeof value === 'string' ? defused(value) : String(value ?? '')
    }),
  )

const csvLine = (cells: readonly string[]): string => `${cells.map(quoted).join(',')}\r\n`

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** A quote in front of what a spreadsheet would otherwise compute. */
const defused = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)
