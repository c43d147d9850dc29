// What the row of a trade or an adjustment must hash to: kept beside it, so that the check can name a row that was
// changed.

import { createHash } from 'node:crypto'
import type { Adjustment } from '../../../core/adjustment.ts'
import { reportFingerprint, type Trade } from '../../../core/trade.ts'

export const tradeDigest = ({ executionId, recordedAt, report }: Trade): string =>
  digestOf([executionId, recordedAt, reportFingerprint(report)])

export const adjustmentDigest = (adjustment: Adjustment): string => {
  const { adjustmentId, executionId, usd, btc, reason, recordedAt } = adjustment
  return digestOf([adjustmentId, executionId, usd.toString(), btc.toString(), reason, recordedAt])
}

const digestOf = (content: unknown[]): string =>
  createHash('sha256').update(JSON.stringify(content)).digest('hex')
