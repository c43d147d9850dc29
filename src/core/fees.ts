// Fees: pricing tiers, what a month costs a partner, its tax, and the invoices for it. Integers throughout; a fee is
// rounded once, and so is a tax.

import { type Btc, CENT, formatUsd, roundToCents, type Usd, ZERO_USD } from './money.ts'
import type { Period } from './month.ts'
import type { Tenant } from './partner.ts'
import { notFound, Problem } from './problem.ts'
import { type Instant, monthOf } from './time.ts'

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
 * fee = max(minimum, round_half_even(volume x bps / 10,000, cents) + active users x per user). A volume that
 * adjustments of earlier months have made negative is charged as zero. After the last month of a partner's minimum,
 * that minimum is 0.00.
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

/** The volume on which a fee is charged. */
const chargedVolume = (volume: Usd): Usd => (volume > 0n ? volume : ZERO_USD)

/** Draws up a statement. Nothing is charged in the test environment, nor for a month before the partner existed. */
export function statementOf(
  of: Omit<Statement, 'fees' | 'billable'> & { partnerExisted: boolean; lastMinimum: string | null },
): Statement {
  const { partnerExisted, lastMinimum, ...rest } = of
  const billable = of.tenant.environment === 'live'
  if (!billable || !partnerExisted) return { ...rest, billable, fees: NO_FEES }
  const isMinimumDue = lastMinimum === null || of.period.month <= lastMinimum
  return { ...rest, billable, fees: feesOf(of.tier, of.activity, isMinimumDue) }
}

// Each user's share of what a month costs a partner.

/** What a user's own trades would cost before rounding, in units of 1e-12 dollars: the weight of the user's share. */
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

// Pricing tiers, versioned by month: what finance charges is fixed before the month begins or while it runs.

export type Tier = {
  name: string
  /** The first month (YYYY-MM) this version is in force. */
  fromMonth: string
  /**
   * The position of its name in the order in which names were first set, counted from 1. All versions of a tier share
   * it.
   */
  place: number
  /** The monthly volume from which it applies; null for a tier that is for overrides only. */
  minVolume: Usd | null
  rateBps: number
  perActiveUser: Usd
  monthlyMinimum: Usd
}

/** How the tier of a month was chosen: by name for this partner, or by what it bought. */
type TierSource = 'override' | 'volume'

export const TIER_NAME_MAX = 32
export const TIER_NAME_PATTERN = new RegExp(`^[a-z0-9][a-z0-9-]{0,${TIER_NAME_MAX - 1}}$`)
/** Means no override where a tier's name is expected, so no tier may have it. */
export const NO_TIER = 'none'
export const RATE_BPS_MAX = 10_000

/**
 * The terms given for a tier. A null month is the present one, a null volume is none; what is left out stays as in the
 * previous version.
 */
export type TierTerms = Pick<Tier, 'name'> & { fromMonth: string | null; rateBps?: number | undefined } & {
  minVolume?: Usd | null | undefined
} & { [term in 'perActiveUser' | 'monthlyMinimum']?: Usd | undefined }

/**
 * The version of a tier with the given terms. A new tier needs a rate; by default it has no volume and costs 0.00.
 * Throws month_closed and usage.
 */
export function setTier(versions: readonly Tier[], terms: TierTerms, now: Instant): Tier {
  const { name } = terms
  if (!TIER_NAME_PATTERN.test(name) || name === NO_TIER)
    throw new Problem(
      'usage',
      `A tier name is 1 to ${TIER_NAME_MAX} lower-case letters, digits and hyphens, and not "${NO_TIER}".`,
    )
  const fromMonth = terms.fromMonth ?? monthOf(now)
  refusePastMonth(fromMonth, monthOf(now))
  const before = tiersInForce(versions, fromMonth).find((tier) => tier.name === name)
  const rateBps = terms.rateBps ?? before?.rateBps
  if (rateBps === undefined)
    throw new Problem('usage', `There is no tier ${name} in ${fromMonth} yet: give its --rate-bps.`)
  const made: Tier = {
    name,
    fromMonth,
    place: placeOf(versions, name),
    minVolume: terms.minVolume === undefined ? (before?.minVolume ?? null) : terms.minVolume,
    rateBps,
    perActiveUser: terms.perActiveUser ?? before?.perActiveUser ?? ZERO_USD,
    monthlyMinimum: terms.monthlyMinimum ?? before?.monthlyMinimum ?? ZERO_USD,
  }
  refuseNoVolumes(versions, made)
  return made
}

/** A new name comes after all others, whichever month it begins in. */
const placeOf = (versions: readonly Tier[], name: string): number =>
  versions.find((tier) => tier.name === name)?.place ?? 1 + Math.max(0, ...versions.map(({ place }) => place))

/** Without a tier that has a volume, a partner without an override could not be charged. */
function refuseNoVolumes(versions: readonly Tier[], made: Tier): void {
  const others = versions.filter(({ name, fromMonth }) => name !== made.name || fromMonth !== made.fromMonth)
  const after = [...others, made]
  const months = after.map(({ fromMonth }) => fromMonth).filter((month) => month >= made.fromMonth)
  const month = months.sort(order).find((one) => byVolume(tiersInForce(after, one)).length === 0)
  if (month === undefined) return
  throw new Problem('usage', `In ${month} no tier would have a volume: give one of them --min-volume-usd 0.`)
}

/** The tiers that a volume can choose. */
const byVolume = (inForce: readonly Tier[]): (Tier & { minVolume: Usd })[] =>
  inForce.filter((tier): tier is Tier & { minVolume: Usd } => tier.minVolume !== null)

/** The neighbours of a version of a tier: the one in force before it, and the month in which the next one begins. */
export function besideVersion(
  versions: readonly Tier[],
  { name, fromMonth }: Tier,
): { before: Tier | null; next: Tier | null } {
  const own = versions.filter((tier) => tier.name === name).sort((a, b) => order(a.fromMonth, b.fromMonth))
  return {
    before: own.findLast((tier) => tier.fromMonth < fromMonth) ?? null,
    next: own.find((tier) => tier.fromMonth > fromMonth) ?? null,
  }
}

/** Refuses a change that would reach into a month that is over. */
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

/**
 * The month from which the tiers of a new database are in force (sql/0001_start.sql, sql/postgres/0001_start.sql). For
 * months before it they charge nothing.
 */
const FIRST_TIERS = '1970-01'

/**
 * The version of each tier in force in a month, ordered by the volume at which it begins; those for overrides only come
 * first. Of tiers that begin at the same volume the oldest comes last, where the choice by volume finds it. The oldest
 * is in force since the earliest month, and among those of one month was set first.
 */
export function tiersInForce(versions: readonly Tier[], month: string): Tier[] {
  const asked = month < FIRST_TIERS ? FIRST_TIERS : month
  const inForce = versions.filter((tier) => tier.fromMonth <= asked)
  const tiers = Map.groupBy(inForce, (tier) => tier.name)
  const dated = [...tiers.values()].map((own) => {
    const byMonth = own.toSorted((a, b) => order(a.fromMonth, b.fromMonth))
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

/**
 * The override in force, else the highest tier that the volume reaches, else the lowest tier; among equal ones the
 * oldest. A tier without a volume is never chosen by volume.
 */
export function chooseTier(
  inForce: readonly Tier[],
  override: string | null,
  volume: Usd,
): { tier: Tier; tierSource: TierSource } {
  if (override !== null) {
    const tier = inForce.find(({ name }) => name === override)
    // The store takes no override whose tier is not in force; charging another price instead would go unnoticed.
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

// Tax: a rate, or the reason why there is none.

export type Tax =
  | { kind: 'rate'; rateBps: number }
  /** The customer owes it: within the EU, between two countries. */
  | { kind: 'reverse-charge' }
  /** The sentence that says why there is none. */
  | { kind: 'exempt'; why: string }

/** A rate in percent, with at most two places. */
export const TAX_RATE_PATTERN = /^\d{1,2}(\.\d{1,2})?$/

/** A rate of `TAX_RATE_PATTERN`, in hundredths of a percent. */
export function rateBpsOf(percent: string): number {
  const [whole = '', places = ''] = percent.split('.')
  return Number(whole) * 100 + Number(places.padEnd(2, '0'))
}

/** A rate as it is printed: 19 %, 5.5 %. */
export const percentOf = (rateBps: number): string => `${rateBps / 100} %`

/**
 * The tax on a net amount: net x rate, rounded once to the cent, a half up, as tax offices reckon. It is rounded on the
 * whole amount and never on its parts.
 */
export function taxOf(net: Usd, tax: Tax | null): Usd {
  if (tax?.kind !== 'rate') return ZERO_USD
  const per = BPS_ONE * CENT
  return (((net * BigInt(tax.rateBps) * 2n + per) / (per * 2n)) * CENT) as Usd
}

// Numbers: consecutive within a series, given once and kept.

/** A series of numbers: a prefix, and the position as digits. */
export type Series = { prefix: string; first: number; digits: number }

export const numberAt = ({ prefix, digits }: Series, position: number): string =>
  `${prefix}${String(position).padStart(digits, '0')}`

/** The position after the last one. A `first` above it begins further on, as other books may have gone on. */
export const nextPosition = ({ first }: Series, last: number | null): number =>
  last === null || last < first ? first : last + 1

// What was issued: an invoice of a partner's month, or a credit note that corrects one.

/** An invoice, or a credit note, as it was issued: nothing of it ever changes. */
export type Issued = {
  number: string
  partnerSlug: string
  /** The month that is charged, or whose invoice is corrected. */
  month: string
  /** The number of the invoice that a credit note corrects; null for an invoice. */
  corrects: string | null
  issuedAt: Instant
  net: Usd
  tax: Usd
  /** What is printed of the settings, and of a credit note its reason: JSON. */
  details: string
}

/** Its sign in a sum: a credit note gives back. */
export const signed = ({ corrects }: Pick<Issued, 'corrects'>, amount: Usd): Usd =>
  corrects === null ? amount : (-amount as Usd)

/**
 * What a credit note gives back, and the tax in it. The tax is that of what was left before less that of what is left
 * after, so that what is left of an invoice always has the tax of its own net amount. Throws invoice_conflict, also for
 * the same credit again: somebody whom the answer did not reach asks twice.
 */
export function creditOf(
  invoice: Issued,
  {
    earlier,
    net,
    tax,
    details,
  }: { earlier: readonly Issued[]; tax: Tax | null } & Pick<Issued, 'net' | 'details'>,
): Pick<Issued, 'net' | 'tax' | 'details'> {
  if (invoice.corrects !== null)
    throw new Problem(
      'invoice_conflict',
      `${invoice.number} is a credit note; a credit note corrects an invoice.`,
    )
  // The details of all credit notes of one invoice differ only in their reasons.
  const same = earlier.find((one) => one.net === net && one.details === details)
  if (same)
    throw new Problem(
      'invoice_conflict',
      `${same.number} has already credited ${formatUsd(net)} for the same reason: give another reason to credit it again.`,
    )
  const left = (invoice.net - earlier.reduce((sum, one) => sum + one.net, 0n)) as Usd
  if (net <= 0n || net > left) {
    const of = earlier.length === 0 ? 'its net amount' : 'what earlier credit notes have left of it'
    throw new Problem(
      'invoice_conflict',
      left === 0n
        ? `${invoice.number} has been credited in full: nothing is left of it.`
        : `${invoice.number} can be credited with 0.01 to ${formatUsd(left)}, ${of}.`,
    )
  }
  const after = (left - net) as Usd
  return { net, tax: (taxOf(left, tax) - taxOf(after, tax)) as Usd, details }
}

// What the law of the issuer asks of an invoice, where it is known: that of the member states of the EU.

const EU = 'AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK'.split(' ')

export const COUNTRY_PATTERN = /^[A-Z]{2}$/
/** Greece writes EL in front of its tax numbers. */
const vatPrefix = (country: string): string => (country === 'GR' ? 'EL' : country)

type TaxParty = { country: string | null; taxId: string | null }

/** What is missing for an invoice, each as a setting and a reason; empty where nothing is. */
export function lacksOf(issuer: TaxParty, customer: TaxParty & { tax: Tax | null }): string[] {
  if (issuer.country === null) return ['issuer.country is missing: it says which law the invoice has to meet']
  if (!EU.includes(issuer.country)) return []
  const lacks: string[] = []
  if (issuer.taxId === null) lacks.push('issuer.tax_id is missing: an invoice from the EU has it')
  if (customer.country === null)
    lacks.push('country is missing: where the customer is decides whether there is VAT')
  if (customer.tax === null)
    lacks.push('tax is missing: an invoice from the EU has a rate of VAT, or says why there is none')
  if (customer.tax?.kind !== 'reverse-charge' || customer.country === null) return lacks
  if (!EU.includes(customer.country) || customer.country === issuer.country)
    lacks.push(`tax is "reverse-charge", which is for a customer in another country of the EU`)
  const prefix = vatPrefix(customer.country)
  if (customer.taxId === null)
    lacks.push('tax_id is missing: a reverse charge names the VAT number of the customer')
  else if (!new RegExp(`^${prefix}[0-9A-Z+*]{2,12}$`).test(customer.taxId.replaceAll(/[ .-]/g, '')))
    lacks.push(`tax_id must be a VAT number of ${customer.country}, which begins with ${prefix}`)
  return lacks
}
