// What every command is handed: where to write, which database, which world.

import { Option } from 'commander'
import { Problem } from '../core/problem.ts'
import type { Machine } from '../machine.ts'
import type { AuditEntry } from '../store/audit.ts'
import type { PageRequest } from '../store/paging.ts'
import type { Store } from '../store/store.ts'

export type Streams = {
  out: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  err: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  in: NodeJS.ReadableStream & { isTTY?: boolean }
}

export type Globals = { db: string; json: boolean; color: boolean }

export type Cli = {
  streams: Streams
  machine: Machine
  globals: () => Globals
  /** Opens the database, runs, closes. Only commands that start something new create a missing file. */
  withStore<T>(
    run: (store: Store) => Promise<T>,
    options?: { create?: boolean; cacheKib?: number },
  ): Promise<T>
  /** What is not as it should be, gathered for --json. */
  warnings: string[]
  /** Sets the code the process ends with. */
  exitWith(code: number): void
}

export const dbOption = () =>
  new Option('--db <file>', 'the database file').env('TRANCHE_DB').default('tranche.db')

export function createCli(options: Pick<Cli, 'streams' | 'machine' | 'globals' | 'exitWith'>): Cli {
  return {
    ...options,
    warnings: [],
    async withStore(run, { create = false, ...more } = {}) {
      const { openStore } = await import('../store/sqlite/open.ts')
      const store = await openStore(options.globals().db, { clock: options.machine.clock, create, ...more })
      try {
        return await run(store)
      } finally {
        store.close()
      }
    },
  }
}

/** Prints a command's one result: as JSON for a script, in words for a person. */
export function print(cli: Cli, value: unknown, words: () => string): void {
  cli.streams.out.write(cli.globals().json ? `${JSON.stringify(value)}\n` : `${words()}\n`)
}

/** A remark for the person at the terminal: never a result. */
export function note(cli: Cli, text: string): void {
  if (!cli.globals().json) cli.streams.err.write(`${text}\n`)
}

/** Something is not as it should be, and the command goes on all the same. */
export function warn(cli: Cli, text: string): void {
  // For a script they stand together at the end: what it reads on stderr is one JSON object.
  if (cli.globals().json) cli.warnings.push(text)
  else cli.streams.err.write(`warning: ${text}\n`)
}

export type Column<T> = { title: string; of: (row: T) => string | number | boolean | null; right?: boolean }

const PAGE_MAX = 1_000

/** Prints a listing: one JSON array, or a table. Rows are read page by page and written as they come. */
export async function printList<R, J extends object>(
  cli: Cli,
  listing: {
    read: (page: PageRequest) => Promise<R[]>
    cursor: (row: R) => number | string
    json: (row: R) => J
    columns: Column<J>[]
  },
): Promise<void> {
  const { json } = cli.globals()
  const { out } = cli.streams
  const table: J[] = []
  let rows = 0
  for (let after: number | string | null = null; ; ) {
    const page: R[] = await listing.read({ after, limit: PAGE_MAX })
    for (const row of page) {
      const value = listing.json(row)
      if (json) await write(out, `${rows === 0 ? '[' : ',\n'}${JSON.stringify(value)}`)
      else table.push(value)
      rows += 1
    }
    const last = page.at(-1)
    if (page.length < PAGE_MAX || last === undefined) break
    after = listing.cursor(last)
  }
  if (json) out.write(rows === 0 ? '[]\n' : ']\n')
  else if (rows > 0) out.write(`${await renderTable(listing.columns, table)}\n`)
  else note(cli, 'none')
}

/** Waits when the reader is slower than we are, so that a long listing takes no memory. */
export async function write(out: NodeJS.WritableStream, text: string): Promise<void> {
  if (!out.write(text)) await new Promise((resolve) => out.once('drain', resolve))
}

/** Rows laid out together: the work of cli-table3 grows with the square of them. */
const LAYOUT_ROWS = 64

export async function renderTable<T>(columns: Column<T>[], rows: T[]): Promise<string> {
  const { default: Table } = await import('cli-table3')
  const none = { top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '' }
  const inner = {
    'bottom-left': '',
    'bottom-right': '',
    left: '',
    'left-mid': '',
    mid: '',
    'mid-mid': '',
    right: '',
  }
  const layOut = (part: string[][], colWidths: number[]) => {
    const table = new Table({
      colAligns: columns.map((column) => (column.right ? 'right' : 'left')),
      colWidths: [...colWidths],
      chars: { ...none, ...inner, 'right-mid': '', middle: '  ' },
      style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
    })
    table.push(...part)
    return { text: table.toString(), widths: table.options.colWidths.map(Number) }
  }
  const lines = [columns.map(({ title }) => title)]
  for (const row of rows) lines.push(columns.map((column) => shown(column.of(row))))
  const parts = Array.from({ length: Math.ceil(lines.length / LAYOUT_ROWS) }, (_, i) =>
    lines.slice(i * LAYOUT_ROWS, (i + 1) * LAYOUT_ROWS),
  )
  // Once to learn how wide each column is in all parts, once more with that.
  const widths = parts
    .map((part) => layOut(part, []).widths)
    .reduce((widest, seen) => widest.map((width, i) => Math.max(width, seen[i] ?? 0)))
  return parts
    .flatMap((part) => layOut(part, widths).text.split('\n'))
    .map((line) => line.trimEnd())
    .join('\n')
}

const shown = (value: string | number | boolean | null): string => {
  if (value === null) return '-'
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)
}

/** Names and values of one thing, one a line. */
export function renderFields(fields: Record<string, string | number | boolean | null>): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${shown(value)}`)
    .join('\n')
}

/** Asks before something that hurts, on a terminal only; a script is taken at its word. */
export async function confirmOnTerminal(cli: Cli, question: string): Promise<void> {
  const { streams } = cli
  if (!streams.in.isTTY || !streams.err.isTTY || cli.globals().json) return
  const { createInterface } = await import('node:readline/promises')
  const terminal = createInterface({ input: streams.in, output: streams.err })
  try {
    const answer = await terminal.question(`${question} [y/N] `)
    if (!/^y(es)?$/i.test(answer.trim())) throw new Problem('usage', 'Nothing was changed.')
  } finally {
    terminal.close()
  }
}

/** Who changes what, for the audit log. */
export const auditEntry = (
  cli: Cli,
  action: string,
  subject: string,
  detail: Record<string, unknown> = {},
): AuditEntry => ({
  osUser: cli.machine.osUser(),
  action,
  subject,
  detail,
})
