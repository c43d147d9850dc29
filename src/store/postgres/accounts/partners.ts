// Partners and their tenants.

import { ENVIRONMENTS, MIN_TRANCHE_DEFAULT } from '../../../core/partner.ts'
import { Problem } from '../../../core/problem.ts'
import type { PartnerStore } from '../../partners.ts'
import { type PartnerRow, partnerOf } from '../../rows/partner.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { SELECT_TENANTS, UPDATE_PARTNER } from '../../sql/accounts.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'
import { createFollowing } from './apply-partner-to-schedules.ts'
import { addAudit } from './audit.ts'

const FIND = query<PartnerRow>('select * from partners where partner_slug = :slug')
const LIST = query<PartnerRow>('select * from partners order by created_at, partner_slug')
const INSERT = query<PartnerRow>(
  `insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at)
   values (:slug, :name, 'active', :min_tranche, :now, :now) on conflict do nothing returning *`,
)
const INSERT_TENANTS = query(
  'insert into tenants (partner_slug, environment) select :slug, unnest(:environments::text[])',
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
        const row = await tx.get(INSERT, { slug, name, min_tranche: MIN_TRANCHE_DEFAULT, now: real })
        if (!row) throw new Problem('partner_exists', `Partner ${slug} exists already.`)
        await Promise.all([
          tx.run(INSERT_TENANTS, { slug, environments: ENVIRONMENTS }),
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
          const { name, status, minTranche: min_tranche, updatedAt: updated_at, held } = partner
          const reaches = status !== seen.status || held !== seen.held || min_tranche !== seen.minTranche
          await Promise.all([
            tx.run(UPDATE, { slug, name, status, min_tranche, held: held ? 1 : 0, updated_at }),
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
