// What is on record of passes, and since when plans have waited for one: everything that decides whether the scheduler
// is late.

import type { Instant } from '../../../core/instant.ts'
import { LATENESS_PASSES } from '../../../core/scheduler-lateness.ts'
import type { MonitoringStore } from '../../monitoring.ts'
import { instant, instantOrNull } from '../../rows/instant.ts'
import { IS_LIVE } from '../../sql/which-tenants.ts'
import { ask, breathe, PAGE_ROWS, type Reader, type Sql, sql } from '../reader.ts'

type At = { at: bigint }
const LATEST = sql<At>('select at from ticks order by tick_id desc limit :limit')
const LAST_FINISHED = sql<At>(
  'select at from ticks where finished_at is not null order by tick_id desc limit 1',
)
const NEWEST_SCHEDULE = sql<{ newest: bigint | null }>('select max(plan_id) as newest from schedules')

/** When the first awake plan of a range was created. `schedules` is the table `s`, with what a store adds to it. */
export const firstAwake = (schedules: string): Sql<{ created_at: bigint }> =>
  sql(
    `select p.created_at from ${schedules} join plans p on p.plan_id = s.plan_id
       join tenants t on t.tenant_id = p.tenant_id
     where s.plan_id > :from and s.plan_id <= :to and s.awake = 1 and ${IS_LIVE}
     order by s.plan_id limit 1`,
  )

export function schedulerReader(
  reader: Reader,
  first: ReturnType<typeof firstAwake>,
): MonitoringStore['readScheduler'] {
  /**
   * Plans get their ids in the order they are created, so the first awake one is the earliest. As a rule it is near the
   * start. Where many before it sleep or are in test environments, they are passed over a page at a time.
   */
  async function findWaitingSince(): Promise<Instant | null> {
    const newest = (await reader.get(NEWEST_SCHEDULE))?.newest ?? 0n
    for (let from = 0n; from < newest; from += BigInt(PAGE_ROWS)) {
      const found = await reader.get(first, { from, to: from + BigInt(PAGE_ROWS) })
      if (found) return instant(found.created_at)
      await breathe()
    }
    return null
  }

  return async () => {
    const [latest, [finished]] = await reader.together<[At, At]>(
      ask(LATEST, { limit: LATENESS_PASSES }),
      ask(LAST_FINISHED),
    )
    return {
      latestAt: latest.map(({ at }) => instant(at)),
      lastFinishedAt: instantOrNull(finished?.at ?? null),
      waitingSince: await findWaitingSince(),
    }
  }
}
