// How the service is doing, as an operator asks for it: counts, and what happened lately.

import type { ExecutionStatus } from '../core/execution.ts'
import type { Instant } from '../core/instant.ts'
import type { Usd } from '../core/money.ts'
import type { Tenant } from '../core/partner.ts'
import type { ListedPrice } from './prices.ts'

/** What status alone asks for. Plans, the backlog and the scheduler are monitoring's to count. */
export type Status = {
  /** Windows that ran their course with money left over, since `since`. */
  unspentWindows: { count: number; released: Usd; since: Instant }
  partners: Record<'active' | 'disabled', number>
  pausedWebhooks: Tenant[]
  /** Reports of fills that were refused and kept, and that no operator has decided on. */
  lateFillsUndecided: number
}

/** What happened lately: passes oldest first, executions newest first. */
export type Recent = {
  passes: { at: Instant; finishedAt: Instant | null; plansEvaluated: number; executionsCreated: number }[]
  price: ListedPrice | null
  executions: {
    tenant: string
    partnerPlanId: string
    amount: Usd
    status: ExecutionStatus
    createdAt: Instant
  }[]
}

export interface StatusStore {
  readStatus(unspentSince: Instant): Promise<Status>
  readRecent(limit: { passes: number; executions: number }): Promise<Recent>
  schemaVersion(): number
}
