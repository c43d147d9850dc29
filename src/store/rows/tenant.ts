// A tenant: the row and the value.

import type { Environment, Tenant } from '../../core/partner.ts'

export type TenantRow = { tenant_id: bigint; partner_slug: string; environment: string }
export const tenantOf = (row: TenantRow): Tenant => ({
  tenantId: Number(row.tenant_id),
  partnerSlug: row.partner_slug,
  environment: row.environment as Environment,
})
