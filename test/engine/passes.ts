// Drives one window through scheduler passes, as a scheduler does: only when a due condition of its schedule holds.

import type { Tranche } from '../../src/core/execution.ts'
import { type Price, price, type Usd, usd } from '../../src/core/money.ts'
import { DAY_MS, type Instant, plus } from '../../src/core/time.ts'
import { type Frequency, freshSchedule, opening, type Schedule, type Window } from '../../src/core/window.ts'
import { decide } from '../../src/engine/slot-reserve.ts'

export const START = Date.UTC(2026, 0, 5) as Instant
export const SIGMA = 0.005
export const LEAD_MS = 15 * 60_000

export const at = (ms: number): Instant => plus(START, ms)
export const dollars = (amount: number): Price => price(amount.toFixed(8))

export function scheduleOf(
  frequency: Frequency,
  amount: string,
  minTranche = '5.00',
  start = START,
): Schedule {
  const none = { reserved: 0n as Usd, spent: 0n as Usd, excess: 0n as Usd, released: 0n as Usd, closed: null }
  const window: Window = { windowId: 1, planId: 1, ...opening(start, frequency, usd(amount)), ...none }
  return freshSchedule(window, usd(minTranche))
}

export const windowDays = (schedule: Schedule): number => (schedule.windowEnd - schedule.windowStart) / DAY_MS

/** A single pass: `ms` after the window's start, at a live price or without one. */
export type PassAt = { ms: number; price: Price | null; leadMs?: number; sigma?: number }
export type Fired = Tranche & { ms: number }
export type Run = { fired: Fired[]; schedule: Schedule; touched: number }

export type Drive = {
  /** Decides at every pass, due or not. */
  eagerly?: boolean
  /** The refund of a tranche by the next pass; nothing by default. */
  refund?: (fired: Fired) => Usd
}

export function drive(schedule: Schedule, passes: readonly PassAt[], options: Drive = {}): Run {
  const run: Run = { fired: [], schedule, touched: 0 }
  for (const pass of passes) {
    const leadMs = pass.leadMs ?? LEAD_MS
    const now = plus(schedule.windowStart, pass.ms)
    if (now >= schedule.windowEnd) break
    if (!options.eagerly && !isDue(run.schedule, { ...pass, now, leadMs })) continue
    run.touched += 1
    const decision = decide(run.schedule, { now, price: pass.price, sigma: pass.sigma ?? SIGMA, leadMs })
    run.schedule = decision.schedule
    if (!decision.tranche) continue
    const fired = { ...decision.tranche, ms: pass.ms }
    run.fired.push(fired)
    const back = options.refund?.(fired) ?? 0n
    run.schedule = { ...run.schedule, fireable: (run.schedule.fireable + back) as Usd }
  }
  return run
}

/** The conditions by which the store finds a plan: four comparisons of columns. */
function isDue(schedule: Schedule, pass: { now: Instant; price: Price | null; leadMs: number }): boolean {
  const { nextRunAt, limitPrice, clockAt, fireable, floor, windowEnd } = schedule
  if (nextRunAt <= pass.now) return true
  if (fireable >= floor && windowEnd <= pass.now + pass.leadMs) return true
  if (pass.price === null) return clockAt !== null && clockAt <= pass.now
  return limitPrice !== null && limitPrice >= pass.price
}

/** Passes `everyMs` apart from the window's start on, for `forMs`. */
export const regular = (
  everyMs: number,
  forMs: number,
  priceAt: (ms: number) => Price | null = () => null,
): PassAt[] =>
  Array.from({ length: Math.ceil(forMs / everyMs) }, (_, i) => ({
    ms: i * everyMs,
    price: priceAt(i * everyMs),
  }))

export const total = (fired: readonly Fired[]): bigint => fired.reduce((sum, { amount }) => sum + amount, 0n)
