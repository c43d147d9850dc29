// A tier: the row and the value, and back.

import type { Usd } from '../../core/money.ts'
import type { Tier } from '../../core/tier.ts'
import { intact, withDigest } from '../digests.ts'

export type TierRow = {
  name: string
  from_month: string
  place: bigint
  min_volume_usd: bigint | null
  rate_bps: bigint
  per_active_user_usd: bigint
  monthly_minimum_usd: bigint
}
export const tierOf = (row: TierRow): Tier => ({
  name: row.name,
  fromMonth: row.from_month,
  place: Number(row.place),
  minVolume: row.min_volume_usd as Usd | null,
  rateBps: Number(row.rate_bps),
  perActiveUser: row.per_active_user_usd as Usd,
  monthlyMinimum: row.monthly_minimum_usd as Usd,
})
export const tierParams = (tier: Tier) =>
  withDigest('tiers', {
    name: tier.name,
    from_month: tier.fromMonth,
    place: tier.place,
    min_volume_usd: tier.minVolume,
    rate_bps: tier.rateBps,
    per_active_user_usd: tier.perActiveUser,
    monthly_minimum_usd: tier.monthlyMinimum,
  })
/** For what is billed by it. Throws DamagedRow. */
export const intactTier = (row: TierRow): Tier => tierOf(intact('tiers', row))

export type OverrideRow = { partner_slug: string; from_month: string; tier_name: string | null }
/** The tier of an override; null where there is none, or one that ends another. Throws DamagedRow. */
export const overrideOf = (row: OverrideRow | undefined): string | null =>
  row ? intact('tier_overrides', row).tier_name : null
