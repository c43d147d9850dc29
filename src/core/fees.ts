// Fees: what a month costs a partner, and each user's share of it. Integers throughout; rounded once.

import { type Btc, CENT, roundToCents, type Usd, ZERO_USD } from './money.ts'
import type { Period } from './month.ts'
import type { Tenant } from './partner.ts'
import type { Tier, TierSource } from './tier.ts'

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
  tierSource: TierSource
  activity: Activity
  fees: Fees
}

const BPS_ONE = 10_000n
const NO_FEES: Fees = { volumeFee: ZERO_USD, userFee: ZERO_USD, minimumFee: ZERO_USD, total: ZERO_USD }

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
