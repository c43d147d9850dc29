// A trade: the record of a report that was accepted.

import type { Report } from './confirmation-report.ts'
import type { ExecutionId } from './execution-id.ts'
import type { Instant } from './instant.ts'

export type Trade = {
  executionId: ExecutionId
  /** When the confirmation was accepted: this decides the month it is billed in. */
  recordedAt: Instant
  report: Report
}
