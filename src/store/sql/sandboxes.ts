// Sandboxes as both stores read and write them.

import { WINDOW_MS } from '../../core/frequency.ts'

/** The tenant's own environment goes into the row, where a check constraint accepts only test. */
export const OPEN_SANDBOX = `
  insert into sandboxes (tenant_id, environment)
  select tenant_id, environment from tenants where tenant_id = :tenant on conflict do nothing`

/**
 * What a reset keeps of the executions that it removes, in this order: of each plan's name the latest start of a window
 * that had any. One that is older than every window of today, which the name's next window starts after anyway, is kept
 * as one instant for the whole environment, so that resets do not add up.
 */
export const KEEP_USED_STARTS: readonly string[] = [
  `insert into used_before_reset (tenant_id, partner_plan_id, window_start)
   select p.tenant_id, p.partner_plan_id, max(e.window_start)
   from plans p join executions e on e.plan_id = p.plan_id where p.tenant_id = :tenant
   group by p.tenant_id, p.partner_plan_id
   on conflict (tenant_id, partner_plan_id) do update set window_start = excluded.window_start
     where excluded.window_start > used_before_reset.window_start`,
  `update sandboxes set used_until = (
     select max(x.used) from (
       select sandboxes.used_until as used
       union all select window_start from used_before_reset
         where tenant_id = :tenant and window_start < :real + sandboxes.offset_ms - ${WINDOW_MS['bi-weekly']}) x)
   where tenant_id = :tenant`,
  `delete from used_before_reset where tenant_id = :tenant
     and window_start <= (select used_until from sandboxes where tenant_id = :tenant)`,
]

export const EXPIRED_LEASES = `
  select count(*) as count from executions
  where tenant_id = :tenant and status = 'sent' and lease_expires_at > :from and lease_expires_at <= :to`
