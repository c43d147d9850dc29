// The partner or the environment that a command line names.

import type { Environment, Partner, Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import type { Store } from '../../store/store.ts'

/** Throws partner_not_found. */
export async function partnerNamed(store: Store, slug: string): Promise<Partner> {
  const partner = await store.findPartner(slug)
  if (!partner) throw notFound(slug)
  return partner
}

/** Throws partner_not_found. */
export async function tenantNamed(store: Store, slug: string, environment: Environment): Promise<Tenant> {
  const tenant = await store.findTenant(slug, environment)
  if (!tenant) throw notFound(slug)
  return tenant
}

const notFound = (slug: string): Problem => new Problem('partner_not_found', `Partner ${slug} not found.`)
