// Passes of the scheduler: which plans are due, and what a page of them comes to.

import type { Tranche } from '../core/execution.ts'
import type { ExecutionId } from '../core/execution-id.ts'
import type { Instant } from '../core/instant.ts'
import type { Price } from '../core/money.ts'
import type { Tenant } from '../core/partner.ts'
import type { Schedule } from '../core/schedule-state.ts'
import type { Volatility } from '../core/volatility.ts'
import type { OnGrid, Opening } from '../core/window.ts'
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

export interface PassStore {
  /** Takes the scheduler's lock for this process, or null when another holds it. A dead holder's lock is free. */
  acquirePassLock(): (() => void) | null
  /** Notes the pass, its price if it has one of its own, the feed it asked if any, and the volatility after it. */
  beginPass(observed: ObservedPrice | null, asked?: AskedFeed | null): Promise<PassStart>
  /** The plans a pass must look at, by index ranges only, in id order. */
  listDuePlans(due: DueRanges): Promise<number[]>
  /** One page of a pass: rolls the windows that are over, decides every plan, stores schedules, executions and wake-ups. */
  changeDuePlans(passId: number, planIds: readonly number[], decide: PlanDecisions): Promise<PassCounts>
  finishPass(passId: number, counts: PassCounts): Promise<void>

  /** What a pass would know now, without noting one. */
  peekPass(): Promise<Omit<PassStart, 'passId'>>
  /** What one page of a pass would fire, storing nothing. */
  previewDuePlans(planIds: readonly number[], decide: PlanDecisions): Promise<Preview[]>
}
