// Monitoring's part of the store's interface: a handful of numbers, cheap enough to be read every few seconds.

import type { SchedulerFacts } from '../core/clock.ts'
import type { Execution, ExecutionId } from '../core/execution.ts'
import type { Finding, UnspentWindows, Vitals } from '../core/findings.ts'
import type { Btc, Price, Usd } from '../core/money.ts'
import type { Environment, Tenant } from '../core/partner.ts'
import type { Instant } from '../core/time.ts'
import type { Window } from '../core/window.ts'

export type PlanCounts = Record<'active' | 'paused' | 'cancelled', number>
/** The number of open executions, and of those due in a poll, and when the oldest due one was created. */
export type Backlog = { open: number; due: number; oldestDueAt: Instant | null }
/** Numbers that take reading many rows, and are therefore not read every time. */
export type Stock = {
  plans: Record<Environment, PlanCounts>
  /** Live tenants with an active plan that is timed, by their number, and since when they have had one. */
  plansSince: ReadonlyMap<number, Instant>
  /** Live windows that ended with money left in the last days. */
  unspent: UnspentWindows[]
}
export type WebhookCount = {
  environment: Environment
  status: 'active' | 'paused'
  /** The outcome of the last attempt; null before the first one. */
  last: 'delivered' | 'failed' | null
  count: number
}
/** When a pass began and ended; a null end means that it is still running, or was broken off. */
export type PassSpan = { passId: number; at: Instant; finishedAt: Instant | null }

export interface MonitoringStore {
  /** Syncs a row, written and removed at once, to the disk. Rejects when that fails, or lately did on a full disk. */
  probeWrite(): Promise<void>
  /** The facts that decide whether the scheduler is late. */
  readScheduler(): Promise<SchedulerFacts>
  /** The newest execution and pass, from which later ones are counted. */
  readMarks(): Promise<{ executionId: ExecutionId | null; passId: number }>
  /**
   * How many executions were created after `after`, and the newest of them. Each is counted exactly once: executions
   * that a running write may still insert before others are counted at a later look.
   */
  countExecutionsAfter(
    after: ExecutionId | null,
  ): Promise<{ created: Record<Environment, number>; last: ExecutionId | null }>
  listPassesAfter(passId: number): Promise<PassSpan[]>
  readBacklog(now: Instant): Promise<Record<Environment, Backlog>>
  takeStock(now: Instant): Promise<Stock>
  /** The facts from which findings follow. */
  readVitals(now: Instant, stock: Stock): Promise<Vitals>
  countWebhooks(): Promise<WebhookCount[]>
  /** The size of the log beside a database file, 0 for none; null on a server, which manages its own. */
  walBytes(): Promise<number | null>
  /** The standbys that a server waits for while none is connected; null when a write can finish. */
  readStandbyAway(): Promise<string | null>
}

// Reads for the operator's page alone: a few rows each, however much data there is.

/** A place in the order of live and test trades. */
export type TradePlace = { recordedAt: Instant; executionId: string }
/** The sum of a partner's live trades; `failed` counts confirmations with nothing bought. */
export type TradeSum = { partnerSlug: string; filled: number; failed: number; usd: Usd; btc: Btc }
/** A live window that is open and has money left to fire. */
export type OpenWindow = Pick<Window, 'start' | 'end' | 'budget'> & {
  tenant: Tenant
  partnerPlanId: string
  left: Usd
}
type Tranche = Pick<Execution, 'partnerPlanId' | 'amount' | 'status' | 'createdAt'>
export type FiredTranche = Tranche & { executionId: ExecutionId; tenant: Tenant; price: Price | null }

export interface OpsPageStore {
  /**
   * Adds up at most `limit` trades after a place and up to an instant, the live ones by partner; `last` is null when
   * there are none. Without an upper end, a sandbox that is ahead would lead past trades still to come.
   */
  sumTradesAfter(
    after: TradePlace,
    until: Instant,
    limit: number,
  ): Promise<{ sums: TradeSum[]; last: TradePlace | null }>
  /** The one that ends next comes first. */
  listOpenWindows(limit: number): Promise<OpenWindow[]>
  /** The latest of all live environments, the newest first. */
  listTranches(limit: number): Promise<FiredTranche[]>
  /** One price in each step of time of a span, both ends included, oldest first. */
  samplePrices(
    span: { since: Instant; until: Instant },
    stepMs: number,
  ): Promise<{ at: Instant; price: Price }[]>
}

// The state of the service for an operator: counts, and recent events.

/** Recent events: passes oldest first, executions newest first. */
export type Recent = {
  passes: { at: Instant; finishedAt: Instant | null; plansEvaluated: number; executionsCreated: number }[]
  executions: (Tranche & { tenant: string })[]
}

export interface StatusStore {
  readRecent(limit: { passes: number; executions: number }): Promise<Recent>
}

// The check of the whole database: faults, and what may become one.

/** A fault in the file or the ledger. `next` is the command for it, if it is not a usual one. */
export type Fault = { kind: string; subject: string; message: string; next?: readonly string[] }

export interface CheckStore {
  /**
   * Checks integrity, foreign keys, every ledger rule, recomputed from executions and trades, and rows that were
   * changed. With kinds, checks only those. `sayAdditions` gets the harmless additions to the schema, by kind and name.
   */
  findFaults(
    kinds?: readonly string[],
    sayAdditions?: (additions: readonly string[]) => void,
  ): Promise<Fault[]>
  /**
   * Facts that are not wrong but need a look: all quick findings, and those that take more reading. They concern live
   * environments and the whole database. Of test environments only fills with odd figures are reported, because
   * integrators mistake units and times there; unfinished test work alarms nobody.
   */
  findWarnings(environment?: Environment): Promise<Finding[]>
}

/** A rule of the check that looks for warnings. */
export type Look = (clock: () => Promise<Instant>) => Promise<Finding[]>
