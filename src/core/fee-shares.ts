// Each user's share of what a month costs a partner.

import { BPS_ONE, chargedVolume } from './fees.ts'
import { CENT, type Usd } from './money.ts'
import type { Tier } from './tier.ts'

/** What a user's own trades would cost before rounding, in units of 1e-12 dollars: the weight of its share. */
export const feeWeight = (tier: Tier, user: { trades: number; volume: Usd }): bigint =>
  chargedVolume(user.volume) * BigInt(tier.rateBps) + (user.trades > 0 ? tier.perActiveUser * BPS_ONE : 0n)

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
