// One user with a crowd of plans, each with an execution out, put in by SQL: what a partner could build up in weeks.

import { price, usd } from '../../src/core/money.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { giveDigests } from '../support/database.ts'
import { T0 } from '../support/service.ts'

export type Crowd = { user: string; plans: number; status: 'pending' | 'sent' }

/** Adds the user and the plans to a tenant. A sent execution is under a lease until five minutes after T0. */
export function addCrowd(file: string, tenantId: number, { user, plans, status }: Crowd): void {
  const db = openFile(file)
  // Only to be quick: what is in the file is checked by its own keys all the same.
  db.pragma('synchronous = off')
  db.pragma('foreign_keys = on')
  const values = {
    tenant: tenantId,
    user,
    plans,
    status,
    now: T0,
    end: T0 + 7 * 86_400_000,
    lease: status === 'sent' ? T0 + 300_000 : null,
    amount: usd('200.00'),
    tranche: usd('10.00'),
    left: usd('190.00'),
    floor: usd('5.00'),
    price: price('50000'),
  }
  const numbers = `with recursive n (i) as (values (1) union all select i + 1 from n where i < :plans),
    base (plan, window) as (select coalesce((select max(plan_id) from plans), 0), coalesce((select max(window_id) from windows), 0))`
  const steps = [
    `insert into users (tenant_id, partner_user_id, consent_version, consent_timestamp, status, created_at, updated_at)
     values (:tenant, :user, 'v', 0, 'linked', :now, :now)`,
    `${numbers} insert into windows (window_id, plan_id, window_start, window_end, budget, reserved)
     select window + i, plan + i, :now, :end, :amount, :tranche from n, base`,
    `${numbers} insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index,
       amount_usd, trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     select printf('exec_%016x%016x', :tenant, plan + i), :tenant, plan + i,
       (select max(window_id) - :plans from windows) + i, :now, 0,
       :tranche, 'slot_start', 0, 1, :now + i, :status, iif(:lease is null, 0, 1), :lease from n, base`,
    `${numbers} insert into schedules select plan + i, (select max(window_id) - :plans from windows) + i, 1, :end,
       :price - i % 1000, :end, :now, :end, :amount, :left, :floor, 1, 14, 2, 1, 0, :price, 0, 3, :now, 0 from n, base`,
    `${numbers} insert into plans select plan + i, :tenant,
       (select user_id from users where tenant_id = :tenant and partner_user_id = :user), :user || ' ' || i, :amount,
       'weekly', 1, :now, 'active', :now, :now, 0 from n, base`,
  ]
  // Plans come last, so that they are what tells how many there were; the keys are checked at the commit.
  db.pragma('defer_foreign_keys = on')
  db.exec('begin')
  db.pragma('defer_foreign_keys = on')
  for (const step of steps) db.prepare(step).run(values)
  giveDigests(db)
  db.exec('commit')
  db.close()
}
