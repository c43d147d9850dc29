// CSV as RFC 4180 has it: CRLF, quotes where they are needed, a header always.

export type Cell = string | number | boolean | null
/** A record by the names of its columns. */
export type Row<C extends string = string> = Readonly<Record<C, Cell>>
export type CsvColumn<C extends string = string> = {
  name: C
  /** Somebody else's text: a spreadsheet must not take it for a formula. */
  foreign?: true
  /** Figures, instants and words of ours, without a character that means something in CSV. */
  plain?: true
}

/** The byte order mark by which spreadsheets recognise UTF-8. */
export const BOM = '\uFEFF'

export const csvHeader = (columns: readonly CsvColumn[]): string =>
  `${columns.map(({ name }) => quoted(name)).join(',')}\r\n`

export function csvRow<C extends string>(columns: readonly CsvColumn<C>[], row: Row<C>): string {
  let line = ''
  let separator = ''
  for (const { name, foreign, plain } of columns) {
    const value = row[name] ?? ''
    line += plain || isHarmless(value) ? separator + value : separator + guarded(value, foreign === true)
    separator = ','
  }
  return `${line}\r\n`
}

/** What nearly every cell is: one look at it is enough. */
const isHarmless = (value: Cell): boolean => typeof value === 'string' && !/^[=+\-@\t\r]|[",\r\n]/.test(value)

const guarded = (value: Cell, isForeign: boolean): string =>
  quoted(isForeign && typeof value === 'string' ? defused(value) : String(value))

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** A quote in front of what a spreadsheet would otherwise compute. */
const defused = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)
