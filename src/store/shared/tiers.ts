// Tiers and the overrides of single partners, each in force from a month on.

import { refusePastMonth, refuseTierNotInForce } from '../../core/fees.ts'
import { notFound } from '../../core/problem.ts'
import { monthOf } from '../../core/time.ts'
import { newRow } from '../digests.ts'
import {
  intactTier,
  lastMinimumOf,
  type MinimumEndRow,
  type OverrideRow,
  overrideOf,
  type TierRow,
  tierOf,
  tierParams,
} from '../rows/accounts.ts'
import { instantOrNull, query } from '../statement.ts'
import type { MinimumEnd, OverrideStart, TierStore } from '../store.ts'
import { columnsToAdd, insertInto, overwritten } from '../tables.ts'
import { type Base, callOf } from '../transaction.ts'
import { addAudit } from './audit.ts'

const PARTNER = query<{ created_at: bigint }>('select created_at from partners where partner_slug = :slug')
/** A decision on a tier depends on all the others, so only one write at a time may change them. */
const ALONE = query('lock table tiers in share row exclusive mode')
const LIST = query<TierRow>('select * from tiers order by from_month, place')
const PUT = query(
  `${insertInto('tiers')} on conflict (name, from_month) do update set
     ${overwritten(columnsToAdd('tiers', 'name', 'from_month', 'place'))}`,
)
const FIRST_MONTH = query<{ month: string | null }>(
  'select min(from_month) as month from tiers where name = :tier',
)
const PUT_OVERRIDE = query(
  `${insertInto('tier_overrides')} on conflict (partner_slug, from_month) do update set
     ${overwritten(['tier_name', 'digest'])}`,
)
const OVERRIDE = query<OverrideRow>(
  `select * from tier_overrides where partner_slug = :slug and from_month <= :month
   order by from_month desc limit 1`,
)
const OVERRIDES_AFTER = query<OverrideStart>(
  `select from_month as "fromMonth", tier_name as "tierName" from tier_overrides
   where partner_slug = :slug and from_month > :month order by from_month`,
)
/** Of a month: what was last said in it or before it. */
export const MINIMUM_END = query<MinimumEndRow>(
  `select * from minimum_ends where partner_slug = :slug and from_month <= :month
   order by from_month desc limit 1`,
)
const MINIMUM_ENDS = query<MinimumEnd>(
  `select from_month as "fromMonth", last_month as "lastMonth" from minimum_ends
   where partner_slug = :slug order by from_month`,
)

export const createTierStore = ({ look, read, write }: Base): TierStore => ({
  readTerms: ({ tenantId, partnerSlug: slug }, month) =>
    read(function* (tx) {
      const [tiers, override, end, partner] = yield* tx.together(
        tx.all(LIST),
        tx.get(OVERRIDE, { slug, month }),
        tx.get(MINIMUM_END, { slug, month }),
        tx.get(PARTNER, { slug }),
      )
      return {
        tiers: tiers.map(intactTier),
        override: overrideOf(override),
        lastMinimum: lastMinimumOf(end),
        partnerSince: instantOrNull(partner?.created_at ?? null),
      }
    }, callOf({ tenantId })),

  listTiers: async () => (await look((tx) => tx.all(LIST))).map(tierOf),

  putTier: (decide, entryOf) =>
    write(function* (tx) {
      const [{ real }, , rows] = yield* tx.together(tx.times, tx.lock(ALONE), tx.all(LIST))
      const tier = decide(rows.map(intactTier), real)
      yield* tx.together(tx.run(PUT, tierParams(tier)), addAudit(tx, entryOf(tier), real))
      return tier
    }),

  putTierOverride: ({ partnerSlug: slug, fromMonth, tierName: tier }, entry) =>
    write(function* (tx) {
      const [{ real }, partner] = yield* tx.together(tx.times, tx.get(PARTNER, { slug }))
      if (!partner) throw notFound('partner', slug)
      const from_month = fromMonth ?? monthOf(real)
      refusePastMonth(from_month, monthOf(real))
      if (tier !== null) {
        const first = yield* tx.get(FIRST_MONTH, { tier })
        refuseTierNotInForce(tier, first?.month ?? null, from_month)
      }
      yield* tx.together(
        tx.run(PUT_OVERRIDE, newRow('tier_overrides', { partner_slug: slug, from_month, tier_name: tier })),
        addAudit(tx, entry, real),
      )
      return from_month
    }),

  findTierOverride: async (slug, month) => overrideOf(await look((tx) => tx.get(OVERRIDE, { slug, month }))),

  listTierOverridesAfter: (slug, month) => look((tx) => tx.all(OVERRIDES_AFTER, { slug, month })),

  findLastMinimum: async (slug, month) =>
    lastMinimumOf(await look((tx) => tx.get(MINIMUM_END, { slug, month }))),

  listMinimumEnds: (slug) => look((tx) => tx.all(MINIMUM_ENDS, { slug })),
})
