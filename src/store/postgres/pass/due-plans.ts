// Which plans a pass must look at, and how its hands share them: the first hand lists them once, on the server, and a
// hand claims a page by deleting it from that list.

import type { DueRanges } from '../../passes.ts'
import { ALL_SANDBOX_DUE } from '../sandbox/due-plans.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'

// Four walks along four indexes, which cost only what they find; as a single condition, they would read all plans.
const AWAKE = 'select plan_id from schedules where awake = 1 and'
const DUE = `
  ${AWAKE} next_run_at <= :now
  union ${AWAKE} fireable >= floor and window_start <= :now and window_end <= :now::bigint + :lead::bigint
  union ${AWAKE} clock_at <= :now and :price::bigint is null
  union ${AWAKE} limit_price >= :price
  union ${ALL_SANDBOX_DUE}`

// Planned for the actual parameters: a generic plan would read the whole table. Sorted in memory.
const PLAN_ANEW = query(
  `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true)`,
)
const LIST = query<{ plan_id: bigint }>(`select plan_id from (${DUE}) due order by plan_id`)
// By tenant, so that a page concerns few of them: hands that work at the same time do not wait for each other's locks.
const FILL = query(
  `insert into pass_pages (tick_id, page, plan_ids)
   select :tick_id, page, array_agg(plan_id order by plan_id)
   from (select plan_id, (row_number() over (order by tenant_id, plan_id) - 1) / :plans::bigint as page
     from (${DUE}) due join plans using (plan_id)) numbered
   group by page`,
)
// If a crash of the server forgets a claim, its page is looked at twice, and nothing on it is due the second time. So a
// claim need not wait for the disk.
const CLAIM = query<{ plan_ids: bigint[] }>(
  `delete from pass_pages where tick_id = :tick_id and page = (
     select page from pass_pages where tick_id = :tick_id order by page limit 1 for update skip locked)
   returning plan_ids, set_config('synchronous_commit', 'off', true)`,
)

const rangesOf = ({ now, livePrice, leadMs }: DueRanges) => ({ now, price: livePrice, lead: leadMs })

/** In the order of their numbers. */
export const listDuePlans = (connection: Connection, due: DueRanges): Promise<number[]> =>
  connection.read(
    async (tx) => {
      const [, rows] = await Promise.all([tx.run(PLAN_ANEW), tx.all(LIST, rangesOf(due))])
      return rows.map(({ plan_id }) => Number(plan_id))
    },
    { reads: 'large' },
  )

/** Lists the due plans of a pass for all its hands. */
export const fillPages = (
  connection: Connection,
  passId: number,
  due: DueRanges,
  plans: number,
): Promise<unknown> =>
  connection.write(
    (tx) => Promise.all([tx.run(PLAN_ANEW), tx.run(FILL, { ...rangesOf(due), tick_id: passId, plans })]),
    { reads: 'large', isProvisional: true },
  )

/**
 * Claims a page of a pass for this hand; undefined when there is none left. It is a write, whose outcome is known even
 * if its answer is lost: a single statement would be run again, and the first page that it claimed would be nobody's.
 */
export const claimPage = (connection: Connection, passId: number): Promise<number[] | undefined> =>
  connection.write(async (tx) => (await tx.get(CLAIM, { tick_id: passId }))?.plan_ids.map(Number), {
    isProvisional: true,
  })
