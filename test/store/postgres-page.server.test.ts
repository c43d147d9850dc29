// A page of a pass on PostgreSQL beside others who change the same plans.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { price } from '../../src/core/money.ts'
import { MINUTE_MS } from '../../src/core/time.ts'
import { decisions } from '../../src/engine/pass.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { link, populate, sendPlan, T0 } from './world.ts'

test('a plan that wakes while a page waits for another one is not of that page: nobody holds it', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const url = await ownDatabase(temporaryFolder(t))
  const { machine } = machineAt(T0)
  const store = await openStore(url, { clock: machine.clock, create: false })
  t.after(() => store.close())
  const { acme } = await populate(store)
  await link(store, acme)
  for (const partnerPlanId of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId })
  await sendPlan(store, acme, { partnerPlanId: 'p1', status: 'paused' })
  const planIds = (await store.listPlans({ slug: null, environment: null }, { after: null, limit: 9 })).map(
    ({ planId }) => planId,
  )
  const pool = openPool(url, { max: 2 })
  t.after(() => pool.end())
  const holder = await pool.connect()
  await holder.query('begin')
  await holder.query('select from schedules where plan_id = $1 for update', [planIds[1]])

  const known = await store.peekPass()
  const now = decisions({ ...known, price: { price: price('60000'), at: known.at } }, 15 * MINUTE_MS, machine)
  const page = store.changeDuePlans(1, planIds, now)
  const waits = `select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  while ((await pool.query(waits)).rowCount === 0) await sleep(10)
  await sendPlan(store, acme, { partnerPlanId: 'p1', status: 'active' })
  await holder.query('commit')
  holder.release()
  assert.equal((await page).plansEvaluated, 1)
  // The next page has it.
  assert.equal((await store.changeDuePlans(2, planIds, now)).executionsCreated, 1)
})
