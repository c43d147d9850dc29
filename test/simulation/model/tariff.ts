// What a month costs in the model: which tier it is charged by, the fee, and each user's share of it.

import type { State, Tier } from './state.ts'
import { CENT, halfEven } from './units.ts'

export type Charged = { tier: Tier; isOverride: boolean }

/** The tier of a partner in a month of so much volume: the one it was promised, or else the one that it reaches. */
export function tierFor(
  state: State,
  { slug, month, volume }: { slug: string; month: string; volume: bigint },
): Charged {
  const promised = newest(
    state.overrides.filter((one) => one.slug === slug),
    month,
  )
  const override = promised?.tier ? versionOf(state, promised.tier, month) : undefined
  if (override) return { tier: override, isOverride: true }
  return { tier: byVolume(state, month, volume), isOverride: false }
}

/** What is in force in a month: the version that begins last before its end. */
const newest = <T extends { from: string }>(versions: readonly T[], month: string): T | undefined =>
  versions.reduce<T | undefined>(
    (best, one) => (one.from <= month && (!best || one.from > best.from) ? one : best),
    undefined,
  )

const versionsOf = ({ tiers }: State, name: string): Tier[] => tiers.filter((tier) => tier.name === name)

const versionOf = (state: State, name: string, month: string): Tier | undefined =>
  newest(versionsOf(state, name), month)

/** The highest that the volume reaches. When it reaches none, the lowest. Of equal ones the oldest. */
function byVolume(state: State, month: string, volume: bigint): Tier {
  type Step = { tier: Tier; from: bigint }
  const steps = oldestFirst(state).flatMap((name): Step[] => {
    const tier = versionOf(state, name, month)
    // One that has no volume is nobody's by volume.
    return tier && tier.minVolume !== null ? [{ tier, from: tier.minVolume }] : []
  })
  let lowest: Step | null = null
  let reached: Step | null = null
  // The older ones come first, so that only more, or less, takes the place of one.
  for (const step of steps) {
    if (!lowest || step.from < lowest.from) lowest = step
    if (step.from <= volume && (!reached || step.from > reached.from)) reached = step
  }
  const applied = reached ?? lowest
  if (!applied) throw new Error('no tier is left to be charged by')
  return applied.tier
}

/** The names of all tiers: by the month that they begin in, and within a month as they were set. */
function oldestFirst({ tiers }: State): string[] {
  const begins = new Map<string, string>()
  const places = new Map<string, number>()
  for (const { name, from, place } of tiers) {
    places.set(name, place)
    const known = begins.get(name)
    if (known === undefined || from < known) begins.set(name, from)
  }
  const byAge = [...begins].map(([name, since]) => ({ name, since, place: places.get(name) ?? 0 }))
  byAge.sort((a, b) => (a.since === b.since ? a.place - b.place : a.since < b.since ? -1 : 1))
  return byAge.map(({ name }) => name)
}

export type Fees = { volume: bigint; users: bigint; minimum: bigint; total: bigint }

export const NO_FEES: Fees = { volume: 0n, users: 0n, minimum: 0n, total: 0n }

/** Rounded once, on the whole volume; a volume below zero costs nothing, and gives nothing back. */
export function feesFor({ bps, perUser, minimum }: Tier, volume: bigint, activeUsers: number): Fees {
  const charged = volume > 0n ? volume : 0n
  const ofVolume = CENT * halfEven(charged * BigInt(bps), 10_000n * CENT)
  const ofUsers = perUser * BigInt(activeUsers)
  const both = ofVolume + ofUsers
  return { volume: ofVolume, users: ofUsers, minimum, total: both < minimum ? minimum : both }
}

/** What a user did in a month: dollars, and whether it has a fill of its own. */
export type Part = { volume: bigint; isActive: boolean }

/**
 * Splits a total in whole cents, in proportion to what each user would cost alone before rounding; what is left over
 * goes cent by cent to the largest remainders, of equal ones to the first. Where nobody would cost anything, all bear
 * the same.
 */
export function sharesOf(total: bigint, parts: readonly Part[], { bps, perUser }: Tier): bigint[] {
  const costs = parts.map(
    ({ volume, isActive }) => (volume > 0n ? volume * BigInt(bps) : 0n) + (isActive ? perUser * 10_000n : 0n),
  )
  const sum = costs.reduce((a, b) => a + b, 0n)
  const weights = sum === 0n ? costs.map(() => 1n) : costs
  const whole = sum === 0n ? BigInt(parts.length) : sum
  const cents = total / CENT
  const shares = weights.map((weight) => ({
    cents: (cents * weight) / whole,
    rest: (cents * weight) % whole,
  }))
  let leftOver = cents - shares.reduce((given, share) => given + share.cents, 0n)
  const byRest = [...shares.keys()].sort((a, b) => compare(shares[b]?.rest ?? 0n, shares[a]?.rest ?? 0n))
  for (const place of byRest) {
    const share = shares[place]
    if (leftOver === 0n || !share) break
    share.cents += 1n
    leftOver -= 1n
  }
  return shares.map((share) => share.cents * CENT)
}

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0)
