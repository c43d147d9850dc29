// Passes, polls and holds on PostgreSQL, beside hosts that die or hold locks: nothing is lost, and nothing fires twice.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { price } from '../../src/core/money.ts'
import { MINUTE_MS, plus } from '../../src/core/time.ts'
import { decisions, runPass } from '../../src/engine/pass.ts'
import { takeTurn } from '../../src/store/postgres/pass.ts'
import { connect } from '../../src/store/postgres/server/connection.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import type { Store } from '../../src/store/store.ts'
import { temporaryFolder } from '../support/database.ts'
import { startServer } from '../support/postgres-server.ts'
import { start } from '../support/process.ts'
import { freePort, until } from '../support/within.ts'
import { assertEachFiredOnce } from './contract/passes.ts'
import { besideStore } from './postgres.ts'
import {
  AUDIT,
  allExecutions,
  allPlans,
  each,
  enrol,
  enrolAll,
  link,
  plansNamed,
  poll,
  raise,
  sendPlan,
  T0,
  tick,
} from './world.ts'

const PLANS = 600
/** The number of plans in a page. */
const PAGE = 250

type Beside = Awaited<ReturnType<typeof besideStore>>

async function withPlans(t: TestContext): Promise<Beside> {
  const beside = await besideStore(t)
  const { store, acme } = beside
  await link(store, acme)
  await Promise.all(plansNamed(PLANS).map((partnerPlanId) => sendPlan(store, acme, { partnerPlanId })))
  return beside
}

const HOLDERS = `from pg_locks where locktype = 'advisory' and classid = ${LOCK.pass} and granted
  and database = (select oid from pg_database where datname = current_database())`

const isFree = async ({ pool }: Beside): Promise<boolean> =>
  (await pool.query(`select ${HOLDERS}`)).rowCount === 0

/** Another process, which runs a pass and has stopped in a page. */
async function otherPass(t: TestContext, { url }: Beside, ...argv: string[]) {
  const other = start(t, [url, ...argv], {
    cwd: temporaryFolder(t),
    program: [process.execPath, join(import.meta.dirname, 'postgres-pass.ts')],
  })
  await other.prints('inside')
  return other
}

suite('PostgreSQL: processes that die or hang in a pass', () => {
  test('one that is stopped keeps its turn, until it has been at a page for too long', async (t) => {
    const world = await withPlans(t)
    const { store, machine } = world
    const other = await otherPass(t, world, String(PAGE + 3))
    const observe = async () => assert.fail('a pass that is skipped asks no feed')
    assert.equal(await runPass({ store, machine, observe }), null)
    const connection = connect(openPool(world.url), world.url, machine.clock)
    t.after(() => connection.close())
    const turnAfter = (ms: number) => takeTurn(connection, ms)
    assert.equal(await turnAfter(MINUTE_MS), null)
    assert.equal(await isFree(world), false)
    const turn = await turnAfter(1)
    assert.ok(turn)
    await turn.keep()
    await turn.end()
    // Uncommitted work is rolled back by the server once its transaction has been idle for ten seconds.
    const next = await tick(world, '60000')
    assert.deepEqual([next.executionsCreated, next.failed], [PLANS - PAGE, []])
    other.child.kill('SIGCONT')
    assert.equal(await other.ended, 0, other.err())
    assert.match(other.out(), /failed: storage_failed/)
    await assertEachFiredOnce(world, PLANS)
  })

  test('one that goes on when its turn was taken ends the page it is in, and makes no other', async (t) => {
    const world = await withPlans(t)
    const other = await otherPass(t, world)
    await world.pool.query(`select pg_terminate_backend(pid) ${HOLDERS}`)
    await until(10_000, 'a free turn', () => isFree(world))
    other.child.kill('SIGCONT')
    assert.equal(await other.ended, 0, other.err())
    assert.match(other.out(), /failed: storage_failed/)
    assert.equal((await allExecutions(world.store)).length, PAGE)
    assert.equal((await world.store.readScheduler()).lastFinishedAt, null)
    assert.equal((await tick(world, '60000')).executionsCreated, PLANS - PAGE)
    await assertEachFiredOnce(world, PLANS)
  })

  test('one whose host has lost its power is gone within half a minute', async (t) => {
    const port = await freePort()
    const server = await startServer({ listen_addresses: '127.0.0.1', port: String(port) })
    const pool = openPool(`postgres://tranche@127.0.0.1:${port}/postgres`)
    t.after(() => pool.end().finally(server.stop))
    const names = ['idle', 'interval', 'count'].map(
      (name) => `current_setting('tcp_keepalives_${name}') as ${name}`,
    )
    const { rows } = await pool.query(`select ${names.join(', ')}`)
    const [{ idle, interval, count }] = rows
    // By its own settings a server would wait for two hours, and every pass with it.
    assert.ok(Number(idle) > 0 && Number(idle) + Number(interval) * Number(count) <= 30)
  })
})

// A page of a pass on PostgreSQL beside others who change the same plans.

test('a plan that wakes while a page waits for another one is not of that page: nobody holds it', async (t) => {
  const { machine, store, acme, hold, waiting } = await besideStore(t)
  await enrolAll(store, acme, ['p1', 'p2'])
  await sendPlan(store, acme, { partnerPlanId: 'p1', status: 'paused' })
  const planIds = (await allPlans(store)).map(({ planId }) => planId)
  const { release } = await hold('select from schedules where plan_id = $1 for update', [planIds[1]])
  const known = await store.peekPass()
  const now = decisions({ ...known, price: { price: price('60000'), at: known.at } }, 15 * MINUTE_MS, machine)
  const page = store.changeDuePlans(1, planIds, now)
  while ((await waiting()) === 0) await pause(10)
  await sendPlan(store, acme, { partnerPlanId: 'p1', status: 'active' })
  await release()
  assert.equal((await page).plansEvaluated, 1)
  // The next page has it.
  assert.equal((await store.changeDuePlans(2, planIds, now)).executionsCreated, 1)
})

// A hold on PostgreSQL: in force at once, whoever locks its schedules, and never left incomplete.

async function stage(t: TestContext, plans: number) {
  const { machine, store, acme, acmeLive, bolt, pool, hold } = await besideStore(t)
  await enrolAll(store, acme, plansNamed(plans))
  await enrol(store, bolt)
  const awake = async () => (await pool.query('select plan_id from schedules where awake = 1')).rows.length
  return { store, machine, acme, acmeLive, pool, lock: hold, awake }
}

const hold = (store: Store, held: boolean) =>
  store.changePartner('acme', (seen, now) => ({ ...seen, held, updatedAt: now }), AUDIT)

test('a hold is in force before all schedules follow it, and no call of the partner waits for them', async (t) => {
  const { store, machine, acme, lock, awake } = await stage(t, 2)
  const [first, second] = (await allPlans(store)).map(({ planId }) => planId)
  assert.ok(first && second)
  const { release } = await lock('select from schedules where plan_id = $1 for update', [first])
  const held = hold(store, true)
  await until(10_000, 'a hold', async () => (await store.findPartner('acme'))?.held === true)
  await sendPlan(store, acme, { partnerPlanId: 'p9' })
  const known = await store.peekPass()
  const now = decisions({ ...known, price: { price: price('60000'), at: known.at } }, 15 * MINUTE_MS, machine)
  const { executionsCreated, plansEvaluated } = await store.changeDuePlans(1, [second], now)
  assert.deepEqual([executionsCreated, plansEvaluated], [0, 0])
  assert.equal(await awake(), 3)
  await release()
  await held
  assert.equal(await awake(), 1)
})

test('what a process that died has left of a release is done by the next pass, which fires', async (t) => {
  const { store, machine, pool, awake } = await stage(t, 3)
  await hold(store, true)
  await pool.query(
    `update partners set held = 0; insert into schedules_behind (partner_slug) values ('acme')`,
  )
  assert.equal((await tick({ store, machine }, '60000')).executionsCreated, 4)
  assert.equal(await awake(), 4)
  assert.deepEqual((await pool.query('select * from schedules_behind')).rows, [])
})

test('a partner with more plans than a page: each of its schedules follows, and those of nobody else', async (t) => {
  const { store, acmeLive, pool, awake } = await stage(t, 510)
  await enrolAll(store, acmeLive, plansNamed(3))
  const before = 510 + 3 + 1
  assert.equal(await awake(), before)
  await hold(store, true)
  assert.equal(await awake(), 1)
  await Promise.all([hold(store, false), raise(store)])
  assert.equal(await awake(), before)
  const { rows } = await pool.query(
    `select s.floor, count(*) as n from schedules s group by s.floor order by n`,
  )
  assert.deepEqual(each(rows, 'n'), [1n, BigInt(before - 1)])
})

// A poll on PostgreSQL beside others who have locked the executions it would deliver.

test('a poll waits for the transaction that holds what is due, and hands out what is due then, in the order of creation', async (t) => {
  const { machine, setClock, store, acme, hold, waiting } = await besideStore(t)
  await link(store, acme)
  for (const minutes of [0, -5, 5]) {
    // The clock is set back and forth: then the order of creation is not that of the ids.
    setClock(plus(T0, minutes * MINUTE_MS))
    await sendPlan(store, acme, { partnerPlanId: `p${minutes}` })
    await tick({ store, machine }, '60000')
  }
  const [first, second, third] = (await allExecutions(store)).map(({ executionId }) => executionId)

  // As a confirmation that is refused in the end, and one that is not.
  const { client, release } = await hold('select from executions where execution_id = $1 for no key update', [
    first,
  ])
  await client.query(
    `update executions set status = 'sent', delivered_count = 1, lease_expires_at = $2 where execution_id = $1`,
    [third, T0 + 60 * MINUTE_MS],
  )
  const polled = poll(store, acme)
  let isAnswered = false
  void polled.then(() => {
    isAnswered = true
  })
  while (!isAnswered && (await waiting()) === 0) await pause(10)
  await release()
  assert.deepEqual(each(await polled, 'executionId'), [second, first])
})

test('a poll goes along the index, however many executions wait', async (t) => {
  const beside = await withPlans(t)
  await tick(beside, '60000')
  const ask = async (sql: string) => (await beside.pool.query(`select ${sql}::int8 as n`)).rows[0].n as bigint
  const read = () => ask("(select seq_tup_read from pg_stat_user_tables where relname = 'executions')")
  const sessions = () => ask('(select count(*) from pg_stat_activity where datname = current_database())')
  // What a session has read is counted when it ends.
  const polled = async (limit: number) => {
    const [before, others] = [await read(), await sessions()]
    const store = await beside.connect()
    await poll(store, beside.acme, limit)
    await store.close()
    await until(10_000, 'the end of its sessions', async () => (await sessions()) <= others)
    return (await read()) - before
  }
  await polled(PLANS)
  const client = await beside.pool.connect()
  // Counted while all were under a lease, which now none is; and by plans for any time, as sessions make them later.
  const waits = "set status = 'pending', delivered_count = 0, lease_expires_at = null"
  const database = new URL(beside.url).pathname.slice(1)
  await client.query('vacuum analyze executions')
  await client.query(`update executions ${waits}`)
  await client.query(`alter database ${database} set plan_cache_mode = force_generic_plan`)
  // What this session has read is counted before the polls are, and not in their middle.
  await client.query('select pg_stat_force_next_flush()')
  client.release()
  assert.deepEqual([await polled(5), await polled(5)], [0n, 0n])
})
