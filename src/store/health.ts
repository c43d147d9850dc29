// How the service is doing, as the operator asks for it: counts, what happened lately, faults and warnings.

import type { ExecutionStatus } from '../core/execution.ts'
import type { Instant } from '../core/instant.ts'
import type { Usd } from '../core/money.ts'
import type { Tenant } from '../core/partner.ts'
import type { PriceRow } from './store.ts'

export type Status = {
  lastPass: { at: Instant; finishedAt: Instant | null; executionsCreated: number } | null
  plans: Record<'active' | 'paused' | 'cancelled', number>
  due: { count: number; oldestAt: Instant | null }
  openExecutions: number
  /** Windows that ran their course with money left over, since `since`. */
  unspentWindows: { count: number; released: Usd; since: Instant }
  partners: Record<'active' | 'disabled', number>
  pausedWebhooks: Tenant[]
  /** Fills reported for cancelled executions that are no trade yet. */
  lateFillsUndecided: number
}

/** What happened lately: passes oldest first, executions newest first. */
export type Pulse = {
  ticks: { at: Instant; finishedAt: Instant | null; plansEvaluated: number; executionsCreated: number }[]
  price: PriceRow | null
  executions: {
    tenant: string
    partnerPlanId: string
    amount: Usd
    status: ExecutionStatus
    createdAt: Instant
  }[]
  walBytes: number
}

/** Something the check found: where, and what is wrong with it. */
export type Finding = { kind: string; subject: string; message: string }

export interface HealthStore {
  readStatus(now: Instant, unspentSince: Instant): Promise<Status>
  readPulse(limit: { ticks: number; executions: number }): Promise<Pulse>
  /** Integrity, foreign keys and every ledger rule, recomputed from executions and trades. */
  findFaults(): Promise<Finding[]>
  /** What is no fault and asks for a look: keys that end, ticks that stopped, executions nobody confirms, open files. */
  findWarnings(): Promise<Finding[]>
  schemaVersion(): number
}
