// Sandboxes as both stores read and write them.

/** The tenant's own environment goes into the row, where a check constraint accepts only test. */
export const OPEN_SANDBOX = `
  insert into sandboxes (tenant_id, environment)
  select tenant_id, environment from tenants where tenant_id = :tenant on conflict do nothing`

export const EXPIRED_LEASES = `
  select count(*) as count from executions
  where tenant_id = :tenant and status = 'sent' and lease_expires_at > :from and lease_expires_at <= :to`
