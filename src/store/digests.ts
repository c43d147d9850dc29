// What the row of a trade or an adjustment must hash to: kept beside it, so that the check can name a row that was
// changed.

import { hash } from 'node:crypto'
import type { Adjustment } from '../core/adjustment.ts'
import type { Report } from '../core/confirmation-report.ts'
import { reportFingerprint } from '../core/same-report.ts'
import type { Trade } from '../core/trade.ts'

export const tradeDigest = ({ executionId, recordedAt, receivedAt, report }: Trade): string => {
  const content = [executionId, recordedAt, reportFingerprint(report)]
  // Trades that were confirmed in time hash as they did before late ones kept the time of their report.
  return digestOf(receivedAt === null ? content : [...content, receivedAt])
}

export const adjustmentDigest = (adjustment: Adjustment): string => {
  const { adjustmentId, executionId, usd, btc, reason, recordedAt, reportId, partnerOrderId, fill } =
    adjustment
  const content = [adjustmentId, executionId, usd.toString(), btc.toString(), reason, recordedAt]
  // Adjustments that an operator worded hash as they did before there were other kinds.
  if (reportId === null) return digestOf(content)
  const late = [...content, reportId, partnerOrderId]
  if (fill === null) return digestOf(late)
  const { partnerFee, executionPrice, executedAt } = fill
  return digestOf([...late, partnerFee?.toString() ?? null, executionPrice.toString(), executedAt])
}

/** Of a bounded size, however long the report is. */
export const reportDigest = (report: Report): string => digestOf([reportFingerprint(report)])

const digestOf = (content: unknown[]): string => hash('sha256', JSON.stringify(content))
