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
  { read, cursor, json, columns }: Listing<R> & { json: (row: R) => J; columns: Column<J>[] },
): Promise<void> {
  await printPages(cli, pagesOf({ read, cursor }), { json, columns })
}

/** A listing that is read page by page, each from the cursor of the last row before it. */
export type Listing<R> = {
  read: (page: PageRequest) => Promise<R[]>
  cursor: (row: R) => number | string
}

export async function* pagesOf<R>({ read, cursor }: Listing<R>): AsyncGenerator<R[]> {
  for (let after: number | string | null = null; ; ) {
    const page: R[] = await read({ after, limit: PAGE_MAX })
    yield page
    const last = page.at(-1)
    if (page.length < PAGE_MAX || last === undefined) return
    after = cursor(last)
  }
}

/** Prints rows as they come, page by page, in the same two ways. */
export async function printPages<R, J extends object>(
  cli: Cli,
  pages: AsyncIterable<R[]>,
  { json, columns }: { json: (row: R) => J; columns: Column<J>[] },
): Promise<void> {
  const { out } = cli.streams
  const table: J[] = []
  let rows = 0
  for await (const page of pages) {
    for (const row of page) {
      const value = json(row)
      if (cli.globals().json) await write(out, `${rows === 0 ? '[' : ',\n'}${JSON.stringify(value)}`)
      else table.push(value)
      rows += 1
    }
  }
  if (cli.globals().json) out.write(rows === 0 ? '[]\n' : ']\n')
  else if (rows > 0) out.write(`${await renderTable(columns, table)}\n`)
  else note(cli, 'none')
}

/** Waits when the reader is slower than we are, so that a long listing takes no memory. */
export async function write(out: NodeJS.WritableStream, text: string): Promise<void> {
  if (!out.write(text)) await new Promise((resolve) => out.once('drain', resolve))
}
