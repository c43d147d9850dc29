// A late fill: the row and the value.

import type { Fill } from '../../core/confirmation-report.ts'
import type { KeptFor, LateFill } from '../../core/keep-late-fill.ts'
import { type ReportRow, reportOf } from './confirmation-report.ts'
import { instant, instantOrNull } from './instant.ts'

export type LateFillRow = ReportRow & {
  report_id: bigint
  execution_id: string
  reason: string
  received_at: bigint
  accepted_at: bigint | null
  decided_at: bigint | null
  decision_reason: string | null
}
export const lateFillOf = (row: LateFillRow): LateFill => ({
  reportId: Number(row.report_id),
  report: reportOf(row) as Fill,
  reason: row.reason as KeptFor,
  receivedAt: instant(row.received_at),
  acceptedAt: instantOrNull(row.accepted_at),
  decidedAt: instantOrNull(row.decided_at),
  decisionReason: row.decision_reason,
})
