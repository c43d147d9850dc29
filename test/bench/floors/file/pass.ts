// A pass by hand, in the order in which the plans lie in the file: each schedule is read and moved on, an execution is
// written, its amount reserved.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'

const SLOT_MS = 12 * 3_600_000
const TRANCHE = 700_000_000

type Schedule = { window_id: number; window_start: number; tranche_index: number; limit_price: number }

export const rawPass: RawWork = (db) => {
  const tenant = db.prepare<[], number>('select tenant_id from plans limit 1').pluck().get()
  const sql = {
    schedule: db.prepare<[number], Schedule>(
      'select window_id, window_start, tranche_index, limit_price from schedules where plan_id = ?',
    ),
    moveOn: db.prepare(
      `update schedules set next_run_at = :next, limit_price = :limit, clock_at = :next, fireable = fireable - :amount,
         tranche_index = tranche_index + 1, units_fired = units_fired + 1 where plan_id = :plan`,
    ),
    execution: db.prepare(
      `insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
         trigger_kind, slot, units, price, created_at, status)
       values (:id, :tenant, :plan, :window_id, :window_start, :tranche_index, :amount, 'limit', 0, 1, :price, :now,
         'pending')`,
    ),
    reserve: db.prepare('update windows set reserved = reserved + ? where window_id = ?'),
  }
  const time = machine.clock().toString(16).padStart(12, '0')
  return (i) => {
    const plan = i + 1
    const { limit_price, ...schedule } = sql.schedule.get(plan) as Schedule
    const now = machine.clock()
    const id = `exec_${time}${i.toString(16).padStart(20, '0')}`
    sql.moveOn.run({ plan, next: now + SLOT_MS, limit: limit_price - 1, amount: TRANCHE })
    sql.execution.run({ ...schedule, id, tenant, plan, amount: TRANCHE, price: limit_price, now })
    sql.reserve.run(TRANCHE, schedule.window_id)
  }
}
