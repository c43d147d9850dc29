// Passes of the scheduler: which plans are due, and what a page of them comes to.

import type { Tranche } from '../core/execution.ts'
import type { ExecutionId } from '../core/execution-id.ts'
import type { Instant } from '../core/instant.ts'
import type { Price } from '../core/money.ts'
import type { OnGrid } from '../core/next-window.ts'
import type { Tenant } from '../core/partner.ts'
import type { Schedule } from '../core/schedule-state.ts'
import type { Volatility } from '../core/volatility.ts'
import type { Opening } from '../core/window.ts'
import type { AskedFeed, ObservedPrice } from './prices.ts'

export type PassStart = {
  passId: number
  at: Instant
  /** The price observed for this pass, else the newest one stored. */
  price: { price: Price; at: Instant } | null
  volatility: Volatility
  /** Time between the last passes, oldest first, this one included. */
  passGapsMs: number[]
}
export type PassCounts = { plansEvaluated: number; executionsCreated: number; windowsRolled: number }

/** One tranche that a pass fires. */
export type Fired = {
  tenant: Tenant
  executionId: ExecutionId
  planId: number
  tranche: Tranche
  schedule: Schedule
}

export type Preview = Fired & { partnerPlanId: string }

export type DueRanges = { now: Instant; livePrice: Price | null; leadMs: number }

export type PlanDecisions = {
  /** The window that follows one that is over, null while it runs. */
  roll: (window: OnGrid, now: Instant) => Opening | null
  /** `now` is the time of the plan's tenant, `real` that of prices; they differ in a sandbox only. */
  decide: (schedule: Schedule, now: Instant, real: Instant) => { schedule: Schedule; tranche: Tranche | null }
  newExecutionId: (previous: ExecutionId | null, real: Instant) => ExecutionId
}

/** This process's part in a pass. It ends with the process, however that ends. */
export type PassHand = {
  /** The running pass that this hand joins, whose due plans another hand has listed; null when it begins a new pass. */
  joined: PassStart | null
  /**
   * Adds what this hand did to the pass, and leaves it. Returns what all hands did; null while others are still at
   * work.
   */
  finish(passId: number, counts: PassCounts): Promise<PassCounts | null>
  /** Leaves a pass that this hand could not finish; does nothing after `finish`. */
  leave(): Promise<void>
}

export interface PassStore {
  /** Takes part in the scheduler's pass; null when one is running that has no use for another hand. */
  joinPass(): Promise<PassHand | null>
  /** Records the pass, its price if it has one of its own, the feed it asked, if any, and the resulting volatility. */
  beginPass(observed: ObservedPrice | null, asked?: AskedFeed | null): Promise<PassStart>
  /** The plans a pass must look at, by index ranges only, in id order. */
  listDuePlans(due: DueRanges): Promise<number[]>
  /**
   * The due plans of a pass in pages of at most `pageMax`, each handed to one hand only. `due` is null for a pass that
   * was joined: its plans are listed already.
   */
  duePages(passId: number, due: DueRanges | null, pageMax: number): AsyncIterable<number[]>
  /**
   * One page of a pass: rolls the windows that are over, decides every plan, stores schedules, executions and wake-ups.
   */
  changeDuePlans(passId: number, planIds: readonly number[], decide: PlanDecisions): Promise<PassCounts>
  /** Whether an error of a page concerns the whole database, and not one of its rows. */
  isOutage(error: unknown): boolean

  /** What a pass would know now, without noting one. */
  peekPass(): Promise<Omit<PassStart, 'passId'>>
  /** What one page of a pass would fire, storing nothing. */
  previewDuePlans(planIds: readonly number[], decide: PlanDecisions): Promise<Preview[]>
}
