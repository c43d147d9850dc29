// What the passes have left on record, and since when plans have waited for them: all that decides whether the
// scheduler is late.

import type { Instant } from '../../../core/instant.ts'
import { LATENESS_PASSES } from '../../../core/scheduler-lateness.ts'
import type { MonitoringStore } from '../../monitoring.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { IS_LIVE } from '../../sql/expressions.ts'
import type { Connection } from '../file/connection.ts'
import { breathe, PAGE_ROWS } from './short-reads.ts'

export function createSchedulerReader({ db, read }: Connection): MonitoringStore['readScheduler'] {
  const sql = {
    latest: db.prepare<[number], bigint>('select at from ticks order by tick_id desc limit ?').pluck(),
    lastFinished: db
      .prepare<[], bigint>('select at from ticks where finished_at is not null order by tick_id desc limit 1')
      .pluck(),
    newestSchedule: db.prepare<[], bigint | null>('select max(plan_id) from schedules').pluck(),
    // "Not indexed" leaves the walk along the primary key. By an index of awake plans SQLite would read them all, to
    // sort them.
    firstAwake: db
      .prepare<object, bigint>(
        `select p.created_at from schedules s not indexed join plans p using (plan_id)
           join tenants t on t.tenant_id = p.tenant_id
         where s.plan_id > :from and s.plan_id <= :to and s.awake = 1 and ${IS_LIVE}
         order by s.plan_id limit 1`,
      )
      .pluck(),
  }

  /**
   * Plans get their ids in the order they are created, so the first awake one is the earliest. As a rule it is near the
   * start. Where many before it sleep or are in test environments, they are passed over a page at a time.
   */
  async function findWaitingSince(): Promise<Instant | null> {
    const newest = await read(() => sql.newestSchedule.get() ?? 0n)
    for (let from = 0n; from < newest; from += BigInt(PAGE_ROWS)) {
      const createdAt = await read(() => sql.firstAwake.get({ from, to: from + BigInt(PAGE_ROWS) }))
      if (createdAt !== undefined) return instant(createdAt)
      await breathe()
    }
    return null
  }

  return async () => {
    const passes = await read(() => ({
      latestAt: sql.latest.all(LATENESS_PASSES).map(instant),
      lastFinishedAt: instantOrNull(sql.lastFinished.get() ?? null),
    }))
    return { ...passes, waitingSince: await findWaitingSince() }
  }
}
