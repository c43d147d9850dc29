// A trade: the record of a report that was accepted, and how it is dated.

import { isFill, type Report } from './confirmation-report.ts'
import type { Execution } from './execution.ts'
import type { ExecutionId } from './execution-id.ts'
import { type Instant, later } from './instant.ts'

export type Trade = {
  executionId: ExecutionId
  /** When the confirmation was accepted: this decides the month it is billed in. */
  recordedAt: Instant
  /** When the report first came, if it was refused and recorded later; null: when it was recorded. */
  receivedAt: Instant | null
  report: Report
}

/**
 * When a fill was made: as the partner reported it, or else when its report came, whenever that was recorded. Null for
 * a failure that was reported without a time.
 */
export const executedAtOf = ({
  report,
  recordedAt,
  receivedAt,
}: Pick<Trade, 'report' | 'recordedAt' | 'receivedAt'>): Instant | null =>
  report.executedAt ?? (isFill(report) ? (receivedAt ?? recordedAt) : null)

/**
 * How a trade or an adjustment is dated: now, and never before the latest one, whatever the clock does, so that no
 * month that is over gains anything.
 */
export const recordedAtOf = (now: Instant, latest: Instant | null): Instant =>
  latest === null ? now : later(now, latest)

/** The record of a report, dated now. */
export function tradeOf(
  seen: { latestRecordedAt: Instant | null },
  execution: Execution,
  report: Report,
  now: Instant,
): Trade {
  const { executionId } = execution
  return { executionId, recordedAt: recordedAtOf(now, seen.latestRecordedAt), receivedAt: null, report }
}
