// The reports and their columns, which are also the members of the billing answers, and their totals. The columns are
// fixed, because partners file the checksums of closed months. A new column makes a new version of the report, under a
// name of its own.

import type { ReportColumn } from '../core/confirmation.ts'
import { btc, formatBtc, formatUsd, type Usd, usd } from '../core/money.ts'
import type { Cell, CsvColumn, Row } from './csv.ts'

export const REPORTS = ['summary', 'users', 'trades', 'adjustments', 'invoices'] as const
export type ReportKind = (typeof REPORTS)[number]
/** The partners report belongs to no single month: it adds all of them up. */
export const ALL_REPORTS = [...REPORTS, 'partners'] as const
export type AnyReport = (typeof ALL_REPORTS)[number]

/**
 * The kind of a column: text from outside, figures that can be added up, or neither. A new column does not compile
 * without one, because a spreadsheet would compute a formula written by a partner.
 */
type Kind = 'foreign' | 'plain' | Unit

/** The sums of a user's trades in a month, and of those of all users. */
const SUMS = {
  trade_count: 'count',
  volume_usd: 'dollars',
  volume_btc: 'coins',
  average_price_usd: 'plain',
  partner_fees_usd: 'dollars',
  fee_usd: 'dollars',
} as const
export type SumColumn = keyof typeof SUMS

/** The columns that the trades and the adjustments begin with. */
const LINE = {
  recorded_at: 'plain',
  partner_slug: 'foreign',
  environment: 'plain',
  partner_user_id: 'foreign',
  partner_plan_id: 'foreign',
  execution_id: 'foreign',
  partner_order_id: 'foreign',
} as const

const COLUMNS = {
  summary: {
    partner_slug: 'foreign',
    environment: 'plain',
    month: 'plain',
    period_start: 'plain',
    period_end: 'plain',
    currency: 'plain',
    final: 'plain',
    billable: 'plain',
    pricing_tier: 'foreign',
    pricing_tier_source: 'plain',
    rate_bps: 'plain',
    active_users: 'count',
    active_plans: 'count',
    executions_created: 'count',
    executions_filled: 'count',
    executions_partial: 'count',
    executions_failed: 'count',
    executions_cancelled: 'count',
    trade_count: 'count',
    volume_usd: 'dollars',
    volume_btc: 'coins',
    average_price_usd: 'plain',
    partner_fees_usd: 'dollars',
    volume_fee_usd: 'dollars',
    user_fee_usd: 'dollars',
    minimum_fee_usd: 'plain',
    total_fee_usd: 'dollars',
  },
  users: {
    month: 'plain',
    partner_slug: 'foreign',
    environment: 'plain',
    partner_user_id: 'foreign',
    ...SUMS,
  },
  trades: {
    ...LINE,
    status: 'plain',
    usd_amount: 'dollars',
    btc_amount: 'coins',
    execution_price: 'plain',
    partner_fee_usd: 'dollars',
    executed_at: 'plain',
    failure_reason: 'foreign',
  } satisfies Record<ReportColumn, Kind>,
  adjustments: {
    ...LINE,
    adjustment: 'plain',
    usd_difference: 'dollars',
    btc_difference: 'coins',
    reason: 'foreign',
    original_recorded_at: 'plain',
    original_status: 'plain',
    original_order_id: 'foreign',
    original_usd_amount: 'plain',
    original_btc_amount: 'plain',
  },
  invoices: {
    invoice_number: 'foreign',
    invoice_date: 'plain',
    due_date: 'plain',
    partner_slug: 'foreign',
    month: 'plain',
    corrects: 'foreign',
    net_usd: 'dollars',
    tax_usd: 'dollars',
    total_usd: 'dollars',
  },
  partners: {
    partner_slug: 'foreign',
    environment: 'plain',
    from_month: 'plain',
    to_month: 'plain',
    currency: 'plain',
    final: 'plain',
    billable: 'plain',
    trade_count: 'count',
    active_user_months: 'count',
    volume_usd: 'dollars',
    volume_btc: 'coins',
    average_price_usd: 'plain',
    partner_fees_usd: 'dollars',
    volume_fee_usd: 'dollars',
    user_fee_usd: 'dollars',
    up_to_minimum_usd: 'dollars',
    total_fee_usd: 'dollars',
  },
} as const satisfies Record<AnyReport, Readonly<Record<string, Kind>>>
export type ColumnOf<R extends AnyReport> = keyof (typeof COLUMNS)[R] & string

export const columnsOf = <R extends AnyReport>(report: R) => Object.keys(COLUMNS[report]) as ColumnOf<R>[]

const KINDS: Readonly<Record<string, Kind>> = Object.assign({}, ...Object.values(COLUMNS))

export const csvColumnsOf = (report: AnyReport): CsvColumn[] =>
  columnsOf(report).map((name) => ({
    name,
    ...(KINDS[name] === 'foreign' ? { foreign: true } : { plain: true }),
  }))

export const TOTAL = 'TOTAL'

type Unit = 'count' | 'dollars' | 'coins'
/** How a cell of such a column is read, and how the sum is written. */
const UNITS: Readonly<Record<Unit, { read: (cell: string) => bigint; write: (sum: bigint) => Cell }>> = {
  count: { read: BigInt, write: Number },
  dollars: { read: usd, write: (sum) => formatUsd(sum as Usd) },
  coins: { read: btc, write: (sum) => formatBtc(sum as ReturnType<typeof btc>) },
}

/** Adds up rows exactly, one by one, without keeping them. */
export function createTotals<C extends string>(columns: readonly C[]) {
  const sums = columns.flatMap((name) => {
    const kind = KINDS[name] ?? 'plain'
    return kind === 'foreign' || kind === 'plain' ? [] : [{ name, unit: UNITS[kind], sum: 0n }]
  })
  return {
    /** Adds each row up, and yields it. */
    *adding(rows: Iterable<Row<C>>): Iterable<Row<C>> {
      for (const row of rows) {
        for (const one of sums) {
          const cell = row[one.name]
          if (cell !== null) one.sum += one.unit.read(String(cell))
        }
        yield row
      }
    },
    /** The row of totals: sums where they have a meaning, empty cells elsewhere. */
    row(): Row<C> {
      const cells = columns.map((name, at) => [name, at === 0 ? TOTAL : null] as const)
      const added = sums.map(({ name, unit, sum }) => [name, unit.write(sum)] as const)
      return Object.fromEntries([...cells, ...added]) as Row<C>
    },
  }
}

export function totalOf<C extends string>(columns: readonly C[], rows: readonly Row<C>[]): Row<C> {
  const totals = createTotals(columns)
  for (const _ of totals.adding(rows));
  return totals.row()
}

/** The rows of a report with their total; a single row needs none. */
export const withTotal = <R extends AnyReport>(
  report: R,
  rows: readonly Row<ColumnOf<R>>[],
): Row<ColumnOf<R>>[] => (rows.length < 2 ? [...rows] : [...rows, totalOf(columnsOf(report), rows)])
