// A database with many plans that wait for a price or an hour that does not come, put in by SQL.

import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../../src/core/instant.ts'
import { price, usd } from '../../src/core/money.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { T0 } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const AUDIT = { osUser: 'test', action: 'test', subject: 'test', detail: {} }

export type Waiting = { store: Store; machine: Machine; setClock: (now: Instant) => void; file: string }

/**
 * Each has one unit of its first slot out and waits for a price just under 50,000 USD, or for nine hours to go by
 * without one; prices and hours differ by up to 999 units and milliseconds.
 */
export async function manyWaiting(t: Pick<TestContext, 'after'>, plans: number): Promise<Waiting> {
  const file = join(temporaryFolder(t), 'tranche.db')
  const { machine, setClock } = machineAt(T0)
  const store = await openStore(file, { clock: machine.clock, create: true })
  t.after(() => store.close())
  await store.addPartner({ partnerSlug: 'acme', name: 'Acme' }, AUDIT)
  const db = openFile(file)
  // Only to be quick: what is in the file is checked by its own keys all the same.
  db.pragma('synchronous = off')
  db.pragma('foreign_keys = on')
  db.exec('begin')
  const values = {
    plans,
    now: T0,
    clock: plus(T0, 9 * HOUR_MS),
    next: plus(T0, 12 * HOUR_MS),
    end: plus(T0, 7 * DAY_MS),
    amount: usd('200.00'),
    floor: usd('5.00'),
    limit: price('50000'),
  }
  db.prepare(
    `insert into users (user_id, tenant_id, partner_user_id, consent_version, consent_timestamp, status, created_at,
       updated_at)
     select 1, tenant_id, 'u', 'v', 0, 'linked', 0, 0 from tenants where environment = 'live'`,
  ).run()
  const numbers = 'with recursive n (i) as (values (1) union all select i + 1 from n where i < :plans)'
  db.prepare(
    `${numbers} insert into plans select i, tenant_id, 1, 'p' || i, :amount, 'weekly', 1, :now, 'active', :now, :now
     from n, users`,
  ).run(values)
  db.prepare(
    `${numbers} insert into windows (window_id, plan_id, window_start, window_end, budget)
     select i, i, :now, :end, :amount from n`,
  ).run(values)
  db.prepare(
    `${numbers} insert into schedules select i, i, 1, :next, :limit - i % 1000, :clock + i % 1000,
       :now, :end, :amount, :amount, :floor, 1, 14, 2, 1, 0, :limit - i % 1000, 0, 3, :now
     from n`,
  ).run(values)
  db.exec('commit')
  db.close()
  return { store, machine, setClock, file }
}
