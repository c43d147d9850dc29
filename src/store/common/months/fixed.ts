// What closes a month and holds back what is dated before it, where both stores read and write it in the same words.

import { sql } from '../reader.ts'

/** Whoever closed a later month saw the last write that could be dated before its end: those before it are final as well. */
export const IS_CLOSED = sql<{ closed: bigint }>(
  'select count(*) as closed from (select 1 from closed_months where month >= :month limit 1) x',
)
/** Since when there are partners, and anything that could be billed. */
export const FIRST_PARTNER = sql<{ at: bigint | null }>('select min(created_at) as at from partners')
export const CLOSE_MONTH = sql<never>(
  `insert into closed_months (month, period_end, closed_at) values (:month, :period_end, :now)
   on conflict do nothing`,
)
/** One row: what has been reported until, below which no later write is dated. */
export const REPORT_UNTIL = sql<never>(
  `insert into reported_until (one, at) values (1, :at)
   on conflict (one) do update set at = excluded.at where reported_until.at < excluded.at`,
)
/** The same of a sandbox alone. */
export const REPORT_SANDBOX_UNTIL = sql<never>(
  'update sandboxes set reported_until = :at where tenant_id = :tenant and reported_until < :at',
)

/** The newest in order, not the latest: one of a clock that was ahead counts no more once another has come. */
export const NEWEST_FINISHED_PASS = sql<{ at: bigint }>(
  'select at from ticks where finished_at is not null order by tick_id desc limit 1',
)
export const NEWEST_CHANGE = sql<{ at: bigint }>('select at from audit order by audit_id desc limit 1')
