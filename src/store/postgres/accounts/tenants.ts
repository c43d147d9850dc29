// Tenants by their number, for the transactions of the other files.

import type { Tenant } from '../../../core/partner.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

const TENANT = query<TenantRow>('select * from tenants where tenant_id = :tenant')

export async function tenantById(tx: Tx, tenantId: number): Promise<Tenant> {
  const row = await tx.get(TENANT, { tenant: tenantId })
  if (!row) throw new Error(`there is no tenant ${tenantId}`)
  return tenantOf(row)
}
