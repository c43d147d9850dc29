// Hands of a pass that die, on PostgreSQL: what they had taken is due again, and nothing is fired twice.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { price } from '../../src/core/money.ts'
import { register } from '../../src/core/webhook.ts'
import { runPass } from '../../src/engine/pass.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openPool } from '../../src/store/postgres/server/pool.ts'
import type { Deliver } from '../../src/webhook/wake-partners.ts'
import { wakePartners } from '../../src/webhook/wake-partners.ts'
import { startServer } from '../support/postgres-server.ts'
import { start } from '../support/process.ts'
import { freePort } from '../support/within.ts'
import { open } from './postgres.ts'
import { allExecutions, link, type Open, openWorld, problem, sendPlan, tick, type World } from './world.ts'

const PLANS = 600
/** Of them the dead hand had taken these. */
const PAGE = 250

const openPlace: Open = async (t, clock, place) => {
  const store = await open(place, clock)
  t.after(() => store.close())
  return store
}

const addressOf = ({ place }: World): string => readFileSync(join(place, 'address'), 'utf8')

async function withPlans(t: TestContext, plans = PLANS): Promise<World> {
  const world = await openWorld(t, openPlace)
  const { store, acme } = world
  await link(store, acme)
  const names = Array.from({ length: plans }, (_, i) => `p${i}`)
  await Promise.all(names.map((partnerPlanId) => sendPlan(store, acme, { partnerPlanId })))
  return world
}

async function ask<Row extends object>(world: World, sql: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: addressOf(world) })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

const HANDS = `from pg_locks where locktype = 'advisory' and classid = ${LOCK.pass} and granted
  and database = (select oid from pg_database where datname = current_database())`

async function handsAre(world: World, count: number): Promise<void> {
  for (let tried = 0; ; tried++) {
    const [row] = await ask<{ count: string }>(world, `select count(*) ${HANDS}`)
    if (Number(row?.count) === count) return
    assert.ok(tried < 200, `${row?.count} hands are at it, and not ${count}`)
    await pause(50)
  }
}

async function assertEachFiredOnce({ store }: World, plans = PLANS): Promise<void> {
  const all = await allExecutions(store)
  assert.equal(all.length, plans)
  assert.equal(new Set(all.map(({ planId }) => planId)).size, plans)
  assert.deepEqual(await store.findFaults(), [])
}

suite('PostgreSQL: hands that die', () => {
  test('a hand killed in the middle of a page loses nothing, and another ends its pass', async (t) => {
    const world = await withPlans(t)
    const { store, machine } = world
    const other = start(t, [addressOf(world)], {
      cwd: world.place,
      program: [process.execPath, join(import.meta.dirname, 'postgres-hand.ts')],
    })
    await other.prints('inside')
    let killed = false
    const random = (bytes: number) => {
      if (!killed) killed = other.child.kill('SIGKILL')
      return machine.random(bytes)
    }
    const joined = await store.joinPass()
    assert.ok(joined, 'there are pages left')
    await joined.pass(assert.fail)
    await joined.leave()
    const observe = async () => assert.fail('a pass that was joined asks no feed')
    const report = await runPass({ store, machine: { ...machine, random }, observe })
    assert.equal(report?.executionsCreated, PLANS - PAGE)
    await other.ended
    await handsAre(world, 0)
    const next = await tick(world, '60000')
    assert.equal(next.executionsCreated, PAGE)
    assert.deepEqual([next.whole?.executionsCreated, next.failed], [PAGE, []])
    await assertEachFiredOnce(world)
  })

  test('the hand that is left when another has died ends the pass', async (t) => {
    const world = await withPlans(t)
    const { store } = world
    const other = start(t, [addressOf(world)], {
      cwd: world.place,
      program: [process.execPath, join(import.meta.dirname, 'postgres-hand.ts')],
    })
    await other.prints('inside')
    const hand = await store.joinPass()
    assert.ok(hand)
    const { passId } = await hand.pass(assert.fail)
    other.child.kill('SIGKILL')
    await other.ended
    await handsAre(world, 1)
    const none = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
    assert.deepEqual(await hand.finish(passId, none), none)
    assert.equal((await store.readScheduler()).lastFinishedAt, world.now())
    assert.equal((await tick(world, '60000')).executionsCreated, PLANS)
    await assertEachFiredOnce(world)
  })

  test('what a pass announced whose every hand has died is sent by the next one that ends, once', async (t) => {
    const world = await withPlans(t)
    const { store, acme } = world
    await store.changeWebhook(acme, (seen, now) => register(seen, 'https://a.example/', 's', now))
    const other = start(t, [addressOf(world), String(PAGE + 3)], {
      cwd: world.place,
      program: [process.execPath, join(import.meta.dirname, 'postgres-hand.ts')],
    })
    await other.prints('inside')
    other.child.kill('SIGKILL')
    await other.ended
    await handsAre(world, 0)
    // This one ends, and then its process dies.
    assert.equal((await tick(world, '60000')).executionsCreated, PLANS - PAGE)
    const sent: number[] = []
    const wake = async () => {
      const report = await tick(world, '60000')
      assert.ok(report.whole)
      assert.equal(report.executionsCreated, 0)
      const deliver: Deliver = async ({ count }) => {
        sent.push(count)
        return { statusCode: 200, reason: null }
      }
      return wakePartners(report.whole, { store, deliver: async () => deliver, warn: assert.fail })
    }
    assert.deepEqual(await wake(), { sent: 2, failed: 0 })
    assert.deepEqual(sent, [PAGE, PLANS - PAGE])
    assert.deepEqual(await wake(), { sent: 0, failed: 0 })
  })

  test('a hand whose session the server has ended notices, and holds up nobody', async (t) => {
    const world = await withPlans(t, 3)
    const { store } = world
    const hand = await store.joinPass()
    assert.ok(hand)
    const { passId } = await store.beginPass({ price: price('60000'), source: 'test' })
    await ask(world, `select pg_terminate_backend(pid) ${HANDS}`)
    await handsAre(world, 0)
    const none = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
    await assert.rejects(hand.finish(passId, none), problem('storage_failed'))
    await hand.leave()
    assert.equal((await store.readScheduler()).lastFinishedAt, null)
    assert.equal((await tick(world, '60000')).executionsCreated, 3)
    await assertEachFiredOnce(world, 3)
  })

  test('a hand whose host has lost its power is gone within half a minute', async (t) => {
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
