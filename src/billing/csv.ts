// CSV by RFC 4180: exports and logs are written, and a partner's list of orders is read.

import type { Problem } from '../core/problem.ts'

// Written: CRLF, quotes where they are needed, always a header.

export type Cell = string | number | boolean | null
export type Row<C extends string = string> = Readonly<Record<C, Cell>>
export type CsvColumn<C extends string = string> = {
  name: C
  /** Text from outside, which a spreadsheet must not take for a formula. */
  foreign?: true
  /** Every text is quoted, whatever it contains. */
  inQuotes?: true
  /** Figures, instants and our own words, without a character that has a meaning in CSV. */
  plain?: true
}

/** `raw` has no guard against formulas, for programs; `quoted` has all texts in quotes, for spreadsheets. */
export type Texts = 'guarded' | 'raw' | 'quoted'

export const writtenAs = (columns: readonly CsvColumn[], texts: Texts = 'guarded'): readonly CsvColumn[] =>
  texts === 'guarded'
    ? columns
    : columns.map((column) =>
        !column.foreign ? column : texts === 'raw' ? { name: column.name } : { ...column, inQuotes: true },
      )

export const DELIMITERS = { ',': ',', ';': ';', tab: '\t' } as const
export type Delimiter = (typeof DELIMITERS)[keyof typeof DELIMITERS]
/** The form of a file: its delimiter, and figures and times as programs read them, or spreadsheets of a country. */
export type CsvForm = { delimiter: Delimiter; decimalComma: boolean; spreadsheetTimes: boolean }
export const STANDARD: CsvForm = { delimiter: ',', decimalComma: false, spreadsheetTimes: false }

export const BOM = '\uFEFF'

export const csvHeader = (columns: readonly CsvColumn[], { delimiter } = STANDARD): string =>
  `${columns.map(({ name }) => quoted(name, delimiter)).join(delimiter)}\r\n`

export function csvRow<C extends string>(
  columns: readonly CsvColumn<C>[],
  row: Row<C>,
  form: CsvForm = STANDARD,
): string {
  const { delimiter } = form
  let line = ''
  let separator = ''
  for (const { name, foreign, plain, inQuotes } of columns) {
    const value = row[name] ?? ''
    if (inQuotes && value !== '') line += separator + inQuotesAlways(defused(String(value)))
    else if (plain) line += separator + (form === STANDARD ? value : plainText(String(value), form))
    else if (typeof value !== 'string') line += separator + quoted(String(value), delimiter)
    // Nearly every text needs no escaping.
    else if (!HARMFUL[delimiter].test(value)) line += separator + value
    else line += separator + quoted(foreign ? defused(value) : value, delimiter)
    separator = delimiter
  }
  return `${line}\r\n`
}

const HARMFUL = { ',': /^[=+\-@\t\r]|[",\r\n]/, ';': /^[=+\-@\t\r]|[";\r\n]/, '\t': /^[=+\-@]|["\t\r\n]/ }

const inQuotesAlways = (cell: string): string => `"${cell.replaceAll('"', '""')}"`

const quoted = (cell: string, delimiter: Delimiter): string =>
  /["\r\n]/.test(cell) || cell.includes(delimiter) ? inQuotesAlways(cell) : cell

/** A figure, an instant or a word of ours, in a form that a spreadsheet reads as a number or a date. */
function plainText(cell: string, { decimalComma, spreadsheetTimes }: CsvForm): string {
  if (decimalComma && /^-?\d+\.\d+$/.test(cell)) return cell.replace('.', ',')
  if (spreadsheetTimes && INSTANT.test(cell)) return cell.replace(INSTANT, '$1 $2')
  return cell
}

/** An instant written by `formatInstant`: no spreadsheet knows the T, the milliseconds and the Z together. */
const INSTANT = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z$/

/** Puts a quote in front of text that a spreadsheet would otherwise compute. */
const defused = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)

export const unguarded = (cell: string): string => (/^'[=+\-@\t\r]/.test(cell) ? cell.slice(1) : cell)

/** `line` is where it begins in the file, from 1. */
export type CsvRecord = { line: number; cells: string[] }

/** The longest cell of a list of orders: a quote that is never closed must not fill the memory. */
const CELL_CHARS_MAX = 64 * 1024

/** Reads RFC 4180 with CRLF, LF or CR, in batches: a million single steps of an async iterator take long. */
export async function* recordsOf(
  text: AsyncIterable<string>,
  { delimiter, wrong }: CsvReading,
): AsyncGenerator<CsvRecord[]> {
  const reader = createCsvReader({ delimiter, wrong })
  for await (const piece of text) yield reader.read(piece)
  yield reader.end()
}

type CsvReading = { delimiter: Delimiter; wrong: (line: number, why: string) => Problem }

/** Where the reader is: before a cell, in one, between its quotes, or after the quote that may close it. */
type State = 'before' | 'plain' | 'quoted' | 'closed'

function createCsvReader({ delimiter, wrong }: CsvReading) {
  const plainRun = PLAIN_RUN[delimiter]
  let state: State = 'before'
  /** The first record, which shows whether the file uses another delimiter. */
  let header: string[] | null = null
  let afterCr = false
  let line = 1
  let begun = 1
  let cell = ''
  let cells: string[] = []
  let complete: CsvRecord[] = []

  function endCell(): void {
    cells.push(cell)
    cell = ''
    state = 'before'
  }

  function endRecord(): void {
    endCell()
    complete.push({ line: begun, cells })
    header ??= cells
    cells = []
  }

  /** The problem of a quote where none can be. If the whole header is one cell, the delimiter is the cause. */
  function misquoted(why: string): Problem {
    const first = header ?? [...cells, cell]
    const other = first.length === 1 ? separatedBy(first[0] ?? '', delimiter) : null
    return other === null ? wrong(line, why) : wrong(1, other)
  }

  function take(text: string): void {
    cell += text
    if (cell.length > CELL_CHARS_MAX)
      throw wrong(begun, state === 'quoted' ? 'a quote is never closed' : 'this is no list of orders')
  }

  function meet(character: string): void {
    if (state === 'quoted') {
      if (character === '"') state = 'closed'
      else take(character)
      return
    }
    if (character === '"') {
      if (state === 'plain') throw misquoted('a quote stands in the middle of a cell')
      if (state === 'closed') take('"')
      state = 'quoted'
    } else if (character === delimiter) endCell()
    else if (character === '\n' || character === '\r') endRecord()
    else if (state === 'closed') {
      cell += character
      throw misquoted('something follows the quote that ends a cell')
    } else {
      state = 'plain'
      take(character)
    }
  }

  function read(text: string): CsvRecord[] {
    complete = []
    for (let at = 0; at < text.length; ) {
      const until = endOfRun(text, at, state === 'quoted' ? QUOTED_RUN : state === 'plain' ? plainRun : null)
      if (until > at) {
        take(text.slice(at, until))
        at = until
        afterCr = false
        continue
      }
      const character = text.charAt(at)
      at += 1
      const isSecondHalf = afterCr && character === '\n'
      afterCr = character === '\r'
      if (!isSecondHalf && (character === '\n' || character === '\r')) line += 1
      // Inside quotes, both characters of a line end are text; elsewhere they are one line end.
      if (!isSecondHalf || state === 'quoted') meet(character)
      if (cells.length === 0 && state === 'before') begun = line
    }
    return complete
  }

  return {
    read,
    end(): CsvRecord[] {
      complete = []
      if (state === 'quoted') throw wrong(begun, 'a quote is never closed')
      if (cells.length > 0 || state !== 'before') endRecord()
      return complete
    },
  }
}

/** The problem of a header that is one cell because it uses another delimiter; null if there is none. */
export function separatedBy(text: string, delimiter: Delimiter): string | null {
  const others = Object.entries(DELIMITERS).filter(([, one]) => one !== delimiter)
  const other = others.find(([, one]) => text.includes(one))
  if (!other) return null
  const [name, mark] = other
  const option = name === mark ? `'${name}'` : name
  return `its cells are separated by ${NAMES[mark]}, not by ${NAMES[delimiter]}: --delimiter ${option} reads it`
}

const NAMES = { ',': 'commas', ';': 'semicolons', '\t': 'tabs' }

const QUOTED_RUN = /[^"\r\n]*/y
const PLAIN_RUN = { ',': /[^",\r\n]*/y, ';': /[^";\r\n]*/y, '\t': /[^"\t\r\n]*/y }

/** The end of a run of characters without a meaning. A cell's first character is always examined. */
function endOfRun(text: string, at: number, run: RegExp | null): number {
  if (run === null) return at
  run.lastIndex = at
  run.test(text)
  return run.lastIndex
}
