// Which plans a pass must look at, and how its hands share them out: the first hand lists them once, on the server, and
// whoever deletes a page of that list has it.

import type { DueRanges } from '../../passes.ts'
import { ALL_SANDBOX_DUE } from '../sandbox/due-plans.ts'
import type { Connection } from '../server/connection.ts'
import { query } from '../server/statement.ts'

// Four walks along four indexes, which cost what they find; as one condition they would be a walk through all plans.
const AWAKE = 'select plan_id from schedules where awake = 1 and'
const DUE = `
  ${AWAKE} next_run_at <= :now
  union ${AWAKE} fireable >= floor and window_start <= :now and window_end <= :now::bigint + :lead::bigint
  union ${AWAKE} clock_at <= :now and :price::bigint is null
  union ${AWAKE} limit_price >= :price
  union ${ALL_SANDBOX_DUE}`

// Planned for what is due this time: a plan for any instant would go through all there is. Sorted in memory.
const PLAN_ANEW = query(
  `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true)`,
)
const LIST = query<{ plan_id: bigint }>(`select plan_id from (${DUE}) due order by plan_id`)
// By tenants, so that a page concerns few of them: hands that are at it together do not wait at their locks.
const FILL = query(
  `insert into pass_pages (tick_id, page, plan_ids)
   select :tick_id, page, array_agg(plan_id order by plan_id)
   from (select plan_id, (row_number() over (order by tenant_id, plan_id) - 1) / :plans::bigint as page
     from (${DUE}) due join plans using (plan_id)) numbered
   group by page`,
)
// A claim that a crash of the server forgets is a page that somebody looks at twice, and then nothing of it is due: it
// need not wait for the disk.
const CLAIM = query<{ plan_ids: bigint[] }>(
  `delete from pass_pages where tick_id = :tick_id and page = (
     select page from pass_pages where tick_id = :tick_id order by page limit 1 for update skip locked)
   returning plan_ids, set_config('synchronous_commit', 'off', true)`,
)

const rangesOf = ({ now, livePrice, leadMs }: DueRanges) => ({ now, price: livePrice, lead: leadMs })

/** In the order of their numbers. */
export const listDuePlans = (connection: Connection, due: DueRanges): Promise<number[]> =>
  connection.read(async (tx) => {
    const [, rows] = await Promise.all([tx.run(PLAN_ANEW), tx.all(LIST, rangesOf(due))])
    return rows.map(({ plan_id }) => Number(plan_id))
  })

/** Lists the due plans of a pass for all its hands. */
export const fillPages = (
  connection: Connection,
  passId: number,
  due: DueRanges,
  plans: number,
): Promise<unknown> =>
  connection.write((tx) =>
    Promise.all([tx.run(PLAN_ANEW), tx.run(FILL, { ...rangesOf(due), tick_id: passId, plans })]),
  )

/**
 * A page of a pass that is this hand's now, undefined when there is none left. As a write, whose outcome is known even if its
 * answer is lost: a statement by itself would be done again, and its first page be nobody's.
 */
export const claimPage = (connection: Connection, passId: number): Promise<number[] | undefined> =>
  connection.write(async (tx) => (await tx.get(CLAIM, { tick_id: passId }))?.plan_ids.map(Number))
