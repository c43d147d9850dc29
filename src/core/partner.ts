// Partners and the tenants they own: every record belongs to one partner in one environment.

import type { Instant } from './instant.ts'
import { CENT, formatUsd, type Usd, usd } from './money.ts'
import { Problem } from './problem.ts'
import { TEXT_MAX } from './text-lengths.ts'

export const ENVIRONMENTS = ['test', 'live'] as const
export type Environment = (typeof ENVIRONMENTS)[number]

/** The scope of every partner call: one partner in one environment. */
export type Tenant = {
  readonly tenantId: number
  readonly partnerSlug: string
  readonly environment: Environment
}

/**
 * A tenant, and the key by which its call asks. Without a key nobody's call is meant: an operator's command, a pass.
 */
export type Caller = Tenant & { readonly keyId?: string }

export type PartnerStatus = 'active' | 'disabled'

export type Partner = {
  partnerSlug: string
  name: string
  status: PartnerStatus
  /** The least a tranche may be: the smallest order the partner's venue takes. */
  minTranche: Usd
  /** No new tranches while it is set; everything else goes on. Apart from the status: each is set and lifted alone. */
  held: boolean
  createdAt: Instant
  updatedAt: Instant
}

export const PARTNER_SLUG_MAX = 63
export const PARTNER_SLUG_PATTERN = new RegExp(`^[a-z0-9][a-z0-9-]{1,${PARTNER_SLUG_MAX - 1}}$`)

/** Throws usage for a name that a partner cannot have. */
export function refusePartnerName(name: string): void {
  if (name.trim() === '' || [...name].length > TEXT_MAX)
    throw new Problem('usage', `--name takes 1 to ${TEXT_MAX} characters.`)
}

export const MIN_TRANCHE_DEFAULT = usd('5.00')
/** The smallest minimum there is. */
export const MIN_TRANCHE_LEAST: Usd = CENT

/** Disables a partner, whose calls are then refused and whose plans stop firing, or lets it in again. */
export const setPartnerStatus = (seen: Partner, status: PartnerStatus, now: Instant): Partner => ({
  ...seen,
  status,
  updatedAt: now,
})

/** Holds a partner's tranches, or releases them. */
export const setHeld = (seen: Partner, held: boolean, now: Instant): Partner => ({
  ...seen,
  held,
  updatedAt: now,
})

/** Sets the smallest order the partner's venue takes. Throws usage. */
export function setMinTranche(seen: Partner, minTranche: Usd, now: Instant): Partner {
  if (minTranche >= MIN_TRANCHE_LEAST) return { ...seen, minTranche, updatedAt: now }
  throw new Problem('usage', `The minimum tranche is at least ${formatUsd(MIN_TRANCHE_LEAST)}.`)
}
