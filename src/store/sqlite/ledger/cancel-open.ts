// Cancelling the open executions of many plans in a few statements, for the transactions of the other files. What they
// write is what core's `cancel` decides for each execution by itself, which a test proves.

import type { Instant } from '../../../core/instant.ts'
import { IS_OPEN } from '../../sql/open-due-and-stuck.ts'
import type { Database } from '../file/connection.ts'

export type CancelOpen = (planIds: readonly (number | bigint)[], now: Instant) => number

/** Ends every open execution of the plans; each reservation goes back to its own window. Returns how many. */
export function createCancelOpen(db: Database): CancelOpen {
  const sql = {
    // Found through the windows, which are few compared with all executions that a plan ever had.
    open: db
      .prepare<object, string>(
        `select e.execution_id from json_each(:plans) p
         join windows w on w.plan_id = p.value and w.reserved > 0
         join executions e on e.plan_id = w.plan_id and e.window_start = w.window_start
         where e.window_id = w.window_id and ${IS_OPEN}`,
      )
      .pluck(),
    giveBack: db.prepare(
      // Money that comes back covers an excess first, as in core's settle.
      `update windows set reserved = reserved - o.usd, spent = spent + min(o.usd, excess),
         excess = excess - min(o.usd, excess),
         released = released + iif(closed_at is null, 0, o.usd - min(o.usd, excess))
       from (select e.window_id, sum(e.amount_usd) as usd
             from json_each(:executions) x join executions e on e.execution_id = x.value group by e.window_id) o
       where windows.window_id = o.window_id`,
    ),
    cancel: db.prepare(
      `update executions as e set status = 'cancelled', cancelled_at = :now
       where e.execution_id in (select value from json_each(:executions)) and ${IS_OPEN}`,
    ),
    refund: db.prepare(
      `update schedules set fireable = w.budget - w.reserved - w.spent from windows w
       where w.window_id = schedules.window_id and schedules.plan_id in (select value from json_each(:plans))
         and fireable <> w.budget - w.reserved - w.spent`,
    ),
  }

  return (planIds, now) => {
    const plans = JSON.stringify(planIds.map(Number))
    const executions = sql.open.all({ plans })
    if (executions.length === 0) return 0
    const ended = { executions: JSON.stringify(executions) }
    sql.giveBack.run(ended)
    sql.refund.run({ plans })
    return sql.cancel.run({ ...ended, now }).changes
  }
}
