// When two reports of an execution count as the same.

import { isFill, type Report } from './confirmation-report.ts'

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
