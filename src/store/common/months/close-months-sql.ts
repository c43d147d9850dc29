// What closes a month and holds back what is dated before it, where both stores use the same SQL.

import type { Instant } from '../../../core/instant.ts'
import type { Period } from '../../../core/month.ts'
import { withDigest } from '../../digests.ts'
import { sql } from '../reader.ts'

/**
 * Closing a later month waited for the last write that could be dated before its end, so earlier months are final as
 * well.
 */
export const IS_CLOSED = sql<{ closed: bigint }>(
  'select count(*) as closed from (select 1 from closed_months where month >= :month limit 1) x',
)
/** Since when there have been partners, and so anything that could be billed. */
export const FIRST_PARTNER = sql<{ at: bigint | null }>('select min(created_at) as at from partners')
export const CLOSE_MONTH = sql<never>(
  `insert into closed_months (month, period_end, closed_at, digest)
   values (:month, :period_end, :closed_at, :digest)
   on conflict do nothing`,
)
export const closingParams = ({ month, end }: Period, now: Instant) =>
  withDigest('closed_months', { month, period_end: end, closed_at: now })

/** One row: what has been reported until, below which no later write is dated. */
export const REPORT_UNTIL = sql<never>(
  `insert into reported_until (one, at, digest) values (1, :at, :digest)
   on conflict (one) do update set at = excluded.at, digest = excluded.digest where reported_until.at < excluded.at`,
)
/** The same of a sandbox alone. */
export const REPORT_SANDBOX_UNTIL = sql<never>(
  'update sandboxes set reported_until = :at where tenant_id = :tenant and reported_until < :at',
)

/**
 * The newest in order, not the latest in time: one dated by a clock that was ahead no longer counts once another has
 * come.
 */
export const NEWEST_FINISHED_PASS = sql<{ at: bigint }>(
  'select at from ticks where finished_at is not null order by tick_id desc limit 1',
)
export const NEWEST_CHANGE = sql<{ at: bigint }>('select at from audit order by audit_id desc limit 1')
