// How the service is doing, as an operator asks for it: counts, and what happened lately.

import type { ExecutionStatus } from '../core/execution.ts'
import type { Instant } from '../core/instant.ts'
import type { Usd } from '../core/money.ts'
import type { Seal } from './copying/seal-words.ts'

/** What happened lately: passes oldest first, executions newest first. */
export type Recent = {
  passes: { at: Instant; finishedAt: Instant | null; plansEvaluated: number; executionsCreated: number }[]
  executions: {
    tenant: string
    partnerPlanId: string
    amount: Usd
    status: ExecutionStatus
    createdAt: Instant
  }[]
}

export interface StatusStore {
  readRecent(limit: { passes: number; executions: number }): Promise<Recent>
  schemaVersion(): Promise<number>
  /** Where the database has moved to; null for one that takes writes. */
  readSeal(): Promise<Seal | null>
}
