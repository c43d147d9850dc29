// Statements: what a month costs a partner, and each user's share of it. Integers throughout; rounded once.

import type { Price, Usd } from './money.ts'
import { type Btc, CENT, UNITS, ZERO_USD } from './money.ts'
import type { Period } from './month.ts'
import type { Tenant } from './partner.ts'
import type { Tier } from './tier.ts'

/** What was recorded for a tenant in a month. */
export type Activity = {
  activeUsers: number
  activePlans: number
  executionsCreated: number
  executionsFilled: number
  executionsPartial: number
  executionsFailed: number
  executionsCancelled: number
  volume: Usd
  btc: Btc
  partnerFees: Usd
}

export type Fees = { volumeFee: Usd; userFee: Usd; minimumFee: Usd; total: Usd }

export type Statement = {
  tenant: Tenant
  period: Period
  final: boolean
  billable: boolean
  tier: Tier
  tierSource: 'override' | 'volume'
  activity: Activity
  fees: Fees
}

const BPS_ONE = 10_000n
const NO_FEES: Fees = { volumeFee: ZERO_USD, userFee: ZERO_USD, minimumFee: ZERO_USD, total: ZERO_USD }

/**
 * The version of each tier in force in a month, by the volume it begins at. Of those that begin at the same one the
 * tier that was there first comes last, where the choice by volume finds it: a tier added for overrides, whose volume
 * is 0.00 because nobody gave one, must not become the price of everybody.
 */
export function tiersInForce(versions: readonly Tier[], month: string): Tier[] {
  const inForce = versions.filter((tier) => tier.fromMonth <= month)
  const tiers = Map.groupBy(inForce, (tier) => tier.name)
  const dated = [...tiers.values()].map((own) => {
    const byMonth = own.toSorted((a, b) => order(a.fromMonth, b.fromMonth))
    return { since: byMonth[0]?.fromMonth ?? '', tier: byMonth.at(-1) as Tier }
  })
  dated.sort(
    (a, b) =>
      order(a.tier.minVolume, b.tier.minVolume) || order(b.since, a.since) || order(b.tier.name, a.tier.name),
  )
  return dated.map(({ tier }) => tier)
}

const order = <T extends string | bigint>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

/** The override where there is one in force, else the highest tier the volume reaches, else the lowest there is. */
export function chooseTier(
  inForce: readonly Tier[],
  override: string | null,
  volume: Usd,
): { tier: Tier; tierSource: 'override' | 'volume' } {
  if (override !== null) {
    const tier = inForce.find(({ name }) => name === override)
    // The store takes no override whose tier is not in force; charging another price instead would go unnoticed.
    if (!tier) throw new Error(`the override names ${override}, which is not in force`)
    return { tier, tierSource: 'override' }
  }
  const tier = inForce.findLast((candidate) => candidate.minVolume <= volume) ?? inForce[0]
  if (!tier) throw new Error('no pricing tier is in force')
  return { tier, tierSource: 'volume' }
}

/**
 * fee = max(minimum, round_half_even(volume x bps / 10,000, cents) + active users x per user). A volume that
 * adjustments of earlier months have brought below nothing is charged like none.
 */
export function feesOf(tier: Tier, activity: Pick<Activity, 'volume' | 'activeUsers'>): Fees {
  const volumeFee = roundToCents(charged(activity.volume) * BigInt(tier.rateBps), BPS_ONE)
  const userFee = (BigInt(activity.activeUsers) * tier.perActiveUser) as Usd
  const sum = (volumeFee + userFee) as Usd
  return {
    volumeFee,
    userFee,
    minimumFee: tier.monthlyMinimum,
    total: sum > tier.monthlyMinimum ? sum : tier.monthlyMinimum,
  }
}

const charged = (volume: Usd): Usd => (volume > 0n ? volume : ZERO_USD)

/** Draws up a statement. Nothing is charged in the test environment, nor for a month the partner was not there in. */
export function statementOf(
  of: Omit<Statement, 'fees' | 'billable'> & { partnerExisted: boolean },
): Statement {
  const { partnerExisted, ...rest } = of
  const billable = of.tenant.environment === 'live'
  return { ...rest, billable, fees: billable && partnerExisted ? feesOf(of.tier, of.activity) : NO_FEES }
}

/** Dollars per coin, half-even at the eighth place; null without volume, or where adjustments left none. */
export function averagePrice(volume: Usd, btc: Btc): Price | null {
  return btc <= 0n || volume <= 0n ? null : (divideHalfEven(volume * UNITS, btc) as Price)
}

/** What a user's own trades would cost before rounding, in units of 1e-12 dollars: the weight of its share. */
export const feeWeight = (tier: Tier, user: { trades: number; volume: Usd }): bigint =>
  charged(user.volume) * BigInt(tier.rateBps) + (user.trades > 0 ? tier.perActiveUser * BPS_ONE : 0n)

/**
 * Shares a total among weights by largest remainder, in cents: every share is its exact part rounded down, and the
 * cents left over go to the largest remainders, the earlier one first where they are equal. The shares add up to the
 * total. Weights that are all zero count as equal. `total` is whole cents.
 */
export function shareOut(total: Usd, weights: readonly bigint[]): Usd[] {
  if (weights.length === 0) return []
  const sum = weights.reduce((a, b) => a + b, 0n)
  const fair = sum === 0n ? weights.map(() => 1n) : weights
  const whole = sum === 0n ? BigInt(weights.length) : sum
  const cents = total / CENT
  const shares = fair.map((weight) => (cents * weight) / whole)
  const remainders = fair.map((weight) => (cents * weight) % whole)
  const left = Number(cents - shares.reduce((a, b) => a + b, 0n))
  const order = Uint32Array.from(shares.keys()).sort((a, b) => {
    const [x, y] = [remainders[a] ?? 0n, remainders[b] ?? 0n]
    return x > y ? -1 : x < y ? 1 : a - b
  })
  for (const i of order.subarray(0, left)) shares[i] = (shares[i] ?? 0n) + 1n
  return shares.map((share) => (share * CENT) as Usd)
}

/** numerator / denominator in units, rounded half-even to whole cents. */
const roundToCents = (numerator: bigint, denominator: bigint): Usd =>
  (divideHalfEven(numerator, denominator * CENT) * CENT) as Usd

/** Division of non-negative integers, rounded to the nearest, a half to the even one. */
export function divideHalfEven(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator
  const twice = (numerator % denominator) * 2n
  if (twice > denominator || (twice === denominator && quotient % 2n === 1n)) return quotient + 1n
  return quotient
}
