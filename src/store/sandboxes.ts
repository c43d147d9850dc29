// What may be asked of the time and the data of a test environment. None of it can reach a live tenant: the table
// behind it takes no live row, and everything here begins by writing to that table.

import type { Instant } from '../core/instant.ts'
import type { Tenant } from '../core/partner.ts'
import type { AuditEntry } from './audit.ts'
import type { DueRanges, Fired, PassCounts, PlanDecisions } from './passes.ts'

/** A test environment's clock: `now` is the real time plus the offset. */
export type Sandbox = { tenant: Tenant; offsetMs: number; now: Instant }

/** What a reset removed. */
export type Wiped = { users: number; plans: number; windows: number; executions: number; trades: number }

export const wipedOf = (count: (table: keyof Wiped) => number): Wiped => ({
  users: count('users'),
  plans: count('plans'),
  windows: count('windows'),
  executions: count('executions'),
  trades: count('trades'),
})

export type SandboxPage = { wakeUpId: number; planIds: readonly number[]; decisions: PlanDecisions }

/** The first stop after `after`; where others follow it within `togetherMs`, the last of them. */
export type StopSearch = { after: Instant; leadMs: number; togetherMs: number }

export interface SandboxStore {
  /** The test environments whose clock has been moved, in the order of their partners. */
  listSandboxes(): Promise<Sandbox[]>
  /**
   * Records that a tenant's clock is about to advance by so much, and returns where it is and how many plans the
   * tenant has; `wakeUpId` marks the wake-ups of this advance. No other advance begins before `end` is called, or its
   * process has died: two walks at once would step past each other's stops. Throws database_in_use while another one is
   * under way, and sandbox_refused for a live tenant and beyond SANDBOX_OFFSET_MAX_MS.
   */
  beginAdvance(
    tenant: Tenant,
    byMs: number,
    audit: AuditEntry,
  ): Promise<{ sandbox: Sandbox; plans: number; wakeUpId: number; end: () => Promise<void> }>
  /** The next instant, in the tenant's time, at which one of its plans is to be looked at; null when none waits. */
  findNextStop(tenant: Tenant, search: StopSearch): Promise<Instant | null>
  /** The tenant's plans that are due at an instant of its own time. */
  listSandboxDue(tenant: Tenant, due: DueRanges): Promise<number[]>
  /** Moves the clock on and runs a page of a pass at the new time, in one transaction. */
  moveSandbox(tenant: Tenant, byMs: number, page: SandboxPage): Promise<PassCounts>
  /** Leases of unconfirmed executions that ended after `from` and by `to`. */
  countExpiredLeases(tenant: Tenant, from: Instant, to: Instant): Promise<number>
  /** Fires a tranche of one plan. Throws plan_not_found, sandbox_refused; what `decide` throws undoes it all. */
  fireInSandbox(
    tenant: Tenant,
    partnerPlanId: string,
    decisions: PlanDecisions,
    audit: AuditEntry,
  ): Promise<{ fired: Fired; wakeUpId: number }>
  /**
   * Removes everything a test tenant has except its keys, its webhook and its clock, in one transaction. Throws
   * sandbox_refused.
   */
  resetSandbox(tenant: Tenant, audit: AuditEntry): Promise<Wiped>
}
