// Fees: pricing tiers, and what a month costs a partner. Integers throughout; a fee is rounded once.

import { type Btc, CENT, roundToCents, type Usd, ZERO_USD } from './money.ts'
import type { Period } from './month.ts'
import type { Tenant } from './partner.ts'
import { notFound, Problem, usage } from './problem.ts'
import { type Instant, monthOf } from './time.ts'

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

/** The purchases: filled and partial trades. */
export const tradesIn = ({ executionsFilled, executionsPartial }: Activity): number =>
  executionsFilled + executionsPartial

type Fees = { volumeFee: Usd; userFee: Usd; minimumFee: Usd; total: Usd }

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
 * fee = max(minimum, round_half_even(volume x bps / 10,000, cents) + active users x per user). A volume made negative
 * by adjustments of earlier months is charged as zero. After the last month of a partner's minimum, the minimum is
 * 0.00.
 */
export function feesOf(
  tier: Tier,
  activity: Pick<Activity, 'volume' | 'activeUsers'>,
  isMinimumDue = true,
): Fees {
  const volumeFee = roundToCents(chargedVolume(activity.volume) * BigInt(tier.rateBps), BPS_ONE)
  const userFee = (BigInt(activity.activeUsers) * tier.perActiveUser) as Usd
  const sum = (volumeFee + userFee) as Usd
  const minimumFee = isMinimumDue ? tier.monthlyMinimum : ZERO_USD
  return { volumeFee, userFee, minimumFee, total: sum > minimumFee ? sum : minimumFee }
}

const chargedVolume = (volume: Usd): Usd => (volume > 0n ? volume : ZERO_USD)

/** Computes a statement. Nothing is charged in the test environment, nor for a month before the partner existed. */
export function statementOf(
  drawn: Omit<Statement, 'fees' | 'billable'> & { partnerExisted: boolean; lastMinimum: string | null },
): Statement {
  const { partnerExisted, lastMinimum, ...rest } = drawn
  const billable = drawn.tenant.environment === 'live'
  if (!billable || !partnerExisted) return { ...rest, billable, fees: NO_FEES }
  const isMinimumDue = lastMinimum === null || drawn.period.month <= lastMinimum
  return { ...rest, billable, fees: feesOf(drawn.tier, drawn.activity, isMinimumDue) }
}

/** What a user's own trades would cost before rounding, in units of 1e-12 dollars: the weight of the user's share. */
export const feeWeight = (tier: Tier, user: { trades: number; volume: Usd }): bigint =>
  chargedVolume(user.volume) * BigInt(tier.rateBps) + (user.trades > 0 ? tier.perActiveUser * BPS_ONE : 0n)

/**
 * Shares a total of whole cents among weights by largest remainder: each share is rounded down, and the cents left over
 * go to the largest remainders, the earlier one first where they are equal. The shares add up to the total. Weights
 * that are all zero count as equal.
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

// Pricing tiers, versioned by month: a price is fixed before its month begins, or while it runs.

export type Tier = {
  name: string
  fromMonth: string
  /** The rank of its name in the order in which names were first set, from 1. All versions of a tier share it. */
  place: number
  /** The monthly volume from which it applies; null for a tier that is for overrides only. */
  minVolume: Usd | null
  rateBps: number
  perActiveUser: Usd
  monthlyMinimum: Usd
}

type TierSource = 'override' | 'volume'

export const TIER_NAME_MAX = 32
export const TIER_NAME_PATTERN = new RegExp(`^[a-z0-9][a-z0-9-]{0,${TIER_NAME_MAX - 1}}$`)
/** Typed in place of a tier's name to mean no override, so no tier may have this name. */
export const NO_TIER = 'none'
export const RATE_BPS_MAX = 10_000

/** A null month is the present one, a null volume is none; terms left out stay as in the previous version. */
export type TierTerms = Pick<Tier, 'name'> & { fromMonth: string | null; rateBps?: number | undefined } & {
  minVolume?: Usd | null | undefined
} & { [term in 'perActiveUser' | 'monthlyMinimum']?: Usd | undefined }

/** A new tier needs a rate; by default it has no volume and costs 0.00. Throws month_closed and usage. */
export function setTier(versions: readonly Tier[], terms: TierTerms, now: Instant): Tier {
  const { name } = terms
  if (!TIER_NAME_PATTERN.test(name) || name === NO_TIER)
    throw usage(
      `A tier name is 1 to ${TIER_NAME_MAX} lower-case letters, digits and hyphens, and not "${NO_TIER}".`,
    )
  const fromMonth = terms.fromMonth ?? monthOf(now)
  refusePastMonth(fromMonth, monthOf(now))
  const before = tiersInForce(versions, fromMonth).find((tier) => tier.name === name)
  const rateBps = terms.rateBps ?? before?.rateBps
  if (rateBps === undefined) throw usage(`There is no tier ${name} in ${fromMonth} yet: give its --rate-bps.`)
  const tier: Tier = {
    name,
    fromMonth,
    place: placeOf(versions, name),
    minVolume: terms.minVolume === undefined ? (before?.minVolume ?? null) : terms.minVolume,
    rateBps,
    perActiveUser: terms.perActiveUser ?? before?.perActiveUser ?? ZERO_USD,
    monthlyMinimum: terms.monthlyMinimum ?? before?.monthlyMinimum ?? ZERO_USD,
  }
  refuseNoVolumes(versions, tier)
  return tier
}

/** A new name comes after all others, whichever month it begins in. */
const placeOf = (versions: readonly Tier[], name: string): number =>
  versions.find((tier) => tier.name === name)?.place ?? 1 + Math.max(0, ...versions.map(({ place }) => place))

/** Without a tier that has a volume, a partner without an override could not be charged. */
function refuseNoVolumes(versions: readonly Tier[], changed: Tier): void {
  const others = versions.filter((one) => one.name !== changed.name || one.fromMonth !== changed.fromMonth)
  const after = [...others, changed]
  const months = after.map(({ fromMonth }) => fromMonth).filter((month) => month >= changed.fromMonth)
  const month = months.sort(order).find((one) => byVolume(tiersInForce(after, one)).length === 0)
  if (month === undefined) return
  throw usage(`In ${month} no tier would have a volume: give one of them --min-volume-usd 0.`)
}

const byVolume = (inForce: readonly Tier[]): (Tier & { minVolume: Usd })[] =>
  inForce.filter((tier): tier is Tier & { minVolume: Usd } => tier.minVolume !== null)

/** The version of a tier in force before this one, and the month in which the next one begins. */
export function besideVersion(
  versions: readonly Tier[],
  { name, fromMonth }: Tier,
): { before: Tier | null; next: Tier | null } {
  const named = versions.filter((tier) => tier.name === name).sort((a, b) => order(a.fromMonth, b.fromMonth))
  return {
    before: named.findLast((tier) => tier.fromMonth < fromMonth) ?? null,
    next: named.find((tier) => tier.fromMonth > fromMonth) ?? null,
  }
}

export function refusePastMonth(fromMonth: string, currentMonth: string): void {
  if (fromMonth >= currentMonth) return
  throw new Problem('month_closed', `${fromMonth} is over; a change can start in ${currentMonth} or later.`)
}

/** `firstMonth` is that of the tier's first version; null for a tier that does not exist. Throws tier_not_found. */
export function refuseTierNotInForce(tier: string, firstMonth: string | null, month: string): void {
  if (firstMonth === null) throw notFound('tier', tier)
  if (firstMonth <= month) return
  throw new Problem('tier_not_found', `Tier ${tier} is not in force in ${month}: it begins in ${firstMonth}.`)
}

/** The month of a new database's tiers (0001_start.sql of each store). For months before it they charge nothing. */
const FIRST_TIERS = '1970-01'

/**
 * The version of each tier in force in a month, ordered by the volume at which it begins, override-only tiers first. Of
 * tiers that begin at the same volume the oldest comes last, where the choice by volume finds it: the one in force
 * since the earliest month, and among those of one month the one set first.
 */
export function tiersInForce(versions: readonly Tier[], month: string): Tier[] {
  const effective = month < FIRST_TIERS ? FIRST_TIERS : month
  const inForce = versions.filter((tier) => tier.fromMonth <= effective)
  const tiers = Map.groupBy(inForce, (tier) => tier.name)
  const dated = [...tiers.values()].map((named) => {
    const byMonth = named.toSorted((a, b) => order(a.fromMonth, b.fromMonth))
    return { since: byMonth[0]?.fromMonth ?? '', tier: byMonth.at(-1) as Tier }
  })
  dated.sort(
    (a, b) =>
      order(a.tier.minVolume ?? -1n, b.tier.minVolume ?? -1n) ||
      order(b.since, a.since) ||
      order(b.tier.place, a.tier.place),
  )
  return dated.map(({ tier }) => tier)
}

const order = <T extends string | bigint | number>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

/** The override, else the highest tier that the volume reaches, else the lowest; among equal ones the oldest. */
export function chooseTier(
  inForce: readonly Tier[],
  override: string | null,
  volume: Usd,
): { tier: Tier; tierSource: TierSource } {
  if (override !== null) {
    const tier = inForce.find(({ name }) => name === override)
    // The store refuses an override to a tier that is not in force. Charging another price instead would go unnoticed.
    if (!tier) throw new Error(`the override names ${override}, which is not in force`)
    return { tier, tierSource: 'override' }
  }
  const tiers = byVolume(inForce)
  const lowest = tiers[0]?.minVolume
  const tier =
    tiers.findLast((candidate) => candidate.minVolume <= volume) ??
    tiers.findLast((candidate) => candidate.minVolume === lowest)
  if (!tier) throw new Error('no pricing tier is in force')
  return { tier, tierSource: 'volume' }
}
