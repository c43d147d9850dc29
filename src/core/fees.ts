// Fees: what a month costs a partner. Integers throughout; rounded once.

import { type Btc, roundToCents, type Usd, ZERO_USD } from './money.ts'
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

export const BPS_ONE = 10_000n
const NO_FEES: Fees = { volumeFee: ZERO_USD, userFee: ZERO_USD, minimumFee: ZERO_USD, total: ZERO_USD }

/**
 * fee = max(minimum, round_half_even(volume x bps / 10,000, cents) + active users x per user). A volume that
 * adjustments of earlier months have brought below nothing is charged like none.
 */
export function feesOf(tier: Tier, activity: Pick<Activity, 'volume' | 'activeUsers'>): Fees {
  const volumeFee = roundToCents(chargedVolume(activity.volume) * BigInt(tier.rateBps), BPS_ONE)
  const userFee = (BigInt(activity.activeUsers) * tier.perActiveUser) as Usd
  const sum = (volumeFee + userFee) as Usd
  return {
    volumeFee,
    userFee,
    minimumFee: tier.monthlyMinimum,
    total: sum > tier.monthlyMinimum ? sum : tier.monthlyMinimum,
  }
}

/** The volume that a fee is taken of. */
export const chargedVolume = (volume: Usd): Usd => (volume > 0n ? volume : ZERO_USD)

/** Draws up a statement. Nothing is charged in the test environment, nor for a month the partner was not there in. */
export function statementOf(
  of: Omit<Statement, 'fees' | 'billable'> & { partnerExisted: boolean },
): Statement {
  const { partnerExisted, ...rest } = of
  const billable = of.tenant.environment === 'live'
  return { ...rest, billable, fees: billable && partnerExisted ? feesOf(of.tier, of.activity) : NO_FEES }
}
