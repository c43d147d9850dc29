// The model's windows: a budget, and where every dollar of it is.

import { currentWindow, type Execution, isOpen, type Plan, type Timing, type Window } from './state.ts'
import { least } from './units.ts'

export const leftOf = ({ budget, reserved, spent }: Window): bigint => budget - reserved - spent

/** Opens a window: looked at from its first instant on. */
export function open(plan: Plan, { start, end, budget }: Pick<Window, 'start' | 'end' | 'budget'>): Timing {
  const window: Window = {
    start,
    end,
    budget,
    reserved: 0n,
    spent: 0n,
    excess: 0n,
    released: 0n,
    closed: null,
  }
  plan.windows.push(window)
  plan.timing = {
    window,
    floor: least(plan.tenant.partner.minTranche, budget),
    index: 0,
    cut: null,
    slot: -1,
    reference: null,
    nextRun: start,
    limit: null,
    clock: null,
    extras: 3,
    nextExtra: start,
  }
  return plan.timing
}

/** Closes the current window, if there is one: what it has left is released. */
export function close(plan: Plan, at: number, reason: 'ended' | 'reset' | 'cancelled'): void {
  const window = currentWindow(plan)
  plan.timing = null
  if (!window) return
  window.released = leftOf(window)
  window.closed = { at, reason }
}

/** Gives money back to a window: it covers an excess first. */
function giveBack(window: Window, amount: bigint): void {
  const covered = least(amount, window.excess)
  window.excess -= covered
  window.spent += covered
  if (window.closed) window.released += amount - covered
}

/** Ends a reservation of which so much was spent. */
export function settle({ window, amount }: Execution, spent: bigint): void {
  window.reserved -= amount
  window.spent += spent
  giveBack(window, amount - spent)
}

/**
 * Changes what an execution without a reservation came to. More comes out of what the window has left, as far as that
 * and the execution's own amount go, and is excess beyond; less takes the excess away first.
 */
export function change({ window, amount }: Execution, before: bigint, after: bigint): void {
  if (after < before) {
    const less = before - after
    const covered = least(less, window.excess)
    window.excess -= covered
    window.spent -= less - covered
    if (window.closed) window.released += less - covered
    return
  }
  const inside = least(after, amount) - least(before, amount)
  const left = window.closed ? window.released : leftOf(window)
  const taken = least(inside, left)
  window.spent += taken
  window.excess += after - before - taken
  if (window.closed) window.released -= taken
}

/** Ends the open executions of a plan, by a cancel or a disable. Answers how many. */
export function cancelOpen(plan: Plan, now: number): number {
  const ended = plan.executions.filter(isOpen)
  for (const execution of ended) {
    settle(execution, 0n)
    execution.status = 'cancelled'
    execution.cancelledAt = now
  }
  return ended.length
}
