// What a partner reports of an execution.

import { unreachable } from './assert.ts'
import type { Instant } from './instant.ts'
import { type Btc, type Price, type Usd, ZERO_USD } from './money.ts'

export const REPORT_STATUSES = ['filled', 'partial', 'failed', 'cancelled'] as const

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
