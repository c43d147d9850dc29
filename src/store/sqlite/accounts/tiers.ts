// Tiers and the overrides of single partners, each in force from a month on.

import { monthOf } from '../../../core/instant.ts'
import { Problem } from '../../../core/problem.ts'
import { refusePastMonth, refuseTierNotInForce } from '../../../core/tier.ts'
import { withDigest } from '../../digests.ts'
import { instantOrNull } from '../../rows/instant.ts'
import {
  intactTier,
  type OverrideRow,
  type TierRow,
  overrideOf as tierNameOf,
  tierOf,
  tierParams,
} from '../../rows/tier.ts'
import { PUT_TIER, PUT_TIER_OVERRIDE } from '../../sql/accounts.ts'
import type { OverrideStart, TierStore } from '../../tiers.ts'
import type { Connection } from '../file/connection.ts'
import type { AuditLog } from './audit.ts'

export function createTierStore({ db, read, write }: Connection, audit: AuditLog): TierStore {
  const sql = {
    partner: db.prepare<[string], bigint>('select created_at from partners where partner_slug = ?').pluck(),
    list: db.prepare<[], TierRow>('select * from tiers order by from_month, place'),
    put: db.prepare(PUT_TIER),
    firstMonth: db
      .prepare<[string], string | null>('select min(from_month) from tiers where name = ?')
      .pluck(),
    putOverride: db.prepare(PUT_TIER_OVERRIDE),
    override: db.prepare<[string, string], OverrideRow>(
      `select * from tier_overrides where partner_slug = ? and from_month <= ?
       order by from_month desc limit 1`,
    ),
    overridesAfter: db.prepare<[string, string], OverrideStart>(
      `select from_month as fromMonth, tier_name as tierName from tier_overrides
       where partner_slug = ? and from_month > ? order by from_month`,
    ),
  }

  const overrideOf = (slug: string, month: string) => tierNameOf(sql.override.get(slug, month))

  return {
    readTerms: ({ partnerSlug: slug }, month) =>
      read(() => ({
        tiers: sql.list.all().map(intactTier),
        override: overrideOf(slug, month),
        partnerSince: instantOrNull(sql.partner.get(slug) ?? null),
      })),

    listTiers: () => read(() => sql.list.all().map(tierOf)),

    putTier: (decide, entryOf) =>
      write((now) => {
        const tier = decide(sql.list.all().map(intactTier), now)
        sql.put.run(tierParams(tier))
        audit.add(entryOf(tier), now)
        return tier
      }),

    putTierOverride: ({ partnerSlug: slug, fromMonth, tierName: tier }, entry) =>
      write((now) => {
        if (sql.partner.get(slug) === undefined)
          throw new Problem('partner_not_found', `Partner ${slug} not found.`)
        const from_month = fromMonth ?? monthOf(now)
        refusePastMonth(from_month, monthOf(now))
        if (tier !== null) refuseTierNotInForce(tier, sql.firstMonth.get(tier) ?? null, from_month)
        sql.putOverride.run(withDigest('tier_overrides', { partner_slug: slug, from_month, tier_name: tier }))
        audit.add(entry, now)
        return from_month
      }),

    findTierOverride: (slug, month) => read(() => overrideOf(slug, month)),

    listTierOverridesAfter: (slug, month) => read(() => sql.overridesAfter.all(slug, month)),
  }
}
