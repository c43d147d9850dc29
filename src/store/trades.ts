// Trades after the fact: an operator adjusts one, or decides on a report that was refused and kept.

import type { Correction, TradeSeen } from '../core/adjustment.ts'
import type { Acceptance, LateFillDecision, LateFillSeen } from '../core/decide-late-fill.ts'
import type { Instant } from '../core/instant.ts'
import type { LateFill } from '../core/keep-late-fill.ts'
import type { AuditEntry } from './audit.ts'
import type { ListedExecution } from './executions.ts'
import type { PageRequest } from './paging.ts'

/** `unkept` is the number of further reports of its execution, which were counted but not kept. */
export type ListedLateFill = LateFill & { execution: ListedExecution; unkept: number }

/** When a late fill was done with, and why if anybody said so. */
export type Decided = { now: Instant; reason: string | null }

export interface TradeStore {
  /**
   * Adds an adjustment to a trade; its window follows, and the late fills of its execution are decided. `audit` is told
   * what changed. Throws execution_not_found.
   */
  adjustTrade(
    executionId: string,
    decide: (seen: TradeSeen, now: Instant) => Correction,
    audit: (made: Correction) => AuditEntry,
  ): Promise<Correction>
  /**
   * Records a late fill, which decides those that say the same of its order: equal amounts and an equal fee. Returns as
   * well the numbers of the reports of its execution that still wait. Throws late_fill_not_found, and
   * late_fill_conflict when none is named and not exactly one is undecided.
   */
  acceptLateReport(
    ids: LateFillDecision,
    decide: (seen: LateFillSeen, late: LateFill, now: Instant) => Acceptance,
    audit: (made: Acceptance, late: LateFill) => AuditEntry,
  ): Promise<Acceptance & { waiting: number[] }>
  /** Settles late fills without recording them: the one named, or all of an execution. Throws late_fill_not_found. */
  dismissLateReports(ids: LateFillDecision, audit: (dismissed: LateFill[]) => AuditEntry): Promise<LateFill[]>
  listLateFills(page: PageRequest): Promise<ListedLateFill[]>
}
