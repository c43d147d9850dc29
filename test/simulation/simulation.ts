// A seeded world for whole-service simulations: chance, a price path with outages, and a clock that may go wrong.

import type { TestContext } from 'node:test'
import { DAY_MS, type Instant, MINUTE_MS, plus } from '../../src/core/instant.ts'
import { type Price, price } from '../../src/core/money.ts'
import type { PassReport } from '../../src/engine/pass.ts'
import { allExecutions, allPlans, tick, type World } from '../store/world.ts'

export type Chance = {
  /** From 0 up to, not including, 1. */
  next: () => number
  happens: (probability: number) => boolean
  /** Whole, both ends included. */
  between: (low: number, high: number) => number
  pick: <T>(of: readonly T[]) => T
}

/** Chance that a seed repeats: the generator mulberry32. */
export function chanceOf(seed: number): Chance {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1))
  return {
    next,
    between,
    happens: (probability) => next() < probability,
    pick: (of) => {
      const picked = of[between(0, of.length - 1)]
      if (picked === undefined) throw new Error('nothing to pick from')
      return picked
    },
  }
}

/** A walk in steps of up to half a percent, with outages of the feed. */
export function priceFeed({ next, happens, between }: Chance): () => Price | undefined {
  let dollars = 60_000
  let silent = 0
  return () => {
    dollars *= Math.exp((next() - 0.5) / 100)
    if (silent > 0) silent -= 1
    else if (happens(0.02)) silent = between(1, 20)
    return silent > 0 ? undefined : price(dollars.toFixed(2))
  }
}

export type Simulation = World & Chance & { feed: () => Price | undefined }

/** Runs `pass` after `pass` until the clock reaches the end, and `day` each time a day of passes is over. */
export async function run(
  simulation: Simulation,
  { end, everyMs }: { end: Instant; everyMs: number },
  { pass, day }: { pass: (report: PassReport) => Promise<void>; day: () => Promise<void> },
): Promise<void> {
  const perDay = Math.round(DAY_MS / everyMs)
  for (let i = 1; simulation.now() < end; i++) {
    await pass(await tick(simulation, simulation.feed()))
    if (i % perDay === 0) await day()
    simulation.advance(everyMs + simulation.between(-MINUTE_MS, MINUTE_MS))
  }
  await day()
}

/** How long until the next window of any active plan ends. */
export async function untilNextEnd({ store, now }: World): Promise<number> {
  const ends = (await allPlans(store)).map(({ window }) => (window?.end ?? Number.POSITIVE_INFINITY) - now())
  return Math.min(...ends.filter((ms) => ms > 0))
}

/** The rules that hold at every moment, whatever the partner, the operator, the feed and the clock did. */
export async function faults({ store }: World): Promise<string[]> {
  const all = await allExecutions(store)
  const keys = all.map(
    (one) => `${one.tenant.tenantId}:${one.partnerPlanId}:${one.windowStart}:${one.trancheIndex}`,
  )
  const found = (await store.findFaults()).map((fault) => `${fault.kind}: ${fault.subject} ${fault.message}`)
  if (new Set(keys).size !== keys.length) found.push('an idempotency key was made twice')
  return found
}

/** Prints the seed, and names it in whatever goes wrong, so that it can be run again. */
export async function withSeed(t: TestContext, seed: number, act: () => Promise<void>): Promise<void> {
  t.diagnostic(`SIMULATION_SEED=${seed}`)
  try {
    await act()
  } catch (error) {
    throw new Error(`SIMULATION_SEED=${seed} repeats this: ${(error as Error).message}`, { cause: error })
  }
}

export const hoursAfter = (at: Instant, hours: number): Instant => plus(at, hours * 60 * MINUTE_MS)
