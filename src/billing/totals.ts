// The last row of a report, on request: what its rows add up to.

import { btc, formatBtc, formatUsd, type Usd, usd } from '../core/money.ts'
import type { Row } from './csv.ts'

/** What is in the first column of that row. No slug, month or instant looks like this. */
export const TOTAL = 'TOTAL'

const COUNTS = /^(?:active_|executions_)|^trade_count$/
const DOLLARS =
  /^(?:volume_usd|partner_fees?_usd|volume_fee_usd|user_fee_usd|total_fee_usd|fee_usd|usd_amount|usd_difference)$/
const COINS = /^(?:volume_btc|btc_amount|btc_difference)$/

/** A column that can be added up: how a cell is read, and how their sum is written. */
const ADDED = [
  { names: COUNTS, read: (cell: string) => BigInt(cell), write: (sum: bigint) => Number(sum) },
  { names: DOLLARS, read: usd, write: (sum: bigint) => formatUsd(sum as Usd) },
  { names: COINS, read: btc, write: (sum: bigint) => formatBtc(sum as ReturnType<typeof btc>) },
]

export type Totals<C extends string> = {
  /** Hands the rows on, each once it is counted. */
  adding: (rows: Iterable<Row<C>>) => Iterable<Row<C>>
  /** The row: sums where they mean something, nothing elsewhere. */
  row: () => Row<C>
}

/** Sums exactly what is exact, row by row; it holds no row. */
export function createTotals<C extends string>(columns: readonly C[]): Totals<C> {
  const sums = columns.flatMap((name) => {
    const kind = ADDED.find(({ names }) => names.test(name))
    return kind ? [{ name, kind, sum: 0n }] : []
  })
  return {
    *adding(rows) {
      for (const row of rows) {
        for (const one of sums) {
          const cell = row[one.name]
          if (cell !== null) one.sum += one.kind.read(String(cell))
        }
        yield row
      }
    },
    row() {
      const cells = columns.map((name, at) => [name, at === 0 ? TOTAL : null] as const)
      const added = sums.map(({ name, kind, sum }) => [name, kind.write(sum)] as const)
      return Object.fromEntries([...cells, ...added]) as Row<C>
    },
  }
}
