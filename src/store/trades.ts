// Trades after the fact: an operator adjusts one, or accepts a report that came too late to become one by itself.

import type { Correction, TradeSeen } from '../core/adjustment.ts'
import type { Confirmation, ExecutionSeen } from '../core/execution.ts'
import type { Instant } from '../core/instant.ts'
import type { Report, Trade } from '../core/trade.ts'
import type { AuditEntry } from './audit.ts'
import type { ListedExecution } from './executions.ts'
import type { PageRequest } from './paging.ts'

/** A fill reported for an execution that was cancelled by then. */
export type ListedLateFill = {
  reportId: number
  execution: ListedExecution
  report: Report
  receivedAt: Instant
  acceptedAt: Instant | null
}

export interface TradeStore {
  /** Adds an adjustment to a trade; its window follows. `audit` is told what changed. Throws execution_not_found. */
  adjustTrade(
    executionId: string,
    decide: (seen: TradeSeen, now: Instant) => Correction,
    audit: (made: Correction) => AuditEntry,
  ): Promise<Correction>
  /** Throws late_fill_not_found, or late_fill_conflict when an execution has several reports and none is named. */
  acceptLateReport(
    ids: { executionId: string; reportId: number | null },
    decide: (seen: ExecutionSeen, report: Report, now: Instant) => Confirmation & { kind: 'recorded' },
    audit: AuditEntry,
  ): Promise<Trade>
  listLateFills(page: PageRequest): Promise<ListedLateFill[]>
}
