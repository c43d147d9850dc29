// Executions: handed out to polls, ended by confirmations or by an operator.

import type { Adjustment } from '../core/adjustment.ts'
import type { Confirmation, ExecutionSeen } from '../core/confirmation.ts'
import type { Execution, ExecutionStatus } from '../core/execution.ts'
import type { Instant } from '../core/instant.ts'
import type { LateFill } from '../core/keep-late-fill.ts'
import type { Caller, Tenant } from '../core/partner.ts'
import type { Trade } from '../core/trade.ts'
import type { Window } from '../core/window.ts'
import type { AuditEntry } from './audit.ts'
import type { PageRequest } from './paging.ts'
import type { TenantFilter } from './partners.ts'

export type ListedExecution = Execution & { tenant: Tenant }
/** `since` is the earliest creation, in the time of each tenant. */
export type ExecutionFilter = TenantFilter & {
  status: ExecutionStatus | null
  stuck: boolean
  since?: Instant | undefined
}

/** Where a tenant's executions are read from: with an empty id, from `createdAt` on; otherwise after that execution. */
export type ExecutionPlace = { createdAt: Instant; executionId: string }
export type ExecutionsPage = { after: ExecutionPlace; limit: number }

/** One execution with all that belongs to it. */
export type ExecutionRecord = {
  execution: ListedExecution
  window: Window
  trade: Trade | null
  adjustments: Adjustment[]
  /** The reports of fills that were refused and kept, oldest first. */
  lateFills: LateFill[]
}

/** What makes an order one of an execution: its trade has it, an adjustment, or a report that was refused and kept. */
export type OrderIs = 'trade' | 'further_purchase' | 'late_fill'
export type ExecutionOfOrder = { execution: ListedExecution; orderIs: OrderIs[] }

export interface ExecutionStore {
  /**
   * Hands out what is due, oldest first: each handed to exactly one poll. `remaining` is how many the next poll would
   * get; where that is more than any poll gets, a store may stop counting at 10,000. Executions that another write is
   * working on may be passed over, but are counted.
   */
  deliverDue(
    tenant: Caller,
    limit: number,
    deliver: (execution: Execution, now: Instant) => Execution,
  ): Promise<{ executions: Execution[]; remaining: number }>
  /**
   * Stores a confirmation; the report of a `refused` one is kept or counted, for its caller to refuse it afterwards.
   */
  changeExecution(
    tenant: Caller,
    ids: { executionId: string; partnerOrderId: string },
    decide: (seen: ExecutionSeen, now: Instant) => Confirmation,
  ): Promise<Confirmation>
  /** Ends an open execution. Throws execution_not_found, and what `decide` throws. */
  cancelExecution(
    executionId: string,
    decide: (seen: ExecutionRecord, now: Instant) => { execution: Execution; window: Window },
    audit: AuditEntry,
  ): Promise<void>
  /**
   * A tenant's executions from an instant of creation on, or after one of them, by (created_at, execution_id). Hands
   * out nothing: no lease, no delivery. `now` is when they were read.
   */
  readExecutions(tenant: Caller, page: ExecutionsPage): Promise<{ executions: Execution[]; now: Instant }>
  /** Oldest first; the cursor is the id of an execution. */
  listExecutions(filter: ExecutionFilter, page: PageRequest): Promise<ListedExecution[]>
  /** The cursor after which a listing has the newest `count` of its rows; null when there are no more. */
  cursorOfNewest(filter: ExecutionFilter, count: number): Promise<string | null>
  findExecution(executionId: string): Promise<ExecutionRecord | null>
  /** The executions that an order id of a partner is recorded or reported for, oldest first. Found along indexes. */
  findByOrder(filter: TenantFilter, partnerOrderId: string): Promise<ExecutionOfOrder[]>
}
