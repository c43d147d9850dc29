// What a report of a month may cover, decided from what time it is and what has been recorded.

import { CLOCK_DIFFERENCE_MAX_MS } from '../../../core/clock.ts'
import { earlier, type Instant, later, plus } from '../../../core/instant.ts'
import type { Period } from '../../../core/month.ts'
import type { FixedPeriod } from '../../months.ts'
import { sql } from '../reader.ts'

/** `reportedUntil` is what no later write may be dated before; null leaves it where it is. */
type Bound = { fixed: FixedPeriod; reportedUntil: Instant | null }

/** Of a month that is over by the clock. `reached` is how far time has come by what was recorded. */
export function overPeriod(period: Period, reached: Instant): Bound {
  const final = reached >= period.end
  return { fixed: { ...period, final }, reportedUntil: final ? period.end : null }
}

/** Of a month that is not over at `now`. `latest` is when the latest trade or adjustment was recorded. */
export function runningPeriod(period: Period, now: Instant, latest: Instant | null): Bound {
  // A trade or adjustment of this very millisecond belongs to what is there so far, one that comes later in it
  // does not. One that lies further ahead was dated by a clock that was wrong: it must not take all others along.
  const sofar = plus(latest ?? (0 as Instant), 1)
  const held = now < sofar && sofar - now <= CLOCK_DIFFERENCE_MAX_MS
  const end = earlier(period.end, later(held ? sofar : now, period.start))
  return { fixed: { ...period, end, final: false }, reportedUntil: held ? sofar : null }
}

export const IS_CLOSED = sql<{ closed: bigint }>(
  'select count(*) as closed from closed_months where month = :month',
)
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
