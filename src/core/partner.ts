// Partners and the tenants they own: every record belongs to one partner in one environment.

import type { Instant } from './instant.ts'
import type { Usd } from './money.ts'
import { usd } from './money.ts'

export const ENVIRONMENTS = ['test', 'live'] as const
export type Environment = (typeof ENVIRONMENTS)[number]

/** The scope of every partner call: one partner in one environment. */
export type Tenant = {
  readonly tenantId: number
  readonly partnerSlug: string
  readonly environment: Environment
}

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

export const PARTNER_SLUG_PATTERN = /^[a-z0-9][a-z0-9-]{1,62}$/
export const PARTNER_NAME_MAX = 255
export const MIN_TRANCHE_DEFAULT = usd('5.00')
