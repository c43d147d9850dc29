// Cancelling the open executions of many plans in a few statements, for the transactions of the other files. What they
// write is what core's `cancel` decides for each execution by itself, which a test proves.

import type { Instant } from '../../../core/instant.ts'
import { IS_OPEN } from '../../sql/open-due-and-stuck.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'

/** Found through the windows, which are few compared with all executions that a plan ever had. */
const RESERVING = 'w.plan_id = any(:plan_ids::bigint[]) and w.reserved > 0'
const OPEN_IN = `e.plan_id = w.plan_id and e.window_start = w.window_start and e.window_id = w.window_id and ${IS_OPEN}`

const LOCK_WINDOWS = query(`select from windows w where ${RESERVING} order by w.window_id for no key update`)
const LOCK_EXECUTIONS = query(
  `select from windows w join executions e on ${OPEN_IN}
   where ${RESERVING} order by e.execution_id for no key update of e`,
)
const CANCEL = query<{ cancelled: bigint }>(
  `with ended as (
     update executions e set status = 'cancelled', cancelled_at = :now
     from windows w where ${RESERVING} and ${OPEN_IN} returning e.window_id, e.amount_usd),
   given_back as (
     -- What comes back covers an excess first, as in core's settle.
     update windows w set reserved = reserved - o.usd, spent = spent + least(o.usd, excess),
       excess = excess - least(o.usd, excess),
       released = released + case when closed_at is null then 0 else o.usd - least(o.usd, excess) end
     from (select window_id, sum(amount_usd)::bigint as usd from ended group by window_id) o
     where w.window_id = o.window_id)
   select count(*) as cancelled from ended`,
)
const REFUND = query(
  `update schedules s set fireable = w.budget - w.reserved - w.spent from windows w
   where w.window_id = s.window_id and s.plan_id = any(:plan_ids::bigint[])
     and s.fireable <> w.budget - w.reserved - w.spent`,
)

/**
 * Ends every open execution of the plans; each reservation goes back to its own window. Returns how many. The caller
 * has locked the plans and their schedules, so nothing more is reserved meanwhile.
 */
export async function cancelOpen(tx: Tx, planIds: readonly number[], now: Instant): Promise<number> {
  const plans = { plan_ids: planIds }
  const [, , row] = await Promise.all([
    tx.run(LOCK_WINDOWS, plans),
    tx.run(LOCK_EXECUTIONS, plans),
    tx.get(CANCEL, { ...plans, now }),
    tx.run(REFUND, plans),
  ])
  return Number(row?.cancelled)
}
