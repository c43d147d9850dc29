// Where the rows of a SQLite file lie: the bytes of each cell of each table, read from the file's own format
// (https://www.sqlite.org/fileformat2.html).

import SQLite from 'better-sqlite3'

/** The bytes of one row in the file: from `start` up to, not including, `end`. */
export type Payload = { start: number; end: number }

const INTERIOR_INDEX = 2
const INTERIOR_TABLE = 5
const LEAF_INDEX = 10

/** The rows of every table, by its name; what overflows to a page of its own is left out. */
export function payloadsOf(file: string, bytes: Buffer): Map<string, Payload[]> {
  const db = new SQLite(file, { readonly: true })
  const roots = db
    .prepare("select name, rootpage from sqlite_schema where type = 'table' and name not like 'sqlite_%'")
    .all() as { name: string; rootpage: number }[]
  db.close()
  const pageBytes = bytes.readUInt16BE(16)
  return new Map(roots.map(({ name, rootpage }) => [name, [...cellsOf(bytes, pageBytes, rootpage)]]))
}

function* cellsOf(bytes: Buffer, pageBytes: number, page: number): Generator<Payload> {
  const base = (page - 1) * pageBytes
  const head = page === 1 ? base + 100 : base
  const kind = bytes[head] as number
  const isInterior = kind === INTERIOR_INDEX || kind === INTERIOR_TABLE
  const cells = bytes.readUInt16BE(head + 3)
  for (let i = 0; i < cells; i++) {
    let at = base + bytes.readUInt16BE(head + (isInterior ? 12 : 8) + 2 * i)
    if (isInterior) {
      yield* cellsOf(bytes, pageBytes, bytes.readUInt32BE(at))
      at += 4
      if (kind === INTERIOR_TABLE) continue
    }
    const length = varint(bytes, at)
    // An index, as a table without rowid is one, has no number before its row.
    const start =
      kind === LEAF_INDEX || kind === INTERIOR_INDEX ? length.next : varint(bytes, length.next).next
    yield { start, end: Math.min(start + length.value, base + pageBytes) }
  }
  if (isInterior) yield* cellsOf(bytes, pageBytes, bytes.readUInt32BE(head + 8))
}

function varint(bytes: Buffer, at: number): { value: number; next: number } {
  let value = 0
  for (let i = 0; i < 9; i++) {
    const byte = bytes[at + i] as number
    value = value * 128 + (byte & 0x7f)
    if (byte < 0x80) return { value, next: at + i + 1 }
  }
  return { value, next: at + 9 }
}
