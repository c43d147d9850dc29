// Trades: what a partner reports of an execution, and the record of it.

import { unreachable } from './assert.ts'
import type { ExecutionId } from './execution-id.ts'
import type { Instant } from './instant.ts'
import { type Btc, btc, type Price, price, type Usd, usd, ZERO_USD } from './money.ts'

export const REPORT_STATUSES = ['filled', 'partial', 'failed', 'cancelled'] as const

/** The most that a fill may report: all the bitcoin there will ever be, and a price and a fee beyond any real one. */
export const FILL_BTC_MAX = btc('21000000')
export const FILL_PRICE_MAX = price('50000000')
export const FILL_FEE_MAX = usd('1000000')

/** The outcome of an execution in the partner's words, after rounding; fields the contract ignores are not in it. */
export type Report = Fill | NoFill

export type Fill = {
  status: 'filled' | 'partial'
  partnerOrderId: string
  /** As sent; null when the partner left it to the moment of receipt. */
  executedAt: Instant | null
  usdAmount: Usd
  btcAmount: Btc
  executionPrice: Price
  partnerFee: Usd | null
}

export type NoFill = {
  status: 'failed' | 'cancelled'
  partnerOrderId: string
  executedAt: Instant | null
  failureReason: string | null
}

export type Trade = {
  executionId: ExecutionId
  /** When the confirmation was accepted: this decides the month it is billed in. */
  recordedAt: Instant
  report: Report
}

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

/** Whether two reports say the same thing: compared by value, field by field. An empty reason says what none says. */
export function sameReport(a: Report, b: Report): boolean {
  return reportFingerprint(withoutEmptyReason(a)) === reportFingerprint(withoutEmptyReason(b))
}

const withoutEmptyReason = (report: Report): Report =>
  'failureReason' in report ? { ...report, failureReason: report.failureReason || null } : report

/**
 * One text per distinct report, for comparing and for keeping each late report once. The digest of a recorded trade is
 * made of it, so the text of a report never changes.
 */
export function reportFingerprint(report: Report): string {
  const common = [report.status, report.partnerOrderId, report.executedAt]
  const rest =
    'usdAmount' in report
      ? [report.usdAmount, report.btcAmount, report.executionPrice, report.partnerFee].map(
          (n) => n?.toString() ?? null,
        )
      : [report.failureReason]
  return JSON.stringify([...common, ...rest])
}
