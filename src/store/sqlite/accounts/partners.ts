// Partners and their tenants.

import { ENVIRONMENTS, MIN_TRANCHE_DEFAULT } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { withDigest } from '../../digests.ts'
import type { PartnerStore } from '../../partners.ts'
import { changedPartnerParams, newPartnerParams, type PartnerRow, partnerOf } from '../../rows/partner.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { SELECT_TENANTS, UPDATE_PARTNER } from '../../sql/accounts.ts'
import { leastInstruction } from '../../sql/least-instruction.ts'
import { AWAKE } from '../../sql/may-fire.ts'
import type { Connection } from '../file/connection.ts'
import type { AuditLog } from './audit.ts'
import type { KeyMemory } from './keys.ts'

/** The plans of a partner, in both of its environments. */
const PLANS_OF_PARTNER =
  '(select plan_id from plans join tenants using (tenant_id) where partner_slug = :slug)'

const FLOOR = leastInstruction(':min_tranche', 'budget')

export function createPartnerStore(
  { db, read, write }: Connection,
  { audit, memory }: { audit: AuditLog; memory: KeyMemory },
): PartnerStore {
  const sql = {
    find: db.prepare<[string], PartnerRow>('select * from partners where partner_slug = ?'),
    list: db.prepare<[], PartnerRow>('select * from partners order by created_at, partner_slug'),
    insert: db.prepare(
      `insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at, digest)
       values (:partner_slug, :name, :status, :min_tranche, :created_at, :updated_at, :digest) on conflict do nothing`,
    ),
    insertTenant: db.prepare(
      'insert into tenants (partner_slug, environment, digest) values (:partner_slug, :environment, :digest)',
    ),
    update: db.prepare(UPDATE_PARTNER),
    tenant: db.prepare<[string, string], TenantRow>(
      'select * from tenants where partner_slug = ? and environment = ?',
    ),
    tenants: db.prepare<object, TenantRow>(SELECT_TENANTS),
    // A partner's status, hold and minimum change all of its schedules at once; only those that differ are written.
    wake: db.prepare(
      `update schedules set awake = not awake where plan_id in ${PLANS_OF_PARTNER} and awake <> ${AWAKE}`,
    ),
    setFloor: db.prepare(
      `update schedules set floor = ${FLOOR} where plan_id in ${PLANS_OF_PARTNER} and floor <> ${FLOOR}`,
    ),
  }

  const found = (slug: string) => {
    const row = sql.find.get(slug)
    if (!row) throw new Problem('partner_not_found', `Partner ${slug} not found.`)
    return row
  }

  return {
    addPartner: ({ partnerSlug: slug, name }, entry) =>
      write((now) => {
        const { changes } = sql.insert.run(
          newPartnerParams({ partnerSlug: slug, name, minTranche: MIN_TRANCHE_DEFAULT }, now),
        )
        if (changes === 0) throw new Problem('partner_exists', `Partner ${slug} exists already.`)
        for (const environment of ENVIRONMENTS)
          sql.insertTenant.run(withDigest('tenants', { partner_slug: slug, environment }))
        audit.add(entry, now)
        return partnerOf(found(slug))
      }),

    changePartner: (slug, decide, entry) =>
      write((now) => {
        const row = found(slug)
        const seen = partnerOf(row)
        const partner = decide(seen, now)
        memory.forget()
        sql.update.run(changedPartnerParams(row, partner))
        if (partner.status !== seen.status || partner.held !== seen.held) sql.wake.run({ slug })
        if (partner.minTranche !== seen.minTranche)
          sql.setFloor.run({ slug, min_tranche: partner.minTranche })
        audit.add(entry, now)
        return partner
      }),

    findPartner: (slug) =>
      read(() => {
        const row = sql.find.get(slug)
        return row ? partnerOf(row) : null
      }),

    listPartners: () => read(() => sql.list.all().map(partnerOf)),

    findTenant: (slug, environment) =>
      read(() => {
        const row = sql.tenant.get(slug, environment)
        return row ? tenantOf(row) : null
      }),

    listTenants: (filter, before) => read(() => sql.tenants.all({ ...filter, before }).map(tenantOf)),
  }
}
