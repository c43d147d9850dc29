// Pricing tiers, and the tier that a partner is given whatever its volume.

import type { Instant } from '../core/instant.ts'
import type { Tenant } from '../core/partner.ts'
import type { Tier } from '../core/tier.ts'
import type { AuditEntry } from './audit.ts'

/** A null `fromMonth` means the present month; a null `tierName` ends the override. */
export type TierOverride = { partnerSlug: string; fromMonth: string | null; tierName: string | null }

/** An override, or the end of one, and the month it begins in. */
export type OverrideStart = { fromMonth: string; tierName: string | null }

/**
 * What a partner's month is billed by: every version of every tier, the partner's override in that month, and since
 * when the partner exists.
 */
export type Terms = { tiers: Tier[]; override: string | null; partnerSince: Instant | null }

export interface TierStore {
  readTerms(tenant: Tenant, month: string): Promise<Terms>
  listTiers(): Promise<Tier[]>
  /** Adds a version of a tier, or replaces the one of its month; `decide` sees every version there is. */
  putTier(decide: (versions: Tier[], now: Instant) => Tier, audit: (tier: Tier) => AuditEntry): Promise<Tier>
  /**
   * Returns the month that it begins in. Throws partner_not_found, tier_not_found, and month_closed when `fromMonth` is
   * over.
   */
  putTierOverride(override: TierOverride, audit: AuditEntry): Promise<string>
  /** The override in force in a month, null when there is none. */
  findTierOverride(slug: string, month: string): Promise<string | null>
  /** The overrides that begin after a month, in the order they begin. */
  listTierOverridesAfter(slug: string, month: string): Promise<OverrideStart[]>
}
