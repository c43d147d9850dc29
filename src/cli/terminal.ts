// The terminal: results on stdout, remarks and warnings on stderr, as text or as JSON; tables, colours, progress,
// questions, and signals to stop.

import { stripVTControlCharacters, styleText } from 'node:util'
import { usage } from '../core/problem.ts'
import { cut, visible, visibleCell } from '../core/text.ts'
import type { PageRequest } from '../store/store.ts'
import type { Cli, Streams } from './context.ts'

/** Prints a command's one result: as JSON for a script, in words for a person. */
export function print(cli: Cli, value: unknown, words: () => string): void {
  cli.streams.out.write(cli.globals().json ? `${JSON.stringify(value)}\n` : `${words()}\n`)
}

export const printFields = (cli: Cli, fields: Fields): void => print(cli, fields, () => renderFields(fields))

/** The result of a command that wrote files: JSON for a script, a remark for a person. */
export function printWritten(cli: Cli, value: unknown, words: string): void {
  if (cli.globals().json) print(cli, value, () => '')
  else note(cli, words)
}

/** A remark for a person at the terminal, on one line; never a result. */
export function note(cli: Cli, text: string): void {
  if (!cli.globals().json) cli.streams.err.write(`${visible(text)}\n`)
}

export function warn(cli: Cli, text: string): void {
  // For a script, warnings are collected until the end, so that stderr is a single JSON object.
  if (cli.globals().json) cli.warnings.push(text)
  else cli.streams.err.write(`warning: ${visible(text)}\n`)
}

const PAGE_MAX = 1_000

/** A listing that is read page by page, each from the cursor of the last row before it. */
export type Listing<R> = {
  read: (page: PageRequest) => Promise<R[]>
  cursor: (row: R) => number | string
  /** The cursor after which to begin. */
  after?: PageRequest['after']
  limit?: number
}

export async function* pagesOf<R>({ read, cursor, after = null, limit }: Listing<R>): AsyncGenerator<R[]> {
  let left = limit ?? Number.POSITIVE_INFINITY
  for (let from = after; left > 0; ) {
    const wanted = Math.min(PAGE_MAX, left)
    const page = await read({ after: from, limit: wanted })
    yield page
    left -= page.length
    const last = page.at(-1)
    if (page.length < wanted || last === undefined) return
    from = cursor(last)
  }
}

/** `none` says on stderr that there are no rows. */
type Shape<R, J> = { json: (row: R) => J; columns: Column<J>[]; none: string }

/** Prints a listing as it is read: one JSON array, or a table whose columns may widen from page to page. */
export const printList = <R, J extends object>(cli: Cli, listing: Listing<R> & Shape<R, J>): Promise<void> =>
  printPages(cli, pagesOf(listing), listing)

export async function printPages<R, J extends object>(
  cli: Cli,
  pages: AsyncIterable<R[]> | Iterable<R[]>,
  { json, columns, none }: Shape<R, J>,
): Promise<void> {
  const { out } = cli.streams
  const table = cli.globals().json ? null : await layTable(columns)
  let rows = 0
  for await (const page of pages) {
    const values = page.map(json)
    if (table && values.length > 0) await write(out, `${table(values)}\n`)
    if (!table)
      for (const [i, value] of values.entries())
        await write(out, `${rows + i === 0 ? '[' : ',\n'}${JSON.stringify(value)}`)
    rows += page.length
  }
  if (!table) out.write(rows === 0 ? '[]\n' : ']\n')
  else if (rows === 0) note(cli, none)
}

/** Waits when the reader is slower than we are, so that a long listing does not fill up memory. */
export async function write(out: NodeJS.WritableStream, text: string): Promise<void> {
  if (!out.write(text)) await new Promise((resolve) => out.once('drain', resolve))
}

// Rows as a table, and one thing as a list of fields. Their values may be text from outside; each stays on its own
// line.

type Value = string | number | boolean | null

export type Column<T> = { title: string; of: (row: T) => Value; right?: boolean }

/** The titles and one line a row, in columns as wide as their widest cell, two spaces between them. */
export async function renderTable<T>(columns: Column<T>[], rows: T[]): Promise<string> {
  return (await layTable(columns))(rows)
}

/**
 * Lays a table out in parts: the function that it returns gives the lines of some rows, with the titles before the
 * first. A column is as wide as its widest cell so far.
 */
export async function layTable<T>(columns: Column<T>[]): Promise<(rows: T[]) => string> {
  const [{ default: Table }, { default: columnsOf }] = await Promise.all([
    import('cli-table3'),
    import('string-width'),
  ])
  const colAligns = columns.map(({ right }) => (right ? 'right' : 'left'))
  const colWidths = columns.map(() => 1)
  let lines: string[][] = [columns.map(({ title }) => title)]
  // A table of its own for each line: the work of laying out many together grows with the square of their number.
  const layOut = (cells: string[]): string => {
    const table = new Table({ chars: TWO_SPACES, style: NO_PADDING, colAligns, colWidths })
    table.push(cells)
    return table.toString().trimEnd()
  }
  return (rows) => {
    for (const row of rows) lines.push(columns.map((column) => valueText(column.of(row))))
    for (const cells of lines)
      for (const [i, text] of cells.entries()) colWidths[i] = Math.max(colWidths[i] ?? 1, columnsOf(text))
    const text = lines.map(layOut).join('\n')
    lines = []
    return text
  }
}

/** The parts of a frame, as cli-table3 names them. */
const FRAME = [
  ...['top', 'top-mid', 'top-left', 'top-right'],
  ...['bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
  ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'],
]
const TWO_SPACES = { ...Object.fromEntries(FRAME.map((part) => [part, ''])), middle: '  ' }
const NO_PADDING = { 'padding-left': 0, 'padding-right': 0, head: [], border: [] }

const valueText = (value: Value | undefined): string => {
  if (value === null || value === undefined) return '-'
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : visibleCell(String(value))
}

type Fields = Readonly<Record<string, Value | undefined>>

/** Names and values of one thing, one a line. */
export function renderFields(fields: Fields): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${valueText(value)}`)
    .join('\n')
}

/** A table under something else; nothing without rows. */
export const tableBelow = async <T>(columns: Column<T>[], rows: T[]): Promise<string> =>
  rows.length === 0 ? '' : `\n\n${await renderTable(columns, rows)}`

export type Style = 'bold' | 'dim' | 'green' | 'yellow' | 'red' | 'cyan'
export type Paint = (style: Style, text: string) => string

/** Colours only on a terminal, and never with NO_COLOR or --no-color. */
export function createPaint(out: Streams['out'], wanted: boolean): Paint {
  if (!wanted || !out.isTTY) return (_, text) => text
  return (style, text) => styleText(style, text, { stream: out })
}

// How wide text is on a terminal, and where it is cut to fit. A table counts columns, of which a wide character takes
// two; everything else counts characters.

/** In characters. Colours take no room. */
const widthOf = (text: string): number => [...stripVTControlCharacters(text)].length

/** Counted in characters; the terminal cuts a name of wide ones. No text can break out of its column. */
export const clipped = (text: string, room: number): string => cut(visibleCell(text), room)

/** Like `clipped`, but keeps the end. */
export const clippedLeft = (text: string, room: number): string => {
  const characters = [...visibleCell(text)]
  return characters.length <= room
    ? characters.join('')
    : `…${characters.slice(characters.length - room + 1).join('')}`
}

/** Lines of at most `width`, unless a word is longer. */
export function wrapped(text: string, width: number): string[] {
  return text.split('\n').flatMap((part) => {
    const lines: string[] = []
    let line = ''
    for (const word of part.split(' ').filter((one) => one !== '')) {
      if (line !== '' && widthOf(line) + 1 + widthOf(word) > width) {
        lines.push(line)
        line = ''
      }
      line += line === '' ? word : ` ${word}`
    }
    return [...lines, line]
  })
}

// The progress bar: on stderr, for a person at a terminal; nothing is drawn elsewhere.

const WIDTH = 40

type Progress = { show: (share: number) => void; clear: () => void }

/** `label` describes a share from 0 to 1. Redraws only when a whole percent more is done. */
export function createProgress({ err }: Pick<Streams, 'err'>, label: (share: number) => string): Progress {
  if (!err.isTTY) return { show: () => {}, clear: () => {} }
  let shown = -1
  return {
    show(share) {
      const percent = Math.floor(Math.min(1, share) * 100)
      if (percent === shown) return
      shown = percent
      const done = Math.round((percent / 100) * WIDTH)
      const bar = '█'.repeat(done) + '░'.repeat(WIDTH - done)
      // The label may be shorter than the last one was.
      err.write(`\r${bar} ${String(percent).padStart(3)} %  ${label(share)}\x1b[K`)
    },
    clear: () => err.write('\r\x1b[K'),
  }
}

/** Whether a person can be asked: stdin and stderr are a terminal, and no script wants JSON. */
export const mayAsk = ({ streams, globals }: Cli): boolean =>
  Boolean(streams.in.isTTY && streams.err.isTTY && !globals().json)

/** Ctrl-C at a question, which is neither yes nor no, or in the middle of work that reports its progress. */
export class Interrupted extends Error {
  constructor(message = 'Interrupted; nothing was changed.') {
    super(message)
  }
}

/** Asks for a line. At the end of the terminal's input it is empty. Throws Interrupted when Ctrl-C is pressed. */
export async function askLine(cli: Cli, question: string): Promise<string> {
  // Input that has ended emits no second end.
  if (cli.streams.in.readableEnded) return ''
  const { createInterface } = await import('node:readline/promises')
  const terminal = createInterface({ input: cli.streams.in, output: cli.streams.err })
  const ended = new Promise<string>((resolve) => terminal.once('close', () => resolve('')))
  const interrupted = new Promise<never>((_, reject) => {
    terminal.once('SIGINT', () => {
      // The terminal echoes no line break for Ctrl-C.
      cli.streams.err.write('\n')
      reject(new Interrupted())
    })
  })
  try {
    const answer = await Promise.race([terminal.question(`${visible(question)} `), interrupted, ended])
    return answer.trim()
  } finally {
    terminal.close()
  }
}

/** How many useless answers are accepted: at the end of the input, every answer is empty. */
const TRIES = 5

/** Asks until `read` takes the answer, a few times. Throws usage then, with what `read` said last. */
export async function ask<T>(cli: Cli, question: string, read: (answer: string) => T): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const answer = await askLine(cli, question)
    try {
      return read(answer)
    } catch (error) {
      if (tries === TRIES) throw usage(`${(error as Error).message} Nothing was changed.`)
      note(cli, (error as Error).message)
    }
  }
}

/** Undefined for an empty answer. Throws as above. */
export const askOptional = <T>(cli: Cli, question: string, read: (answer: string) => T) =>
  ask(cli, question, (answer) => (answer === '' ? undefined : read(answer)))

/** Asks on a terminal only. Throws usage unless the answer is yes, and Interrupted when Ctrl-C is pressed. */
export async function confirmOnTerminal(cli: Cli, question: string): Promise<void> {
  if (!mayAsk(cli)) return
  const answer = await askLine(cli, `${question} [y/N]`)
  if (!isYes(answer)) throw usage('Nothing was changed.')
}

/** For changes that cannot be undone: asks on a terminal; anywhere else `yes` is required. Throws as above. */
export async function confirmForGood(
  cli: Cli,
  { yes, what, question }: { yes: boolean; what: string; question: string },
): Promise<void> {
  if (yes) return
  if (!mayAsk(cli)) throw usage(`${what}: without a terminal, add --yes.`)
  await confirmOnTerminal(cli, question)
}

export const YES = ['--yes', 'do not ask; needed where there is no terminal'] as const

export const isYes = (answer: string): boolean => /^y(es)?$/i.test(answer)

// Signals to stop, while a command has something to finish.

/** Ctrl-C, and what a service manager sends. */
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']
/** Only where something must be restored: to hear the closing of the terminal would undo `nohup`. */
export const STOP_OR_HANG_UP: typeof STOP_SIGNALS = [...STOP_SIGNALS, 'SIGHUP']

/** Calls `heard` at every signal to stop, until the function that it returns is called. */
export function onStopSignal(heard: (signal: NodeJS.Signals) => void, names = STOP_SIGNALS): () => void {
  for (const name of names) process.on(name, heard)
  return () => {
    for (const name of names) process.off(name, heard)
  }
}

/**
 * The first signal to stop aborts `signal`, with its name as the reason, so that the work under way can finish. A
 * second one calls `endNow`, which ends the process at once.
 */
export function stopGently(endNow: () => never, names = STOP_SIGNALS) {
  const control = new AbortController()
  const release = onStopSignal((name) => {
    if (control.signal.aborted) endNow()
    control.abort(name)
  }, names)
  return { signal: control.signal, release }
}
