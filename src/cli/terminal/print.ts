// What a command prints: results on stdout, remarks and warnings on stderr, each in words or as JSON.

import { visible } from '../../core/visible.ts'
import type { PageRequest } from '../../store/paging.ts'
import type { Cli } from '../context.ts'
import { type Column, layTable } from './table.ts'

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

/**
 * Prints a listing, row by row as it is read: one JSON array, or a table whose columns may widen from one page to the
 * next. `after` is the cursor to begin behind, `limit` the most rows.
 */
export async function printList<R, J extends object>(
  cli: Cli,
  listing: {
    read: (page: PageRequest) => Promise<R[]>
    cursor: (row: R) => number | string
    json: (row: R) => J
    columns: Column<J>[]
    after?: PageRequest['after']
    limit?: number
  },
): Promise<void> {
  const { out } = cli.streams
  const { limit = Number.POSITIVE_INFINITY } = listing
  const table = cli.globals().json ? null : await layTable(listing.columns)
  let rows = 0
  for (let after = listing.after ?? null; rows < limit; ) {
    const wanted = Math.min(PAGE_MAX, limit - rows)
    const page = await listing.read({ after, limit: wanted })
    const values = page.map(listing.json)
    if (table && values.length > 0) await write(out, `${table(values)}\n`)
    if (!table)
      for (const [i, value] of values.entries())
        await write(out, `${rows + i === 0 ? '[' : ',\n'}${JSON.stringify(value)}`)
    rows += page.length
    const last = page.at(-1)
    if (page.length < wanted || last === undefined) break
    after = listing.cursor(last)
  }
  if (!table) out.write(rows === 0 ? '[]\n' : ']\n')
  else if (rows === 0) note(cli, 'none')
}

/** Waits when the reader is slower than we are, so that a long listing takes no memory. */
export async function write(out: NodeJS.WritableStream, text: string): Promise<void> {
  if (!out.write(text)) await new Promise((resolve) => out.once('drain', resolve))
}
