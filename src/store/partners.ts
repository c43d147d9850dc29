// Partners, and the two tenants each of them has: one for tests, one for live business.

import type { Instant } from '../core/instant.ts'
import type { Environment, Partner, Tenant } from '../core/partner.ts'
import type { AuditEntry } from './audit.ts'

/** The tenants of a partner, of an environment, or all of them. */
export type TenantFilter = { slug: string | null; environment: Environment | null }

export interface PartnerStore {
  /** Adds a partner with its two tenants, or throws partner_exists. */
  addPartner(partner: Pick<Partner, 'partnerSlug' | 'name'>, audit: AuditEntry): Promise<Partner>
  /** Throws partner_not_found. */
  changePartner(
    slug: string,
    decide: (seen: Partner, now: Instant) => Partner,
    audit: AuditEntry,
  ): Promise<Partner>
  findPartner(slug: string): Promise<Partner | null>
  listPartners(): Promise<Partner[]>
  findTenant(slug: string, environment: Environment): Promise<Tenant | null>
  /** Tenants by name; with `before`, those whose partner was created by then: a later one is not part of that month. */
  listTenants(filter: TenantFilter, before: Instant | null): Promise<Tenant[]>
}
