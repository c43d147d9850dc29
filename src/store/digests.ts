// What the row of a trade or an adjustment must hash to: kept beside it, so that the check can name a row that was
// changed.

import { hash } from 'node:crypto'
import type { Adjustment } from '../core/adjustment.ts'
import type { Report } from '../core/confirmation-report.ts'
import { reportFingerprint } from '../core/same-report.ts'
import type { Trade } from '../core/trade.ts'

export const tradeDigest = ({ executionId, recordedAt, report }: Trade): string =>
  digestOf([executionId, recordedAt, reportFingerprint(report)])

export const adjustmentDigest = (adjustment: Adjustment): string => {
  const { adjustmentId, executionId, usd, btc, reason, recordedAt, reportId, partnerOrderId } = adjustment
  const content = [adjustmentId, executionId, usd.toString(), btc.toString(), reason, recordedAt]
  // Adjustments that an operator worded hash as they did before there were other kinds.
  return digestOf(reportId === null ? content : [...content, reportId, partnerOrderId])
}

/** Of a bounded size, however long the report is. */
export const reportDigest = (report: Report): string => digestOf([reportFingerprint(report)])

const digestOf = (content: unknown[]): string => hash('sha256', JSON.stringify(content))
