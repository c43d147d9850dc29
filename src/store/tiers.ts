// Pricing tiers, and which tier a partner is held to whatever its volume.

import type { Instant } from '../core/instant.ts'
import type { Tier } from '../core/tier.ts'
import type { AuditEntry } from './audit.ts'

/** A null `fromMonth` means the present month; a null `tierName` ends the override. */
export type TierOverride = { partnerSlug: string; fromMonth: string | null; tierName: string | null }

export interface TierStore {
  listTiers(): Promise<Tier[]>
  /** Adds a version of a tier, or replaces the one of its month; `decide` sees every version there is. */
  putTier(decide: (versions: Tier[], now: Instant) => Tier, audit: (tier: Tier) => AuditEntry): Promise<Tier>
  /** Throws partner_not_found, tier_not_found, and month_closed when `fromMonth` is over. */
  putTierOverride(override: TierOverride, audit: AuditEntry): Promise<void>
  /** The override in force in a month, null when there is none. */
  findTierOverride(slug: string, month: string): Promise<string | null>
}
