// A hold on PostgreSQL: in force at once, no matter who is in the way of its schedules, and never left half done.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { price } from '../../src/core/money.ts'
import { MINUTE_MS } from '../../src/core/time.ts'
import { decisions } from '../../src/engine/pass.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { until } from '../support/within.ts'
import { AUDIT, allPlans, link, populate, raise, sendPlan, T0, tick } from './world.ts'

async function stage(t: TestContext, plans: number) {
  const url = await ownDatabase(join(temporaryFolder(t), 'hold'))
  const { machine } = machineAt(T0)
  const store = await openStore(url, { clock: machine.clock, create: false })
  t.after(() => store.close())
  const { acme, bolt } = await populate(store)
  for (const tenant of [acme, bolt]) await link(store, tenant)
  for (let i = 0; i < plans; i++) await sendPlan(store, acme, { partnerPlanId: `p${i}` })
  await sendPlan(store, bolt)
  const pool = openPool(url, { max: 2 })
  const client = await pool.connect()
  t.after(() => {
    client.release(true)
    return pool.end()
  })
  const awake = async () => (await client.query('select plan_id from schedules where awake = 1')).rows.length
  return { store, machine, acme, client, awake }
}

const hold = (store: Store, held: boolean) =>
  store.changePartner('acme', (seen, now) => ({ ...seen, held, updatedAt: now }), AUDIT)

test('a hold is in force before all schedules follow it, and no call of the partner waits for them', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { store, machine, acme, client, awake } = await stage(t, 2)
  const [first, second] = (await allPlans(store)).map(({ planId }) => planId)
  assert.ok(first && second)
  await client.query('begin')
  await client.query('select from schedules where plan_id = $1 for update', [first])
  const held = hold(store, true)
  await until(10_000, 'a hold', async () => (await store.findPartner('acme'))?.held === true)
  await sendPlan(store, acme, { partnerPlanId: 'p9' })
  const known = await store.peekPass()
  const now = decisions({ ...known, price: { price: price('60000'), at: known.at } }, 15 * MINUTE_MS, machine)
  const { executionsCreated, plansEvaluated } = await store.changeDuePlans(1, [second], now)
  assert.deepEqual([executionsCreated, plansEvaluated], [0, 0])
  assert.equal(await awake(), 3)
  await client.query('commit')
  await held
  assert.equal(await awake(), 1)
})

test('what a process that died has left of a release is done by the next pass, which fires', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { store, machine, client, awake } = await stage(t, 3)
  await hold(store, true)
  await client.query(
    `update partners set held = 0; insert into schedules_behind (partner_slug) values ('acme')`,
  )
  const report = await tick({ store, machine }, '60000')
  assert.equal(report.executionsCreated, 4)
  assert.equal(await awake(), 4)
  assert.deepEqual((await client.query('select * from schedules_behind')).rows, [])
})

test('a partner with more plans than a page: each of its schedules follows, and those of nobody else', async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { store, client, awake } = await stage(t, 1)
  // Copies of one plan, in both of the partner's environments.
  await client.query(
    `insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
       status, created_at, updated_at)
     select t.tenant_id, p.user_id, 'q' || n, p.amount_usd, p.frequency, 1, p.start_date, 'active', 0, 0
     from (select * from plans where partner_plan_id = 'p0') p, generate_series(1, 700) n,
       (select tenant_id from tenants where partner_slug = 'acme') t`,
  )
  await client.query(
    `insert into windows (plan_id, window_start, window_end, budget)
     select p.plan_id, w.window_start, w.window_end, w.budget from plans p, windows w where p.partner_plan_id like 'q%'
       and w.plan_id = (select plan_id from plans where partner_plan_id = 'p0')`,
  )
  await client.query(
    `insert into schedules
     select w.plan_id, w.window_id, s.awake, s.next_run_at, s.limit_price, s.clock_at, s.window_start, s.window_end,
       s.budget, s.fireable, s.floor, s.tranche_index, s.slots, s.units_per_slot, s.units_fired, s.slot,
       s.reference_price, s.half_width, s.extras_left, s.next_extra_at
     from windows w join plans p on p.plan_id = w.plan_id, schedules s where p.partner_plan_id like 'q%'
       and s.plan_id = (select plan_id from plans where partner_plan_id = 'p0')`,
  )
  const before = 1 + 1_400 + 1
  assert.equal(await awake(), before)
  await hold(store, true)
  assert.equal(await awake(), 1)
  await Promise.all([hold(store, false), raise(store)])
  assert.equal(await awake(), before)
  const { rows } = await client.query(
    `select s.floor, count(*) as n from schedules s group by s.floor order by n`,
  )
  assert.deepEqual(
    rows.map(({ n }) => n),
    [1n, BigInt(before - 1)],
  )
})
