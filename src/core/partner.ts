// Partners and the tenants they own: every record belongs to one partner in one environment.

import { CENT, formatUsd, type Usd, usd } from './money.ts'
import { monthBefore } from './month.ts'
import { Problem, usage } from './problem.ts'
import { TEXT_MAX } from './text.ts'
import { type Instant, monthOf } from './time.ts'

export const ENVIRONMENTS = ['test', 'live'] as const
export type Environment = (typeof ENVIRONMENTS)[number]

/** The scope of every partner call: one partner in one environment. */
export type Tenant = {
  readonly tenantId: number
  readonly partnerSlug: string
  readonly environment: Environment
}

/** A tenant, and the key of its call. Operators' commands and passes have no key. */
export type Caller = Tenant & { readonly keyId?: string }

export type PartnerStatus = 'active' | 'disabled'

export type Partner = {
  partnerSlug: string
  name: string
  status: PartnerStatus
  /** The smallest tranche: the smallest order that the partner's venue takes. */
  minTranche: Usd
  /** While it is set no new tranches fire; confirmations and deliveries continue. It is independent of the status. */
  held: boolean
  createdAt: Instant
  updatedAt: Instant
}

export const PARTNER_SLUG_MAX = 63
export const PARTNER_SLUG_PATTERN = new RegExp(`^[a-z0-9][a-z0-9-]{1,${PARTNER_SLUG_MAX - 1}}$`)

export function refusePartnerName(name: string): void {
  if (name.trim() === '' || [...name].length > TEXT_MAX)
    throw usage(`--name takes 1 to ${TEXT_MAX} characters.`)
}

export const MIN_TRANCHE_DEFAULT = usd('5.00')
export const MIN_TRANCHE_LEAST: Usd = CENT

export const newPartner = (named: Pick<Partner, 'partnerSlug' | 'name'>, now: Instant): Partner => ({
  ...named,
  status: 'active',
  minTranche: MIN_TRANCHE_DEFAULT,
  held: false,
  createdAt: now,
  updatedAt: now,
})

/** `lastMinimum` is the last month with a monthly minimum, null for no end; left out, it does not change. */
export type PartnerChange = Partner & { lastMinimum?: string | null }

/** Disables or enables a partner. Enabled, its minimum applies from the present month on. */
export const setPartnerStatus = (current: Partner, status: PartnerStatus, now: Instant): PartnerChange => ({
  ...current,
  status,
  updatedAt: now,
  ...(status === 'active' && { lastMinimum: null }),
})

/** Ends a partner's monthly minimum, or with null removes that end. Throws month_closed for months that are over. */
export function endMinimum(current: Partner, lastMinimum: string | null, now: Instant): PartnerChange {
  if (lastMinimum !== null) refusePastMinimum(lastMinimum, monthOf(now))
  return { ...current, lastMinimum, updatedAt: now }
}

function refusePastMinimum(lastMonth: string, currentMonth: string): void {
  const least = monthBefore(currentMonth)
  if (lastMonth >= least) return
  const stays = `${least} is over, and its minimum stays as it was charged`
  throw new Problem('month_closed', `${stays}: the last month with a minimum is ${least} or later.`)
}

export const setHeld = (current: Partner, held: boolean, now: Instant): Partner => ({
  ...current,
  held,
  updatedAt: now,
})

/** Sets the smallest order the partner's venue takes. Throws usage. */
export function setMinTranche(current: Partner, minTranche: Usd, now: Instant): Partner {
  if (minTranche >= MIN_TRANCHE_LEAST) return { ...current, minTranche, updatedAt: now }
  throw usage(`The minimum tranche is at least ${formatUsd(MIN_TRANCHE_LEAST)}.`)
}

/** The two names of a tenant, in JSON and in the rows of reports. */
export const tenantJson = ({ partnerSlug, environment }: Pick<Tenant, 'partnerSlug' | 'environment'>) => ({
  partner_slug: partnerSlug,
  environment,
})

export const tenantName = ({ partnerSlug, environment }: Tenant): string => `${partnerSlug} ${environment}`

type TenantName = { partnerSlug: string; environment: string }

/** The command that shows a plan. An id may look like an option. */
export const showPlan = (partnerPlanId: string, tenant: TenantName): string[] => {
  const options = ofTenant(tenant)
  return partnerPlanId.startsWith('-')
    ? ['plan', 'show', ...options, '--', partnerPlanId]
    : ['plan', 'show', partnerPlanId, ...options]
}

export const ofTenant = ({ partnerSlug, environment }: TenantName): string[] => [
  '--partner',
  partnerSlug,
  '--env',
  environment,
]
