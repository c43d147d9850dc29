// What a partner reports of an execution, and when two reports say the same.

import { unreachable } from './assert.ts'
import type { Instant } from './instant.ts'
import { type Btc, btc, type Price, price, type Usd, usd, ZERO_USD } from './money.ts'

export const REPORT_STATUSES = ['filled', 'partial', 'failed', 'cancelled'] as const

/**
 * The most that a fill may be: all the bitcoin there will ever be, and dollars, a price and a fee beyond any real one.
 * Dollars are limited where an operator enters them; a report is limited by its reservation.
 */
export const FILL_USD_MAX = usd('1000000000')
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

/** Whether two reports say the same thing: compared by value, field by field. An empty reason says what none says. */
export function sameReport(a: Report, b: Report): boolean {
  return reportFingerprint(withoutEmptyReason(a)) === reportFingerprint(withoutEmptyReason(b))
}

const withoutEmptyReason = (report: Report): Report =>
  isFill(report) ? report : { ...report, failureReason: report.failureReason || null }

/** One text per distinct report, for comparing and for hashing. Digests on file are made of it: it never changes. */
export function reportFingerprint(report: Report): string {
  const common = [report.status, report.partnerOrderId, report.executedAt]
  const rest = isFill(report)
    ? [report.usdAmount, report.btcAmount, report.executionPrice, report.partnerFee].map(
        (n) => n?.toString() ?? null,
      )
    : [report.failureReason]
  return JSON.stringify([...common, ...rest])
}
