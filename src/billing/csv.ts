// CSV by RFC 4180, written and read: exports and logs are written so, and a partner's list of orders is read so.

import type { Problem } from '../core/problem.ts'

// Written: CRLF, quotes where they are needed, always a header.

export type Cell = string | number | boolean | null
/** A row by the names of its columns. */
export type Row<C extends string = string> = Readonly<Record<C, Cell>>
export type CsvColumn<C extends string = string> = {
  name: C
  /** Text from outside: a spreadsheet must not take it for a formula. */
  foreign?: true
  /** Every text is in quotes, whatever is in it. */
  inQuotes?: true
  /** Figures, instants and our own words, without a character that has a meaning in CSV. */
  plain?: true
}

/** `raw` has no guard against formulas, for programs; `quoted` has all texts in quotes, for spreadsheets. */
export type Texts = 'guarded' | 'raw' | 'quoted'

/** Columns whose texts are written in another way. */
export const writtenAs = (columns: readonly CsvColumn[], texts: Texts = 'guarded'): readonly CsvColumn[] =>
  texts === 'guarded'
    ? columns
    : columns.map((column) =>
        !column.foreign ? column : texts === 'raw' ? { name: column.name } : { ...column, inQuotes: true },
      )

/** The byte order mark by which spreadsheets recognise UTF-8. */
export const BOM = '\uFEFF'

export const csvHeader = (columns: readonly CsvColumn[]): string =>
  `${columns.map(({ name }) => quoted(name)).join(',')}\r\n`

export function csvRow<C extends string>(columns: readonly CsvColumn<C>[], row: Row<C>): string {
  let line = ''
  let separator = ''
  for (const { name, foreign, plain, inQuotes } of columns) {
    const value = row[name] ?? ''
    if (inQuotes && value !== '') line += separator + inQuotesAlways(defused(String(value)))
    else if (plain || isHarmless(value)) line += separator + value
    else line += separator + guarded(value, foreign === true)
    separator = ','
  }
  return `${line}\r\n`
}

/** Whether a cell needs no escaping, which is true of nearly every one. */
const isHarmless = (value: Cell): boolean => typeof value === 'string' && !/^[=+\-@\t\r]|[",\r\n]/.test(value)

const guarded = (value: Cell, isForeign: boolean): string =>
  quoted(isForeign && typeof value === 'string' ? defused(value) : String(value))

const inQuotesAlways = (cell: string): string => `"${cell.replaceAll('"', '""')}"`

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? inQuotesAlways(cell) : cell)

/** A quote in front of what a spreadsheet would otherwise compute. */
const defused = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)

/** Without the quote that keeps a spreadsheet from computing the cell. */
export const unguarded = (cell: string): string => (/^'[=+\-@\t\r]/.test(cell) ? cell.slice(1) : cell)

// Read as it arrives.

/** `line` is where it begins in the file, from 1. */
export type CsvRecord = { line: number; cells: string[] }

/** No cell of a list of orders is longer: a quote that is never closed must not fill the memory. */
const CELL_CHARS_MAX = 64 * 1024

/**
 * RFC 4180, with CRLF, LF or CR. For each piece of the text, the records that it completes: many at once, because a
 * million single steps of an async iterator take longer than reading what they bring. `wrong` makes the error of a
 * line.
 */
export async function* recordsOf(
  text: AsyncIterable<string>,
  wrong: (line: number, why: string) => Problem,
): AsyncGenerator<CsvRecord[]> {
  const reader = createCsvReader(wrong)
  for await (const piece of text) yield reader.read(piece)
  yield reader.end()
}

/** Where the reader is: before a cell, in one, between its quotes, or after the quote that may close it. */
type State = 'before' | 'plain' | 'quoted' | 'closed'

function createCsvReader(wrong: (line: number, why: string) => Problem) {
  let state: State = 'before'
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
    cells = []
  }

  function take(text: string): void {
    cell += text
    if (cell.length > CELL_CHARS_MAX)
      throw wrong(begun, state === 'quoted' ? 'a quote is never closed' : 'this is no list of orders')
  }

  /** Takes one character that means something, or begins a cell. */
  function meet(character: string): void {
    if (state === 'quoted') {
      if (character === '"') state = 'closed'
      else take(character)
      return
    }
    if (character === '"') {
      if (state === 'plain') throw wrong(line, 'a quote stands in the middle of a cell')
      if (state === 'closed') take('"')
      state = 'quoted'
    } else if (character === ',') endCell()
    else if (character === '\n' || character === '\r') endRecord()
    else if (state === 'closed')
      throw wrong(
        line,
        (line === 1 && separatedBy(character)) || 'something follows the quote that ends a cell',
      )
    else {
      state = 'plain'
      take(character)
    }
  }

  function read(text: string): CsvRecord[] {
    complete = []
    for (let at = 0; at < text.length; ) {
      const until = endOfRun(text, at, state)
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
      // In a cell, both halves of a line end are its text; elsewhere they are one end.
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

/** What is wrong with a header whose cells are separated by a character of this text; null if by none. */
export function separatedBy(text: string): string | null {
  const what = text.includes(';') ? 'semicolons' : text.includes('\t') ? 'tabs' : null
  return what && `its cells are separated by ${what}: commas separate the cells of a CSV file`
}

const QUOTED_RUN = /[^"\r\n]*/y
const PLAIN_RUN = /[^",\r\n]*/y

/** How far the text goes on that is only taken. A cell's first character is always looked at. */
function endOfRun(text: string, at: number, state: State): number {
  if (state === 'before' || state === 'closed') return at
  const run = state === 'quoted' ? QUOTED_RUN : PLAIN_RUN
  run.lastIndex = at
  run.test(text)
  return run.lastIndex
}
