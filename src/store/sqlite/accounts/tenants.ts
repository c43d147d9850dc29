// Tenants by their number, for the transactions of the other files.

import type { Tenant } from '../../../core/partner.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import type { Database } from '../file/connection.ts'

export function tenantsById(db: Database): (tenantId: number) => Tenant {
  const select = db.prepare<[number], TenantRow>('select * from tenants where tenant_id = ?')
  return (tenantId) => {
    const row = select.get(tenantId)
    if (!row) throw new Error(`there is no tenant ${tenantId}`)
    return tenantOf(row)
  }
}
