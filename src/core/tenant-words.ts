// How a tenant is named where an operator reads, and on the command line to run next.

import type { Tenant } from './partner.ts'

/** How a tenant is named in a finding. */
export const tenantName = ({ partnerSlug, environment }: Tenant): string => `${partnerSlug} ${environment}`

type TenantName = { partnerSlug: string; environment: string }

/** Plans of several partners and environments may have one name, and a name may look like an option. */
export const showPlan = (partnerPlanId: string, tenant: TenantName): string[] => {
  const options = ofTenant(tenant)
  return partnerPlanId.startsWith('-')
    ? ['plan', 'show', ...options, '--', partnerPlanId]
    : ['plan', 'show', partnerPlanId, ...options]
}

/** The options that name a tenant on a command line. */
export const ofTenant = ({ partnerSlug, environment }: TenantName): string[] => [
  '--partner',
  partnerSlug,
  '--env',
  environment,
]
