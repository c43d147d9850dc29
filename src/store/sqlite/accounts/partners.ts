import { monthOf } from '../../../core/instant.ts'
import type { Usd } from '../../../core/money.ts'
import { ENVIRONMENTS, MIN_TRANCHE_DEFAULT } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { refusePastMonth, type Tier } from '../../../core/tier.ts'
import { type PartnerRow, partnerOf, type TenantRow, tenantOf } from '../../rows.ts'
import type { PartnerStore } from '../../store.ts'
import type { Connection } from '../file/connection.ts'
import { AWAKE } from '../ledger/ledger.ts'
import type { AuditLog } from './audit.ts'
import { createKeyStore } from './keys.ts'

export function createPartnerStore(connection: Connection, audit: AuditLog): PartnerStore {
  const { db, read, write } = connection
  const sql = {
    find: db.prepare<[string], PartnerRow>('select * from partners where partner_slug = ?'),
    insert: db.prepare(
      `insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at)
       values (:slug, :name, 'active', :min_tranche, :now, :now) on conflict do nothing`,
    ),
    insertTenant: db.prepare('insert into tenants (partner_slug, environment) values (?, ?)'),
    update: db.prepare(
      `update partners set name = :name, status = :status, min_tranche = :min_tranche, held = :held,
         updated_at = :updated_at
       where partner_slug = :slug`,
    ),
    tenant: db.prepare<[string, string], TenantRow>(
      'select * from tenants where partner_slug = ? and environment = ?',
    ),
    // A partner's status, hold and minimum reach all of its schedules at once.
    reschedule: db.prepare(
      `update schedules set awake = ${AWAKE}, floor = min(:min_tranche, budget)
       where plan_id in (select plan_id from plans join tenants using (tenant_id) where partner_slug = :slug)`,
    ),
    tiers: db.prepare<[], TierRow>('select * from tiers order by min_volume_usd, name, from_month'),
    putTier: db.prepare(
      `insert or replace into tiers (name, from_month, min_volume_usd, rate_bps, per_active_user_usd, monthly_minimum_usd)
       values (:name, :from_month, :min_volume_usd, :rate_bps, :per_active_user_usd, :monthly_minimum_usd)`,
    ),
    tierKnown: db.prepare('select min(from_month) from tiers where name = ?').pluck(),
    putOverride: db.prepare(
      'insert or replace into tier_overrides (partner_slug, from_month, tier_name) values (:slug, :from_month, :tier)',
    ),
    override: db
      .prepare<[string, string], string | null>(
        `select tier_name from tier_overrides where partner_slug = ? and from_month <= ?
         order by from_month desc limit 1`,
      )
      .pluck(),
  }

  const found = (slug: string) => {
    const row = sql.find.get(slug)
    if (!row) throw new Problem('partner_not_found', `Partner ${slug} not found.`)
    return partnerOf(row)
  }

  function refuseUnknownTier(tier: string, month: string): void {
    const first = sql.tierKnown.get(tier) as string | null
    if (first === null) throw new Problem('tier_not_found', `Tier ${tier} not found.`)
    if (first <= month) return
    throw new Problem('tier_not_found', `Tier ${tier} is not in force in ${month}: it begins in ${first}.`)
  }

  return {
    ...createKeyStore(connection, audit),

    addPartner: ({ partnerSlug: slug, name }, entry) =>
      write((now) => {
        const { changes } = sql.insert.run({ slug, name, min_tranche: MIN_TRANCHE_DEFAULT, now })
        if (changes === 0) throw new Problem('partner_exists', `Partner ${slug} exists already.`)
        for (const environment of ENVIRONMENTS) sql.insertTenant.run(slug, environment)
        audit.add(entry, now)
        return found(slug)
      }),

    changePartner: (slug, decide, entry) =>
      write((now) => {
        const partner = decide(found(slug), now)
        const { name, status, minTranche: min_tranche, updatedAt: updated_at } = partner
        sql.update.run({ slug, name, status, min_tranche, held: partner.held ? 1 : 0, updated_at })
        sql.reschedule.run({ slug, min_tranche })
        audit.add(entry, now)
        return partner
      }),

    findPartner: (slug) =>
      read(() => {
        const row = sql.find.get(slug)
        return row ? partnerOf(row) : null
      }),

    findTenant: (slug, environment) =>
      read(() => {
        const row = sql.tenant.get(slug, environment)
        return row ? tenantOf(row) : null
      }),

    listTiers: () => read(() => sql.tiers.all().map(tierOf)),

    putTier: (decide, entryOf) =>
      write((now) => {
        const tier = decide(sql.tiers.all().map(tierOf), now)
        sql.putTier.run({
          name: tier.name,
          from_month: tier.fromMonth,
          min_volume_usd: tier.minVolume,
          rate_bps: tier.rateBps,
          per_active_user_usd: tier.perActiveUser,
          monthly_minimum_usd: tier.monthlyMinimum,
        })
        audit.add(entryOf(tier), now)
        return tier
      }),

    putTierOverride: ({ partnerSlug: slug, fromMonth, tierName: tier }, entry) =>
      write((now) => {
        found(slug)
        const from_month = fromMonth ?? monthOf(now)
        refusePastMonth(from_month, monthOf(now))
        if (tier !== null) refuseUnknownTier(tier, from_month)
        sql.putOverride.run({ slug, from_month, tier })
        audit.add(entry, now)
      }),

    findTierOverride: (slug, month) => read(() => sql.override.get(slug, month) ?? null),
  }
}

type TierRow = {
  name: string
  from_month: string
  min_volume_usd: bigint
  rate_bps: bigint
  per_active_user_usd: bigint
  monthly_minimum_usd: bigint
}

const tierOf = (row: TierRow): Tier => ({
  name: row.name,
  fromMonth: row.from_month,
  minVolume: row.min_volume_usd as Usd,
  rateBps: Number(row.rate_bps),
  perActiveUser: row.per_active_user_usd as Usd,
  monthlyMinimum: row.monthly_minimum_usd as Usd,
})
