// Reports of purchases that a rule refused: money may have moved, so they are kept for an operator to decide on.

import type { Fill } from './confirmation-report.ts'
import type { Instant } from './instant.ts'
import { LEDGER_MAX } from './money.ts'
import type { ProblemCode } from './problem.ts'

/** The most reports kept of one execution. Further ones are counted: twenty say that something is wrong. */
export const KEPT_REPORTS_MAX = 20

/** The rules whose breach does not undo a purchase. A report is kept under the code of the one that refused it. */
export const KEPT_FOR = [
  'execution_cancelled',
  'execution_recorded',
  'order_id_taken',
  'amount_over_reservation',
  'execution_pending',
] as const satisfies readonly ProblemCode[]
export type KeptFor = (typeof KEPT_FOR)[number]

/** Stands for an operator's words where a partner sent a kept report again, and it was recorded then. */
export const RECORDED_SINCE = 'the same report was recorded'

export type LateFill = {
  reportId: number
  report: Fill
  reason: KeptFor
  receivedAt: Instant
  /** When an operator recorded it. */
  acceptedAt: Instant | null
  /**
   * When it was done with: an operator accepted it, dismissed it, or adjusted its execution, or the same report was
   * recorded.
   */
  decidedAt: Instant | null
  /** Why, in the words of the operator, if there were any. */
  decisionReason: string | null
}

/**
 * What becomes of a report that was refused: it is kept for an operator to decide on, it is kept already, or it cannot
 * be kept and is only counted.
 */
export type Keeping = 'new' | 'known' | 'counted'

/** Whether one more report of an execution can be kept. The ledger's integers do not hold every amount. */
export const canKeep = (report: Fill, kept: readonly LateFill[]): boolean =>
  kept.length < KEPT_REPORTS_MAX && report.usdAmount <= LEDGER_MAX
