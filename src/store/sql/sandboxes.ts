// Sandboxes as both stores read and write them.

import { WINDOW_MS } from '../../core/time.ts'

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

// When a plan of a sandbox is due: its tenant has a time of its own, so no range along an index finds it.

/**
 * Whether a pass must look at a schedule `s` at `now` (an SQL expression), when the price is `:price` or unknown and
 * the failsafe begins `:lead` before a window's end.
 */
export const isDueAt = (now: string): string =>
  `s.awake = 1 and (s.next_run_at <= ${now}
     or (s.fireable >= s.floor and s.window_start <= ${now} and s.window_end <= ${now} + :lead)
     or (cast(:price as bigint) is null and s.clock_at <= ${now}) or s.limit_price >= :price)`

/** Later than every instant. */
const NEVER = 2n ** 62n
const after = (at: string): string => `case when ${at} > :after then ${at} else ${NEVER} end`

/**
 * The first instant after `:after` at which a plan of a tenant is to be looked at; of those that come within
 * `:together` of it, the last, where each plan counts with its next one alone. Reads every plan of the tenant once.
 * `least` is the function that returns the least of its arguments.
 */
export const nextStop = (least: 'min' | 'least'): string => `
  with stops as materialized (
    select ${least}(${['s.next_run_at', 's.window_end', 's.window_end - :lead', 's.clock_at'].map(after).join(', ')}) as at
    from plans p join schedules s on s.plan_id = p.plan_id where p.tenant_id = :tenant and s.awake = 1)
  select max(at) as at from stops where at < ${NEVER} and at <= (select min(at) from stops) + :together`

export const PLANS_OF_TENANT = 'select count(*) as plans from plans where tenant_id = :tenant'

// The tables that a reset of a test environment empties, those that refer to others first. The tenant's keys, webhook
// and clock stay.

export const WIPED: readonly (readonly [table: string, rows: string])[] = [
  ['webhook_events', 'tenant_id = :tenant'],
  ['adjustments', 'tenant_id = :tenant'],
  ['late_reports', 'tenant_id = :tenant'],
  ['trades', 'tenant_id = :tenant'],
  ['executions', 'tenant_id = :tenant'],
  ['schedules', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['windows', 'plan_id in (select plan_id from plans where tenant_id = :tenant)'],
  ['stops', 'tenant_id = :tenant'],
  ['plans', 'tenant_id = :tenant'],
  ['consents', 'user_id in (select user_id from users where tenant_id = :tenant)'],
  ['users', 'tenant_id = :tenant'],
]
