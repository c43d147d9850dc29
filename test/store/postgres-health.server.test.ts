// What only a server shows: counts that go on while others write, and what the check finds of the server itself.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { MINUTE_MS } from '../../src/core/time.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { type Connection, connect } from '../../src/store/postgres/server/connection.ts'
import { openPool, type Pool } from '../../src/store/postgres/server/pool.ts'
import { query } from '../../src/store/statement.ts'
import { ofTenant } from '../../src/store/transaction.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { firstTranche, link, openWorld, sendPlan, T0, tick, type World } from './world.ts'

async function onServer(t: TestContext): Promise<World & { pool: Pool; other: Connection }> {
  const url = await ownDatabase(join(temporaryFolder(t), 'health'))
  const world = await openWorld(t, async (t, clock) => {
    const store = await openStore(url, { clock, create: false })
    t.after(() => store.close())
    return store
  })
  const pool = openPool(url)
  t.after(() => {
    pool.end()
  })
  return { ...world, pool, other: connect(pool, url, () => T0) }
}

const COPY = query(
  `insert into executions select (jsonb_populate_record(e, jsonb_build_object('execution_id', :id::text, 'tranche_index', 7))).*
   from executions e limit 1`,
)

test('a count of executions leaves out none that commits late, and counts none twice', async (t) => {
  const { store, acme, other, ...world } = await onServer(t)
  await firstTranche({ store, acme, ...world })
  const { executionId } = await store.readMarks()
  assert.ok(executionId)
  // Another host has taken an id, and takes its time to commit it.
  const lower = executionId.replace(/.{4}$/, 'ffff')
  let go = () => {}
  const held = new Promise<void>((resolve) => {
    go = resolve
  })
  let inside = () => {}
  const entered = new Promise<void>((resolve) => {
    inside = resolve
  })
  const late = other.write(async (tx) => {
    await tx.times
    await tx.run(COPY, { id: lower })
    inside()
    await held
  }, ofTenant(acme))
  await entered
  await link(store, acme, 'u2')
  await sendPlan(store, acme, { partnerUserId: 'u2', partnerPlanId: 'p2' })
  world.advance(MINUTE_MS)
  await tick({ store, machine: world.machine }, '60000')
  const meanwhile = await store.countExecutionsAfter(executionId)
  assert.deepEqual(meanwhile, { created: { test: 0, live: 0 }, last: executionId })
  go()
  await late
  const after = await store.countExecutionsAfter(executionId)
  assert.deepEqual(after.created, { test: 2, live: 0 })
  assert.deepEqual((await store.countExecutionsAfter(after.last)).created, { test: 0, live: 0 })
})

test('the check finds what a server without foreign keys and indexes would not tell', async (t) => {
  const world = await onServer(t)
  const { store, pool } = world
  await firstTranche(world)
  assert.deepEqual(await store.findFaults(), [])
  const client = await pool.connect()
  await client.query('set session_replication_role = replica')
  await client.query(`update pg_index set indisvalid = false where indexrelid = 'prices_pkey'::regclass`)
  await client.query('update executions set window_id = 999')
  client.release(true)
  const faults = await store.findFaults()
  const of = (kind: string) => faults.filter((one) => one.kind === kind).map(({ subject }) => subject)
  assert.deepEqual(of('integrity'), ['index prices_pkey'])
  assert.equal(of('foreign_key').length, 1)
  assert.match(of('foreign_key')[0] ?? '', /^executions row exec_/)
})

test('the check warns of a server without a standby, and of deadlocks', async (t) => {
  const world = await onServer(t)
  const { store, pool } = world
  const kinds = async () => (await store.findWarnings()).map(({ kind }) => kind)
  assert.deepEqual(await kinds(), ['standby_missing'])
  await meet(pool)
  await pool.query(`select pg_stat_force_next_flush()`)
  assert.deepEqual(await kinds(), ['standby_missing', 'deadlocks'])
})

/** Two who lock two things the other way round: one of them is undone. */
async function meet(pool: Pool): Promise<void> {
  const [one, two] = [await pool.connect(), await pool.connect()]
  for (const client of [one, two]) await client.query('begin')
  await one.query('select pg_advisory_xact_lock(77, 1)')
  await two.query('select pg_advisory_xact_lock(77, 2)')
  const first = one.query('select pg_advisory_xact_lock(77, 2)')
  const second = two.query('select pg_advisory_xact_lock(77, 1)')
  const ended = await Promise.allSettled([first, second])
  assert.equal(ended.filter(({ status }) => status === 'rejected').length, 1)
  for (const client of [one, two]) client.release(true)
}
