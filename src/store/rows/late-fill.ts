// A late fill: the row and the value.

import type { Fill } from '../../core/confirmation-report.ts'
import type { KeptFor, LateFill } from '../../core/keep-late-fill.ts'
import { DamagedRow } from '../../core/problem.ts'
import { intact, reportDigest } from '../digests.ts'
import { type ReportRow, reportOf } from './confirmation-report.ts'
import { instant, instantOrNull } from './instant.ts'

export type LateFillRow = ReportRow & {
  report_id: bigint
  execution_id: string
  fingerprint: string
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

/** One that is what the partner reported: its digest and its fingerprint agree. Throws DamagedRow. */
export function intactReport(row: LateFillRow): LateFillRow {
  if (reportDigest(reportOf(intact('late_reports', row))) !== row.fingerprint)
    throw new DamagedRow('late_reports', `late_reports row ${row.report_id}`)
  return row
}
