// Sandbox time: moves a test environment through a span of time at once, as the scheduler would have in that time.

import type { Price } from '../core/money.ts'
import type { Caller } from '../core/partner.ts'
import { sigma } from '../core/price.ts'
import { Problem } from '../core/problem.ts'
import { EXACT_PLANS_MAX } from '../core/sandbox.ts'
import { HOUR_MS, type Instant, MINUTE_MS, plus } from '../core/time.ts'
import { failsafeLead } from '../core/window.ts'
import type { Machine } from '../machine.ts'
import type { AuditEntry, Fired, PassCounts, PlanDecisions, Sandbox, Store } from '../store/store.ts'
import { addCounts, decisions, type Known } from './pass.ts'
import { fireNext } from './slot-reserve.ts'

/** The longest time between two passes of an advance, which also stops at every instant for which a plan waits. */
const CADENCE_MS = HOUR_MS
/** Plans in one transaction: live calls wait for each, and most plans at a stop fire. */
export const STOP_PAGE_PLANS = 100

type AdvanceOptions = {
  store: Store
  machine: Machine
  /** With a key, the advance stops once the key has ended. */
  tenant: Caller
  byMs: number
  /** The advance stops after this many executions; by default, when the environment is full. */
  executionsMax?: number | undefined
  /** The price during the whole advance; null for the newest stored one, if any. */
  price: Price | null
  audit: AuditEntry
  /** May throw to end the advance. */
  onProgress: (share: number) => void
  /** Called with the result so far when the advance ends early, so that its wake-ups are still sent. */
  onEnd?: (counts: PassCounts & { wakeUpId: number }) => Promise<unknown>
}

export type Advanced = PassCounts & {
  wakeUpId: number
  before: Sandbox
  after: Sandbox
  price: Price | null
  passes: number
  leasesExpired: number
}

/**
 * Moves the clock of a test environment forward, firing what falls due on the way. Each step is one transaction, so an
 * advance that is interrupted, or that reaches `executionsMax`, has only gone less far. Throws sandbox_refused,
 * sandbox_full, database_in_use.
 */
export async function advanceSandbox(options: AdvanceOptions): Promise<Advanced> {
  const { store, tenant, byMs, audit, executionsMax = Number.POSITIVE_INFINITY } = options
  const pass = await knownAt(store, options.price)
  const { sandbox: before, plans, room, wakeUpId, end } = await store.beginAdvance(tenant, byMs, audit)
  const togetherMs = plans > EXACT_PLANS_MAX ? MINUTE_MS : 0
  const limits = { executionsMax: Math.min(executionsMax, room), leadMs: failsafeLead([]), togetherMs }
  const walk: Walk = { ...options, ...limits, pass, from: before.now, wakeUpId }
  const total = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0, passes: 0 }
  const arrive = async (): Promise<Advanced> => {
    const movedMs = await takeThrough(walk, total)
    const to = plus(before.now, movedMs)
    return {
      ...total,
      wakeUpId,
      before,
      after: { ...before, now: to, offsetMs: before.offsetMs + movedMs },
      price: pass.price?.price ?? null,
      leasesExpired: await store.countExpiredLeases(tenant, before.now, to),
    }
  }
  try {
    return await arrive().finally(end)
  } catch (error) {
    // From here on the next advance may begin: sending to a partner may take seconds.
    await options.onEnd?.({ ...total, wakeUpId })
    throw error
  }
}

/** Goes from stop to stop and runs a pass at each, adding it to `total`. Returns how far it got. */
async function takeThrough(walk: Walk, total: PassCounts & { passes: number }): Promise<number> {
  const { pass, byMs, leadMs, machine, onProgress, executionsMax } = walk
  let moved = 0
  for (let reached = 0; ; reached = await nextStep(walk, reached)) {
    const due = await dueAt(walk, reached)
    // Nothing is written between stops: an hour in which nothing is due costs one read.
    if (due.length > 0 || reached === byMs) {
      const visited = { due, byMs: reached - moved, decisions: decisions(pass, leadMs, machine) }
      await visit(walk, visited, total)
      moved = reached
    }
    total.passes += 1
    onProgress(reached / byMs)
    if (reached === byMs || total.executionsCreated >= executionsMax) return moved
  }
}

type Walk = AdvanceOptions & {
  executionsMax: number
  pass: Known
  from: Instant
  wakeUpId: number
  leadMs: number
  togetherMs: number
}
type Visit = { due: readonly number[]; byMs: number; decisions: PlanDecisions }

/** The price stays the same while the sandbox's time runs, and stays as fresh as at the start. */
async function knownAt(store: Store, price: Price | null): Promise<Known> {
  const stored = await store.peekPass()
  const chosen = price ?? stored.price?.price ?? null
  return { ...stored, price: chosen && { price: chosen, at: stored.at } }
}

const dueAt = ({ store, tenant, from, pass, leadMs }: Walk, reached: number): Promise<number[]> =>
  store.listSandboxDue(tenant, { now: plus(from, reached), livePrice: pass.price?.price ?? null, leadMs })

async function nextStep(
  { store, tenant, from, leadMs, togetherMs, byMs }: Walk,
  reached: number,
): Promise<number> {
  const stop = await store.findNextStop(tenant, { after: plus(from, reached), leadMs, togetherMs })
  // No plan waits for anything, so the advance can go to its end.
  if (stop === null) return byMs
  return Math.min(byMs, reached + CADENCE_MS, stop - from)
}

/** Visits pages, adding each to `total` once it is stored. Each plan of a page creates at most one execution. */
async function visit(
  { store, tenant, wakeUpId, executionsMax }: Walk,
  { due, byMs, decisions }: Visit,
  total: PassCounts,
): Promise<void> {
  let from = 0
  const nextPage = (): readonly number[] => {
    const length = Math.min(STOP_PAGE_PLANS, executionsMax - total.executionsCreated)
    from += length
    return due.slice(from - length, from)
  }
  addCounts(total, await store.moveSandbox(tenant, byMs, { wakeUpId, planIds: nextPage(), decisions }))
  for (let page = nextPage(); page.length > 0; page = nextPage())
    addCounts(total, await store.changeDuePlans(wakeUpId, page, decisions))
}

type FireOptions = Pick<AdvanceOptions, 'store' | 'machine' | 'tenant' | 'price' | 'audit'>

/** Fires the next tranche of a plan of a test environment now. Throws plan_not_found, sandbox_refused. */
export async function fireInSandbox(
  partnerPlanId: string,
  { store, machine, tenant, price, audit }: FireOptions,
): Promise<{ fired: Fired; wakeUpId: number }> {
  const pass = await knownAt(store, price)
  const leadMs = failsafeLead([])
  const market = { price: pass.price?.price ?? null, sigma: sigma(pass.volatility), leadMs }
  const decide: PlanDecisions['decide'] = (schedule, now) => {
    const decision = fireNext(schedule, { ...market, now })
    if (decision) return decision
    throw new Problem(
      'sandbox_refused',
      `Plan ${partnerPlanId} has nothing to fire: its window has not begun, or its money is out or spent.`,
    )
  }
  return store.fireInSandbox(tenant, partnerPlanId, { ...decisions(pass, leadMs, machine), decide }, audit)
}
