// What a command prints: results on stdout, remarks and warnings on stderr, each in words or as JSON.

import { visible } from '../../core/visible.ts'
import type { PageRequest } from '../../store/paging.ts'
import type { Cli } from '../context.ts'
import { type Column, renderTable } from './table.ts'

/** Prints a command's one result: as JSON for a script, in words for a person. */
export function print(cli: Cli, value: unknown, words: () => string): void {
  cli.streams.out.write(cli.globals().json ? `${JSON.stringify(value)}\n` : `${words()}\n`)
}

/** A remark for the person at the terminal, on one line: never a result. */
export function note(cli: Cli, text: string): void {
  if (!cli.globals().json) cli.streams.err.write(`${visible(text)}\n`)
}

/** Something is not as it should be, and the command goes on all the same. */
export function warn(cli: Cli, text: string): void {
  // For a script they come together at the end: what it reads on stderr is one JSON object.
  if (cli.globals().json) cli.warnings.push(text)
  else cli.streams.err.write(`warning: ${visible(text)}\n`)
}

const PAGE_MAX = 1_000

/** Prints a listing: one JSON array, each row written as it is read, or a table, which needs them all. */
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
