// What a command prints: results on stdout, remarks and warnings on stderr, each as text or as JSON.

import { visible } from '../../core/visible-text.ts'
import type { PageRequest } from '../../store/paging.ts'
import type { Cli } from '../context.ts'
import { type Column, layTable } from './table.ts'

/** Prints a command's one result: as JSON for a script, in words for a person. */
export function print(cli: Cli, value: unknown, words: () => string): void {
  cli.streams.out.write(cli.globals().json ? `${JSON.stringify(value)}\n` : `${words()}\n`)
}

/** A remark for a person at the terminal, on one line; never a result. */
export function note(cli: Cli, text: string): void {
  if (!cli.globals().json) cli.streams.err.write(`${visible(text)}\n`)
}

/** Something is not as it should be, but the command goes on. */
export function warn(cli: Cli, text: string): void {
  // For a script, warnings are collected until the end: what it reads on stderr is a single JSON object.
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
  /** The most rows. */
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

type Shape<R, J> = { json: (row: R) => J; columns: Column<J>[] }

/**
 * Prints a listing, row by row as it is read: one JSON array, or a table whose columns may widen from one page to the
 * next.
 */
export const printList = <R, J extends object>(cli: Cli, listing: Listing<R> & Shape<R, J>): Promise<void> =>
  printPages(cli, pagesOf(listing), listing)

/** Prints rows as they come, page by page, in the same two ways. */
export async function printPages<R, J extends object>(
  cli: Cli,
  pages: AsyncIterable<R[]>,
  { json, columns }: Shape<R, J>,
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
  else if (rows === 0) note(cli, 'none')
}

/** Waits when the reader is slower than we are, so that a long listing does not fill up memory. */
export async function write(out: NodeJS.WritableStream, text: string): Promise<void> {
  if (!out.write(text)) await new Promise((resolve) => out.once('drain', resolve))
}
