// One scheduler pass: takes the lock, reads the price, visits the due plans, and stores the executions that fire.

import { clockDisputed, decideDispute, type Testimony } from '../core/clock.ts'
import { type ExecutionId, nextExecutionId } from '../core/execution.ts'
import { frozenProblem } from '../core/frozen.ts'
import type { Price } from '../core/money.ts'
import { livePriceOf, observe as observePrice, sigma } from '../core/price.ts'
import { Problem } from '../core/problem.ts'
import type { Instant } from '../core/time.ts'
import { failsafeLead, roll } from '../core/window.ts'
import type { Machine } from '../machine.ts'
import type {
  AskedFeed,
  ObservedPrice,
  PassCounts,
  PassStart,
  PlanDecisions,
  Preview,
  Store,
} from '../store/store.ts'
import { decide } from './slot-reserve.ts'

/** Plans in one transaction: enough to share the cost of a commit, few enough to hold the write lock briefly. */
const PAGE_PLANS_MAX = 1_000
export type FailedPlan = { planId: number; error: unknown }
export type PassResult = PassCounts & {
  passId: number
  at: Instant
  price: Price | null
  failed: FailedPlan[]
}

export type Known = Omit<PassStart, 'passId'>

export type PassOptions = {
  store: Store
  machine: Machine
  /**
   * Called once before the pass begins, unless the database is frozen. Returns a price, unless there is no feed or it
   * failed; the time in the feed's answers; and the feed's name for the operator.
   */
  observe: () => Promise<{ price: ObservedPrice | null; testimony: Testimony; asked?: AskedFeed }>
}

/**
 * Runs one pass. Null while another process runs one. Throws clock_disputed, without firing, rolling or storing
 * anything, when the clock and the feed's time are too far apart (docs/decisions/clock.md).
 */
export async function runPass({ store, machine, observe }: PassOptions): Promise<PassResult | null> {
  const turn = await store.takePass()
  if (!turn) return null
  try {
    const pass = await begin(store, observe)
    const { passId, at } = pass
    const leadMs = failsafeLead(pass.passGapsMs)
    const livePrice = livePriceOf(pass.price, at)
    const pages = turn.duePages({ now: at, livePrice, leadMs }, PAGE_PLANS_MAX)
    const result = await visitAll(pages, { store, passId, decide: decisions(pass, leadMs, machine) })
    await store.finishPass(passId, result)
    return { passId, at, price: livePrice, ...result }
  } finally {
    await turn.end()
  }
}

async function begin(store: Store, observe: PassOptions['observe']): Promise<PassStart> {
  // A pass that will be refused needs no price: for days, each one would warn that a feed is down.
  const frozen = await store.readFrozen()
  if (frozen) throw frozenProblem(frozen)
  const { price, testimony, asked } = await observe()
  const dispute = await store.decideDispute((now, standing) => decideDispute(now, testimony, standing))
  if (dispute) throw clockDisputed(dispute)
  return store.beginPass(price, asked)
}

export type Rehearsal = {
  at: Instant
  price: Price | null
  leadMs: number
  plansEvaluated: number
  fired: Preview[]
}

/** Computes a pass without storing anything, not even the price. Throws clock_disputed as the pass would. */
export async function rehearsePass({ store, machine, observe }: PassOptions): Promise<Rehearsal> {
  const { price: observed, testimony } = await observe()
  const { now, standing } = await store.readClock()
  const dispute = decideDispute(now, testimony, standing)
  if (dispute) throw clockDisputed(dispute)
  const stored = await store.peekPass()
  const pass = observed
    ? {
        ...stored,
        price: { price: observed.price, at: stored.at },
        volatility: observePrice(stored.volatility, observed.price, stored.at),
      }
    : stored
  const leadMs = failsafeLead(pass.passGapsMs)
  const price = livePriceOf(pass.price, pass.at)
  const due = await store.listDuePlans({ now: pass.at, livePrice: price, leadMs })
  const fired: Preview[] = []
  for (let from = 0; from < due.length; from += PAGE_PLANS_MAX) {
    const page = due.slice(from, from + PAGE_PLANS_MAX)
    fired.push(...(await store.previewDuePlans(page, decisions(pass, leadMs, machine))))
  }
  return { at: pass.at, price, leadMs, plansEvaluated: due.length, fired }
}

export async function countDuePlans(store: Pick<Store, 'peekPass' | 'listDuePlans'>): Promise<number> {
  const { at, price, passGapsMs } = await store.peekPass()
  const due = { now: at, livePrice: livePriceOf(price, at), leadMs: failsafeLead(passGapsMs) }
  return (await store.listDuePlans(due)).length
}

type Visit = { store: Store; passId: number; decide: PlanDecisions }
type Visited = PassCounts & { failed: FailedPlan[] }

async function visitAll(pages: AsyncIterable<number[]>, visit: Visit): Promise<Visited> {
  const total: Visited = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0, failed: [] }
  for await (const page of pages) await visitPage(page, visit, total)
  return total
}

export function addCounts(total: PassCounts, page: PassCounts): void {
  total.plansEvaluated += page.plansEvaluated
  total.executionsCreated += page.executionsCreated
  total.windowsRolled += page.windowsRolled
}

/** Visits a page. If one of its plans fails, visits them one by one, so that the others still fire. */
async function visitPage(planIds: number[], visit: Visit, total: Visited): Promise<void> {
  try {
    addCounts(total, await visit.store.changeDuePlans(visit.passId, planIds, visit.decide))
  } catch (error) {
    if (error instanceof Problem || visit.store.isOutage(error)) throw error
    const [planId, ...others] = planIds
    if (planId !== undefined && others.length === 0) total.failed.push({ planId, error })
    else for (const one of planIds) await visitPage([one], visit, total)
  }
}

export function decisions(pass: Known, leadMs: number, machine: Machine): PlanDecisions {
  const deviation = sigma(pass.volatility)
  return {
    roll,
    decide: (schedule, now, real) =>
      decide(schedule, { now, price: livePriceOf(pass.price, real), sigma: deviation, leadMs }),
    newExecutionId: (previous: ExecutionId | null, real) =>
      nextExecutionId(previous, real, machine.random(10)),
  }
}
