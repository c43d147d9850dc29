// Trades and the reports they record: what a partner reports, when two reports are the same, and how a trade is dated.

import type { Execution, ExecutionId } from './execution.ts'
import { type Btc, btc, type Price, price, type Usd, usd, ZERO_USD } from './money.ts'
import { unreachable } from './problem.ts'
import { type Instant, later } from './time.ts'

export type Trade = {
  executionId: ExecutionId
  /** When the confirmation was accepted: this decides the month it is billed in. */
  recordedAt: Instant
  /** When the report first came, if it was refused and recorded later; null if it was recorded at once. */
  receivedAt: Instant | null
  report: Report
}

/**
 * When a fill was made: the time that the partner reported, else the time at which the report came, even if it was
 * recorded later. Null for a failure reported without a time.
 */
export const executedAtOf = ({
  report,
  recordedAt,
  receivedAt,
}: Pick<Trade, 'report' | 'recordedAt' | 'receivedAt'>): Instant | null =>
  report.executedAt ?? (isFill(report) ? (receivedAt ?? recordedAt) : null)

/**
 * How a trade or an adjustment is dated: now, and never before the latest one, whatever the clock does, so that nothing
 * is added to a month that is over.
 */
export const recordedAtOf = (now: Instant, latest: Instant | null): Instant =>
  latest === null ? now : later(now, latest)

/** The record of a report, dated now. */
export function tradeOf(
  facts: { latestRecordedAt: Instant | null },
  execution: Execution,
  report: Report,
  now: Instant,
): Trade {
  const { executionId } = execution
  return { executionId, recordedAt: recordedAtOf(now, facts.latestRecordedAt), receivedAt: null, report }
}

// What a partner reports of an execution.

export const FILL_STATUSES = ['filled', 'partial'] as const
export const NO_FILL_STATUSES = ['failed', 'cancelled'] as const
export const REPORT_STATUSES = [...FILL_STATUSES, ...NO_FILL_STATUSES] as const

/** The outcome of an execution in the partner's words, after rounding; fields the contract ignores are not in it. */
export type Report = Fill | NoFill

export type Fill = {
  status: (typeof FILL_STATUSES)[number]
  partnerOrderId: string
  /** As sent; null when the partner left it to the moment of receipt. */
  executedAt: Instant | null
  usdAmount: Usd
  btcAmount: Btc
  executionPrice: Price
  partnerFee: Usd | null
}

export type NoFill = {
  status: (typeof NO_FILL_STATUSES)[number]
  partnerOrderId: string
  executedAt: Instant | null
  failureReason: string | null
}

/** The parts of a report, and the name of each on the wire, in a row and in an export. */
const REPORT_COLUMNS = {
  status: 'status',
  partnerOrderId: 'partner_order_id',
  executedAt: 'executed_at',
  usdAmount: 'usd_amount',
  btcAmount: 'btc_amount',
  executionPrice: 'execution_price',
  partnerFee: 'partner_fee_usd',
  failureReason: 'failure_reason',
} as const satisfies Record<keyof Fill | keyof NoFill, string>
/** The name of a part of a report; without a type argument, of any part. */
export type ReportColumn<Part extends keyof typeof REPORT_COLUMNS = keyof typeof REPORT_COLUMNS> =
  (typeof REPORT_COLUMNS)[Part]

export function spentBy(report: Report): Usd {
  switch (report.status) {
    case 'filled':
    case 'partial':
      return report.usdAmount
    case 'failed':
    case 'cancelled':
      return ZERO_USD
    default:
      return unreachable(report)
  }
}

export const isFill = (report: Report): report is Fill => 'usdAmount' in report

// When two reports of an execution count as the same.

/** Whether two reports are the same, compared by value, field by field. An empty reason equals no reason. */
export function sameReport(a: Report, b: Report): boolean {
  return reportFingerprint(withoutEmptyReason(a)) === reportFingerprint(withoutEmptyReason(b))
}

const withoutEmptyReason = (report: Report): Report =>
  isFill(report) ? report : { ...report, failureReason: report.failureReason || null }

/**
 * One text for each distinct report, for comparing and hashing. Stored digests were computed from exactly this, so it
 * never changes.
 */
export function reportFingerprint(report: Report): string {
  const { status, partnerOrderId, executedAt } = report
  const common = { status, partnerOrderId, executedAt }
  const parts = isFill(report)
    ? ({
        ...common,
        usdAmount: report.usdAmount.toString(),
        btcAmount: report.btcAmount.toString(),
        executionPrice: report.executionPrice.toString(),
        partnerFee: report.partnerFee?.toString() ?? null,
      } satisfies Record<keyof Fill, unknown>)
    : ({ ...common, failureReason: report.failureReason } satisfies Record<keyof NoFill, unknown>)
  return JSON.stringify(Object.values(parts))
}

// The most that a fill may be: dollars, bitcoin, a price and a fee.

/**
 * All the bitcoin there will ever be, and dollars, a price and a fee beyond any real one.
 * Dollars are limited where an operator enters them; a report is limited by its reservation.
 */
export const FILL_USD_MAX = usd('1000000000')
export const FILL_BTC_MAX = btc('21000000')
export const FILL_PRICE_MAX = price('50000000')
export const FILL_FEE_MAX = usd('1000000')
