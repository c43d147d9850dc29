// Exports of a month: the rows of the reports, read without holding many of them.

import { periodOf } from '../core/month.ts'
import type { FixedPeriod } from '../core/report-period.ts'
import type { AdjustmentLine, TradeLine } from '../store/months.ts'
import type { TenantFilter } from '../store/partners.ts'
import {
  ADJUSTMENT_COLUMNS,
  type AdjustmentColumn,
  columnsOf,
  SUMMARY_COLUMNS,
  type SummaryColumn,
  TRADE_COLUMNS,
  type TradeColumn,
  USER_COLUMNS,
  type UserColumn,
} from './columns.ts'
import type { CsvColumn, Row } from './csv.ts'
import { type BillingStore, bill, statementJson, userLineJson } from './statement.ts'
import { adjustmentLineJson, tradeRow } from './trade-rows.ts'

export const REPORTS = ['summary', 'users', 'trades', 'adjustments'] as const
export type ReportKind = (typeof REPORTS)[number]

/** Few, because all of them are in memory at once, and the read that brings them should be short. */
const ROWS_PER_PAGE = 250

export type ExportScope = { store: BillingStore; period: FixedPeriod; filter: TenantFilter }

export type Report = {
  columns: readonly CsvColumn[]
  /** Page by page: to wait for each row would take longer than to read it. Within a page they are made one by one. */
  pages: (scope: ExportScope) => AsyncGenerator<Iterable<Row>>
}

export const EXPORTS: Record<ReportKind, Report> = {
  summary: { columns: columnsOf(SUMMARY_COLUMNS), pages: summaryPages },
  users: { columns: columnsOf(USER_COLUMNS), pages: userPages },
  trades: { columns: columnsOf(TRADE_COLUMNS), pages: tradePages },
  adjustments: { columns: columnsOf(ADJUSTMENT_COLUMNS), pages: adjustmentRowPages },
}

async function* summaryPages({
  store,
  period,
  filter,
}: ExportScope): AsyncGenerator<Iterable<Row<SummaryColumn>>> {
  for (const tenant of await store.listTenants(filter, periodOf(period.month).end))
    yield [statementJson((await bill(store, tenant, period)).statement)]
}

async function* userPages({ store, period, filter }: ExportScope): AsyncGenerator<Iterable<Row<UserColumn>>> {
  for (const tenant of await store.listTenants(filter, periodOf(period.month).end)) {
    const { users } = await bill(store, tenant, period)
    const whose = { month: period.month, partner_slug: tenant.partnerSlug, environment: tenant.environment }
    yield rowsOf(users, (user) => ({ ...whose, ...userLineJson(user) }))
  }
}

async function* tradePages({
  store,
  period,
  filter,
}: ExportScope): AsyncGenerator<Iterable<Row<TradeColumn>>> {
  for (let after: TradeLine | null = null; ; ) {
    const page: TradeLine[] = await store.readTradeLines(period, filter, { after, limit: ROWS_PER_PAGE })
    yield rowsOf(page, tradeRow)
    after = page.at(-1) ?? null
    if (after === null || page.length < ROWS_PER_PAGE) return
    // A turn of the event loop between two reads: the log may be emptied and others answered.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The adjustments of a period, page by page. */
export async function* adjustmentPages({
  store,
  period,
  filter,
}: ExportScope): AsyncGenerator<AdjustmentLine[]> {
  for (let after: AdjustmentLine | null = null; ; ) {
    const page: AdjustmentLine[] = await store.readAdjustmentLines(period, filter, {
      after,
      limit: ROWS_PER_PAGE,
    })
    yield page
    after = page.at(-1) ?? null
    if (after === null || page.length < ROWS_PER_PAGE) return
  }
}

async function* adjustmentRowPages(scope: ExportScope): AsyncGenerator<Iterable<Row<AdjustmentColumn>>> {
  for await (const page of adjustmentPages(scope)) yield rowsOf(page, adjustmentLineJson)
}

/** Makes each row when it is asked for: a page of them would outlive the garbage collector's nursery. */
function* rowsOf<T, R>(page: readonly T[], rowOf: (of: T) => R): Generator<R> {
  for (const of of page) yield rowOf(of)
}
