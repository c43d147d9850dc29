// Partners and their tenants.

import { ENVIRONMENTS, MIN_TRANCHE_DEFAULT } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import { withDigest } from '../../digests.ts'
import type { PartnerStore } from '../../partners.ts'
import { changedPartnerParams, newPartnerParams, type PartnerRow, partnerOf } from '../../rows/partner.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { SELECT_TENANTS, UPDATE_PARTNER } from '../../sql/accounts.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'
import { createFollowing } from './apply-partner-to-schedules.ts'
import { addAudit } from './audit.ts'

const FIND = query<PartnerRow>('select * from partners where partner_slug = :slug')
const LIST = query<PartnerRow>('select * from partners order by created_at, partner_slug')
const INSERT = query<PartnerRow>(
  `insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at, digest)
   values (:partner_slug, :name, :status, :min_tranche, :created_at, :updated_at, :digest) on conflict do nothing returning *`,
)
const INSERT_TENANT = query(
  'insert into tenants (partner_slug, environment, digest) values (:partner_slug, :environment, :digest)',
)
const UPDATE = query(UPDATE_PARTNER)
const TENANT = query<TenantRow>(
  'select * from tenants where partner_slug = :slug and environment = :environment',
)
const TENANTS = query<TenantRow>(SELECT_TENANTS)
const unknown = (slug: string) => new Problem('partner_not_found', `Partner ${slug} not found.`)

export function createPartnerStore(connection: Connection): PartnerStore {
  const following = createFollowing(connection)
  return {
    addPartner: ({ partnerSlug: slug, name }, entry) =>
      connection.write(async (tx) => {
        const { real } = await tx.times
        // Waits if another transaction is adding one of the same name.
        const row = await tx.get(
          INSERT,
          newPartnerParams({ partnerSlug: slug, name, minTranche: MIN_TRANCHE_DEFAULT }, real),
        )
        if (!row) throw new Problem('partner_exists', `Partner ${slug} exists already.`)
        await Promise.all([
          ...ENVIRONMENTS.map((environment) =>
            tx.run(INSERT_TENANT, withDigest('tenants', { partner_slug: slug, environment })),
          ),
          addAudit(tx, entry, real),
        ])
        return partnerOf(row)
      }),

    /**
     * Alone in the partner's tenants: every write that is decided by its status, hold or minimum has either committed
     * by then, or waits.
     */
    async changePartner(slug, decide, entry) {
      const tenants = await following.tenantsOf(slug)
      if (tenants.length === 0) throw unknown(slug)
      const changed = await connection.write(
        async (tx) => {
          const [{ real }, row] = await Promise.all([tx.times, tx.get(FIND, { slug })])
          if (!row) throw unknown(slug)
          const seen = partnerOf(row)
          const partner = decide(seen, real)
          const reaches =
            partner.status !== seen.status ||
            partner.held !== seen.held ||
            partner.minTranche !== seen.minTranche
          await Promise.all([
            tx.run(UPDATE, changedPartnerParams(row, partner)),
            reaches && following.begin(tx, slug),
            addAudit(tx, entry, real),
          ])
          return { partner, reaches }
        },
        { tenants, alone: 'tenants' },
      )
      if (changed.reaches) await following.finish(slug)
      return changed.partner
    },

    async findPartner(slug) {
      const row = await connection.look((tx) => tx.get(FIND, { slug }))
      return row ? partnerOf(row) : null
    },

    listPartners: async () => (await connection.look((tx) => tx.all(LIST))).map(partnerOf),

    async findTenant(slug, environment) {
      const row = await connection.look((tx) => tx.get(TENANT, { slug, environment }))
      return row ? tenantOf(row) : null
    },

    listTenants: async (filter, before) =>
      (await connection.look((tx) => tx.all(TENANTS, { ...filter, before }))).map(tenantOf),
  }
}
