// The columns of the reports, which are the members of the billing answers too, how they are added up, and CSV. Frozen:
// the checksums of closed months are filed. A new column is a new version of the report, under a name of its own.

import { btc, formatBtc, formatUsd, type Usd, usd } from '../core/money.ts'
import type { ReportColumn } from '../core/trade.ts'

export const SUMMARY_COLUMNS = [
  'partner_slug',
  'environment',
  'month',
  'period_start',
  'period_end',
  'currency',
  'final',
  'billable',
  'pricing_tier',
  'pricing_tier_source',
  'rate_bps',
  'active_users',
  'active_plans',
  'executions_created',
  'executions_filled',
  'executions_partial',
  'executions_failed',
  'executions_cancelled',
  'trade_count',
  'volume_usd',
  'volume_btc',
  'average_price_usd',
  'partner_fees_usd',
  'volume_fee_usd',
  'user_fee_usd',
  'minimum_fee_usd',
  'total_fee_usd',
] as const
export type SummaryColumn = (typeof SUMMARY_COLUMNS)[number]

/** What a user's trades of a month come to, and those of all users. */
export const SUM_COLUMNS = [
  'trade_count',
  'volume_usd',
  'volume_btc',
  'average_price_usd',
  'partner_fees_usd',
  'fee_usd',
] as const
export type SumColumn = (typeof SUM_COLUMNS)[number]

export const USER_COLUMNS = [
  'month',
  'partner_slug',
  'environment',
  'partner_user_id',
  ...SUM_COLUMNS,
] as const
export type UserColumn = (typeof USER_COLUMNS)[number]

export const TRADE_COLUMNS = [
  'recorded_at',
  'partner_slug',
  'environment',
  'partner_user_id',
  'partner_plan_id',
  'execution_id',
  'partner_order_id',
  'status',
  'usd_amount',
  'btc_amount',
  'execution_price',
  'partner_fee_usd',
  'executed_at',
  'failure_reason',
] as const
export type TradeColumn = WithAll<(typeof TRADE_COLUMNS)[number], ReportColumn>
/** Does not compile while one of them is missing. */
type WithAll<Columns extends string, Them extends Columns> = Columns | Them

export const ADJUSTMENT_COLUMNS = [
  'recorded_at',
  'partner_slug',
  'environment',
  'partner_user_id',
  'partner_plan_id',
  'execution_id',
  'partner_order_id',
  'adjustment',
  'usd_difference',
  'btc_difference',
  'reason',
  'original_recorded_at',
  'original_status',
  'original_order_id',
  'original_usd_amount',
  'original_btc_amount',
] as const
export type AdjustmentColumn = (typeof ADJUSTMENT_COLUMNS)[number]

/** Columns that carry what a partner or its users chose to call things. */
const FOREIGN: ReadonlySet<string> = new Set<SummaryColumn | TradeColumn | AdjustmentColumn>([
  'partner_user_id',
  'partner_plan_id',
  'partner_order_id',
  'execution_id',
  'failure_reason',
  'partner_slug',
  'pricing_tier',
  'reason',
  'original_order_id',
])

export const columnsOf = (names: readonly string[]): CsvColumn[] =>
  names.map((name) => ({ name, ...(FOREIGN.has(name) ? { foreign: true } : { plain: true }) }))

// The last row of a report, on request: what its rows add up to.

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

type Totals<C extends string> = {
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

// CSV as RFC 4180 has it: CRLF, quotes where they are needed, a header always.

export type Cell = string | number | boolean | null
/** A record by the names of its columns. */
export type Row<C extends string = string> = Readonly<Record<C, Cell>>
export type CsvColumn<C extends string = string> = {
  name: C
  /** Somebody else's text: a spreadsheet must not take it for a formula. */
  foreign?: true
  /** Figures, instants and words of ours, without a character that means something in CSV. */
  plain?: true
}

/** The byte order mark by which spreadsheets recognise UTF-8. */
export const BOM = '\uFEFF'

export const csvHeader = (columns: readonly CsvColumn[]): string =>
  `${columns.map(({ name }) => quoted(name)).join(',')}\r\n`

export function csvRow<C extends string>(columns: readonly CsvColumn<C>[], row: Row<C>): string {
  let line = ''
  let separator = ''
  for (const { name, foreign, plain } of columns) {
    const value = row[name] ?? ''
    line += plain || isHarmless(value) ? separator + value : separator + guarded(value, foreign === true)
    separator = ','
  }
  return `${line}\r\n`
}

/** What nearly every cell is: one look at it is enough. */
const isHarmless = (value: Cell): boolean => typeof value === 'string' && !/^[=+\-@\t\r]|[",\r\n]/.test(value)

const guarded = (value: Cell, isForeign: boolean): string =>
  quoted(isForeign && typeof value === 'string' ? defused(value) : String(value))

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** A quote in front of what a spreadsheet would otherwise compute. */
const defused = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)
