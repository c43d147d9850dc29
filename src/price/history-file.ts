// Price history files: a header `time,price`, then one price a line, read as a stream.

import { closeSync, createReadStream, fstatSync } from 'node:fs'
import type { Price } from '../core/money.ts'
import { Problem, unreadable } from '../core/problem.ts'
import { formatInstant, type Instant, parseInstant } from '../core/time.ts'
import { openNamed } from '../plain-file.ts'
import { positive } from './feed.ts'

type PricePoint = { at: Instant; price: Price }

const HEADER = 'time,price'
/** Bytes read at a time: about ten thousand of the shortest rows. */
const CHUNK_BYTES = 128 * 1024

type PriceFile = {
  bytes: number
  bytesRead: () => number
  rows: () => number
  /**
   * The rows in file order. Throws bad_file with the number of the first bad line. With `until`, a later time is bad: a
   * price in the future would become the live one at its time, whatever the market does then.
   */
  batches: (until?: Instant) => AsyncGenerator<PricePoint[]>
}

/** Opens a price file. Throws file_not_found, and bad_file when it cannot be read. */
export async function readPriceFile(file: string): Promise<PriceFile> {
  const { fd, bytes } = openRegular(file)
  const stream = createReadStream(file, { fd, encoding: 'utf8', highWaterMark: CHUNK_BYTES })
  let rows = 0

  async function* chunks(): AsyncGenerator<string> {
    try {
      yield* stream
    } catch (error) {
      throw unreadable(file, error)
    }
  }

  async function* batches(until: Instant | null = null): AsyncGenerator<PricePoint[]> {
    let line = 0
    for await (const lines of linesOf(chunks())) {
      const batch: PricePoint[] = []
      for (const text of lines) {
        line += 1
        if (line === 1) refuseOtherHeader(file, text)
        else if (text !== '') batch.push(parseLine(text, { file, line, until }))
      }
      rows += batch.length
      if (batch.length > 0) yield batch
    }
    if (line === 0) refuseOtherHeader(file, '')
  }

  return { bytes, bytesRead: () => stream.bytesRead, rows: () => rows, batches }
}

function openRegular(file: string): { fd: number; bytes: number } {
  try {
    const fd = openNamed(file)
    const stat = fstatSync(fd)
    if (stat.isFile()) return { fd, bytes: Math.max(1, stat.size) }
    closeSync(fd)
    throw new Error('it is not a regular file')
  } catch (error) {
    throw unreadable(file, error)
  }
}

function refuseOtherHeader(file: string, text: string): void {
  if (text.replace(/^\uFEFF/, '') !== HEADER) {
    throw new Problem(
      'bad_file',
      `${file} line 1: expected the header ${HEADER}, found ${JSON.stringify(text.slice(0, 60))}.`,
    )
  }
}

type Place = { file: string; line: number; until: Instant | null }

function parseLine(text: string, place: Place): PricePoint {
  const comma = text.indexOf(',')
  const parsed = parseInstant(text.slice(0, Math.max(0, comma)))
  if (!parsed.ok) throw badLine(place, `${JSON.stringify(text.slice(0, 60))} does not start with a UTC time`)
  if (place.until !== null && parsed.at > place.until)
    throw badLine(place, `its time lies in the future; it is ${formatInstant(place.until)} now`)
  try {
    return { at: parsed.at, price: positive(text.slice(comma + 1)) }
  } catch (error) {
    throw badLine(place, (error as Error).message)
  }
}

const badLine = ({ file, line }: Pick<Place, 'file' | 'line'>, why: string): Problem =>
  new Problem('bad_file', `${file} line ${line}: ${why}.`)

const LINE_END = /\r\n|\n|\r/

/** The lines that each chunk completes, in batches: a million steps of an async iterator take too long. */
export async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string[]> {
  let begun = ''
  let afterCr = false
  for await (const chunk of chunks) {
    const text = afterCr && chunk.startsWith('\n') ? chunk.slice(1) : chunk
    afterCr = chunk.endsWith('\r')
    const lines = text.split(LINE_END)
    lines[0] = begun + lines[0]
    begun = lines.pop() ?? ''
    yield lines
  }
  if (begun !== '') yield [begun]
}
