// Synthetic price histories, seeded, and the rows of an import in a database.

import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { TestContext } from 'node:test'
import { formatPrice, type Price, price } from '../../src/core/money.ts'
import { formatInstant, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { seededRandom } from '../../src/engine/backtest.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { openFresh, temporaryFolder } from '../support/database.ts'
import { T0 } from '../support/service.ts'

const SINCE_2020 = Date.UTC(2020, 0, 1) as Instant

export type Point = { at: Instant; price: Price }

/** A random walk, one price every `everyMs`, the same for the same seed. */
export function walk(rows: number, { seed = 1, start = T0, everyMs = 15 * MINUTE_MS } = {}): Point[] {
  const random = seededRandom(seed)
  let level = 60_000
  return Array.from({ length: rows }, (_, i) => {
    level *= 1 + 0.01 * (random() - 0.5)
    return { at: plus(start, i * everyMs), price: price(level.toFixed(2)) }
  })
}

export const rowOf = ({ at, price }: Point): string => `${formatInstant(at)},${formatPrice(price)}`
export const csv = (points: readonly Point[]): string => ['time,price', ...points.map(rowOf), ''].join('\n')

/** Minute prices since 2020, all equal, as a file to import. */
export const pricesCsv = (rows: number): string =>
  csv(
    Array.from({ length: rows }, (_, i) => ({ at: plus(SINCE_2020, i * MINUTE_MS), price: price('60000') })),
  )

/** Shuffles by a seed: equal seeds give equal orders. */
export function shuffled<T>(values: readonly T[], seed: number): T[] {
  const random = seededRandom(seed)
  return values
    .map((value) => ({ value, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ value }) => value)
}

const CHUNK_ROWS = 1_000
const minutePrice = (i: number): string =>
  `${formatInstant(plus(T0, i * MINUTE_MS))},${40_000 + (i % 7919)}.25\n`

/** Writes a long history without holding it in memory: one price a minute. */
export async function writeLong(file: string, rows: number): Promise<void> {
  function* chunks() {
    yield 'time,price\n'
    for (let from = 0; from < rows; from += CHUNK_ROWS) {
      const length = Math.min(CHUNK_ROWS, rows - from)
      yield Array.from({ length }, (_, i) => minutePrice(from + i)).join('')
    }
  }
  await pipeline(Readable.from(chunks()), createWriteStream(file))
}

/** An empty database in a folder of its own. */
export async function newDatabase(t: Pick<TestContext, 'after'>): Promise<{ folder: string; db: string }> {
  const folder = temporaryFolder(t)
  const db = join(folder, 'tranche.db')
  const store = await openFresh(db, () => T0)
  store.close()
  return { folder, db }
}

/** The row counts of an import's two tables, read past the program. */
export function rowsIn(db: string): { prices: number; staged: number } {
  const file = openFile(db)
  try {
    const count = (table: 'prices' | 'price_imports') =>
      Number(file.prepare(`select count(*) from ${table}`).pluck().get())
    return { prices: count('prices'), staged: count('price_imports') }
  } finally {
    file.close()
  }
}
