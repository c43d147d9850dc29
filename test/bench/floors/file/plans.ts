// New plans by hand: the user is read; the plan, its first window and its schedule are written.

import { machine } from '../../../../src/machine.ts'
import type { RawWork } from './raw.ts'

const DAY_MS = 86_400_000
const USD = 100_000_000

export const rawPlans: RawWork = (db) => {
  const sql = {
    users: db.prepare<[], number>('select count(*) from users').pluck(),
    user: db.prepare<[string], { user_id: number; tenant_id: number }>(
      'select user_id, tenant_id from users where partner_user_id = ?',
    ),
    plan: db.prepare(
      `insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
         status, created_at, updated_at)
       values (:tenant_id, :user_id, :name, :amount, 'daily', 1, :now, 'active', :now, :now)`,
    ),
    window: db.prepare(
      `insert into windows (plan_id, window_start, window_end, budget) values (:plan, :now, :end, :amount)`,
    ),
    schedule: db.prepare(
      `insert into schedules (plan_id, window_id, awake, next_run_at, window_start, window_end, budget, fireable,
         floor, tranche_index, slot, extras_left, next_extra_at)
       values (:plan, :window, 1, :now, :now, :end, :amount, :amount, :floor, 0, 0, 3, :now)`,
    ),
  }
  const users = sql.users.get() ?? 0
  return (i) => {
    const user = sql.user.get(`u${1 + (i % users)}`)
    const now = machine.clock()
    const times = { now, end: now + DAY_MS, amount: 60 * USD }
    const plan = sql.plan.run({ ...user, name: `new-${i}`, now, amount: times.amount }).lastInsertRowid
    const window = sql.window.run({ plan, ...times }).lastInsertRowid
    sql.schedule.run({ plan, window, ...times, floor: 5 * USD })
  }
}
