// What a write on PostgreSQL waits for, and how long its statements may take.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { HOUR_MS } from '../../src/core/time.ts'
import { decisions } from '../../src/engine/pass.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { link, populate, sendPlan, T0, tick } from './world.ts'

async function opened(t: TestContext) {
  const url = await ownDatabase(temporaryFolder(t))
  const { machine } = machineAt(T0)
  const store = await openStore(url, { clock: machine.clock, create: false })
  const pool = openPool(url, { max: 2 })
  t.after(() => Promise.all([store.close(), pool.end()]))
  return { store, pool, machine, ...(await populate(store)) }
}

test('the plans that are due may take ten minutes to list, however long other statements may take', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { store, pool, machine, acme } = await opened(t)
  await link(store, acme)
  await sendPlan(store, acme, { partnerPlanId: 'p1' })
  await pool.query(`create function look() returns trigger language plpgsql as $$ begin
    if current_setting('statement_timeout') <> '10min' then
      raise exception 'it has %', current_setting('statement_timeout'); end if;
    return new; end $$`)
  await pool.query('create trigger look before insert on pass_pages for each row execute function look()')
  assert.equal((await tick({ store, machine }, '60000')).executionsCreated, 1)
})

test('a sandbox moves when the last write of the time before is done', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { store, pool, machine, acme } = await opened(t)
  const { passId, ...known } = await store.beginPass(null)
  const writer = await pool.connect()
  await writer.query(`begin; select pg_advisory_xact_lock_shared(${LOCK.tenant}, ${acme.tenantId})`)
  let isDone = false
  const moving = store
    .moveSandbox(acme, HOUR_MS, { wakeUpId: passId, planIds: [], decisions: decisions(known, 0, machine) })
    .then(() => {
      isDone = true
    })
  try {
    while (!isDone && (await pool.query('select from pg_locks where not granted')).rowCount === 0)
      await sleep(10)
    assert.ok(!isDone)
  } finally {
    await writer.query('commit')
    writer.release()
  }
  await moving
})
