// What monitoring asks of the database: a handful of numbers, cheap enough to be read every few seconds.

import type { ExecutionId } from '../core/execution-id.ts'
import type { Instant } from '../core/instant.ts'
import type { Environment } from '../core/partner.ts'
import type { SchedulerSeen } from '../core/scheduler-lateness.ts'
import type { UnspentSeen, Vitals } from '../core/vitals.ts'

export type PlanCounts = Record<'active' | 'paused' | 'cancelled', number>
/** Open executions, those of them that a poll would hand out, and when the oldest of these was created. */
export type Backlog = { open: number; due: number; oldestDueAt: Instant | null }
/** What takes reading many rows, and is therefore not asked at every look. */
export type Stock = {
  plans: Record<Environment, PlanCounts>
  /** Live tenants with an active plan that is timed, by their number, and since when they have had one. */
  plansSince: ReadonlyMap<number, Instant>
  /** Live windows that ended with money left in the last days. */
  unspent: UnspentSeen[]
}
export type WebhookCount = {
  environment: Environment
  status: 'active' | 'paused'
  /** What the last attempt came to; null before the first one. */
  last: 'delivered' | 'failed' | null
  count: number
}
/** When a pass began and ended; a null end means that it is still running, or was broken off. */
export type PassSpan = { passId: number; at: Instant; finishedAt: Instant | null }

export interface MonitoringStore {
  /**
   * Writes a row and takes it back in the same transaction, through to the disk. Rejects when that cannot be done, and
   * when the disk has recently had no room for another write.
   */
  probeWrite(): Promise<void>
  /** What decides whether the scheduler is late. */
  readScheduler(): Promise<SchedulerSeen>
  /** The newest execution and pass there are: where a count of what comes from now on begins. */
  readMarks(): Promise<{ executionId: ExecutionId | null; passId: number }>
  /**
   * How many executions were created after `after`, and the newest of them. Each is counted exactly once: what a write
   * under way may still put before others is counted at a later look.
   */
  countExecutionsAfter(
    after: ExecutionId | null,
  ): Promise<{ created: Record<Environment, number>; last: ExecutionId | null }>
  listPassesAfter(passId: number): Promise<PassSpan[]>
  readBacklog(now: Instant): Promise<Record<Environment, Backlog>>
  takeStock(now: Instant): Promise<Stock>
  /** Everything that findings are drawn from. */
  readVitals(now: Instant, stock: Stock): Promise<Vitals>
  countWebhooks(): Promise<WebhookCount[]>
  /**
   * The size of the write-ahead log beside a database file, 0 when there is none; null on a server, which looks after
   * its own log: the check finds what holds that up.
   */
  walBytes(): Promise<number | null>
}
