// Tiers and the overrides of single partners, each in force from a month on.

import { monthOf } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { refusePastMonth, refuseTierNotInForce } from '../../../core/tier.ts'
import { withDigest } from '../../digests.ts'
import { instantOrNull } from '../../rows/instant.ts'
import {
  intactTier,
  type OverrideRow,
  overrideOf,
  type TierRow,
  tierOf,
  tierParams,
} from '../../rows/tier.ts'
import { PUT_TIER, PUT_TIER_OVERRIDE } from '../../sql/accounts.ts'
import type { OverrideStart, TierStore } from '../../tiers.ts'
import { type Connection, callOf } from '../server/connection.ts'
import { query } from '../server/statement.ts'
import { addAudit } from './audit.ts'

const PARTNER = query<{ created_at: bigint }>('select created_at from partners where partner_slug = :slug')
/** A decision on a tier depends on all the others, so only one write at a time may change them. */
const ALONE = query('lock table tiers in share row exclusive mode')
const LIST = query<TierRow>('select * from tiers order by from_month, place')
const PUT = query(PUT_TIER)
const FIRST_MONTH = query<{ month: string | null }>(
  'select min(from_month) as month from tiers where name = :tier',
)
const PUT_OVERRIDE = query(PUT_TIER_OVERRIDE)
const OVERRIDE = query<OverrideRow>(
  `select * from tier_overrides where partner_slug = :slug and from_month <= :month
   order by from_month desc limit 1`,
)
const OVERRIDES_AFTER = query<OverrideStart>(
  `select from_month as "fromMonth", tier_name as "tierName" from tier_overrides
   where partner_slug = :slug and from_month > :month order by from_month`,
)

export function createTierStore(connection: Connection): TierStore {
  return {
    readTerms: ({ tenantId, partnerSlug: slug }, month) =>
      connection.read(async (tx) => {
        const [tiers, override, partner] = await Promise.all([
          tx.all(LIST),
          tx.get(OVERRIDE, { slug, month }),
          tx.get(PARTNER, { slug }),
        ])
        return {
          tiers: tiers.map(intactTier),
          override: overrideOf(override),
          partnerSince: instantOrNull(partner?.created_at ?? null),
        }
      }, callOf({ tenantId })),

    listTiers: async () => (await connection.look((tx) => tx.all(LIST))).map(tierOf),

    putTier: (decide, entryOf) =>
      connection.write(async (tx) => {
        const [{ real }, , rows] = await Promise.all([tx.times, tx.run(ALONE), tx.all(LIST)])
        const tier = decide(rows.map(intactTier), real)
        await Promise.all([tx.run(PUT, tierParams(tier)), addAudit(tx, entryOf(tier), real)])
        return tier
      }),

    putTierOverride: ({ partnerSlug: slug, fromMonth, tierName: tier }, entry) =>
      connection.write(async (tx) => {
        const [{ real }, partner] = await Promise.all([tx.times, tx.get(PARTNER, { slug })])
        if (!partner) throw new Problem('partner_not_found', `Partner ${slug} not found.`)
        const from_month = fromMonth ?? monthOf(real)
        refusePastMonth(from_month, monthOf(real))
        if (tier !== null)
          refuseTierNotInForce(tier, (await tx.get(FIRST_MONTH, { tier }))?.month ?? null, from_month)
        await Promise.all([
          tx.run(
            PUT_OVERRIDE,
            withDigest('tier_overrides', { partner_slug: slug, from_month, tier_name: tier }),
          ),
          addAudit(tx, entry, real),
        ])
        return from_month
      }),

    findTierOverride: async (slug, month) =>
      overrideOf(await connection.look((tx) => tx.get(OVERRIDE, { slug, month }))),

    listTierOverridesAfter: (slug, month) =>
      connection.look((tx) => tx.all(OVERRIDES_AFTER, { slug, month })),
  }
}
