// Months on PostgreSQL: the gate between writers and closers, whatever their clocks show, and calls that block nobody.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { usd } from '../../src/core/money.ts'
import { type Period, periodOf } from '../../src/core/month.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openPool, type Pool } from '../../src/store/postgres/server/pool.ts'
import type { Store } from '../../src/store/store.ts'
import { textOf } from '../simulation/system/record.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { until } from '../support/within.ts'
import { AUDIT, enrol, filled, keyFor, link, poll, populate, report, T0, tick } from './world.ts'

/** A process of its own: its connections, and its clock, which need not be right. */
type Host = { store: Store; clock: Instant }

async function openHosts(t: TestContext, count: number) {
  const url = await ownDatabase(join(temporaryFolder(t), 'gate'))
  const hosts: Host[] = []
  for (let i = 0; i < count; i++) {
    const host = { clock: T0 } as Host
    host.store = await openStore(url, { clock: () => host.clock, create: false })
    t.after(() => host.store.close())
    hosts.push(host)
  }
  const pool = openPool(url, { max: 2 })
  // A connection that a failed test has not returned is not waited for.
  t.after(() => {
    pool.end()
  })
  return { hosts, pool }
}

const recordedAt = async ({ store }: Host, tenant: Tenant, executionId = ''): Promise<Instant> => {
  const made = await report(store, tenant, executionId, filled(usd('1')))
  assert.ok(made.kind === 'recorded')
  return made.trade.recordedAt
}

const tradesOf = ({ store }: Host, period: Period) => textOf(store, { ...period, final: true }, 'trades')

/** Whether somebody waits for an advisory lock alone. */
const closerWaits = async (pool: Pool): Promise<boolean> =>
  (
    await pool.query(
      `select 1 from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and not granted`,
    )
  ).rows.length > 0

for (const whose of ['all', 'a tenant'] as const)
  test(`a write that has read its clock before midnight is waited for by the one that closes the month for ${whose}`, async (t) => {
    const { hosts, pool } = await openHosts(t, 3)
    const [writer, closer, late] = hosts as [Host, Host, Host]
    const { acmeLive } = await populate(closer.store)
    for (const partnerPlanId of ['p1', 'p2']) await enrol(writer.store, acmeLive, { partnerPlanId })
    await tick({ store: writer.store, machine: machineAt(T0).machine }, '60000')
    const [first, second] = (await poll(writer.store, acmeLive)).map(({ executionId }) => executionId)
    assert.ok(first && second)
    const january = periodOf('2026-01')
    writer.clock = plus(january.end, -1)
    const blocker = await pool.connect()
    let released = false
    const release = async () => {
      if (released) return
      released = true
      await blocker.query('commit')
      blocker.release()
    }
    t.after(release)
    await blocker.query('begin')
    await blocker.query('select from windows for update')
    // It is past its gate with a time in January, and waits for the row.
    const written = recordedAt(writer, acmeLive, first)
    const waitsForRow = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and wait_event <> 'advisory'`
    await until(WAIT_MS, 'a write that waits', async () => (await pool.query(waitsForRow)).rows.length > 0)
    closer.clock = plus(january.end, HOUR_MS)
    await closer.store.addPartner({ partnerSlug: 'carl', name: 'carl' }, AUDIT)
    let closed = false
    const closing = closer.store.fixPeriod(january, whose === 'all' ? null : acmeLive).then((period) => {
      closed = true
      return period
    })
    await until(WAIT_MS, 'a closer that waits', () => closerWaits(pool))
    // A later write reads its clock after the closer, whatever it shows.
    late.clock = plus(january.end, -HOUR_MS)
    const after = recordedAt(late, acmeLive, second)
    await sleep(200)
    assert.equal(closed, false)
    await release()
    assert.equal(await written, plus(january.end, -1))
    assert.equal((await closing).final, true)
    const text = await tradesOf(closer, january)
    assert.match(text, new RegExp(first))
    assert.equal(await after, january.end)
    assert.equal(await tradesOf(closer, january), text)
  })

// Calls of partners about months, on a server: they block nobody's connection and nobody's writes.

/** For each kind of call: more than there are connections. */
const CROWD = 12
const WAIT_MS = 9_000
const HASH = 'b'.repeat(64)
const JANUARY = periodOf('2026-01')
const BEFORE = ['0001-01', '0400-02', '1969-12', '2024-02', '2025-11', '2025-12'].map(periodOf)

async function openOwn(t: TestContext) {
  const url = await ownDatabase(temporaryFolder(t))
  const host = { now: T0 as Instant }
  const store = await openStore(url, { clock: () => host.now, create: false })
  t.after(() => store.close())
  const tenants = await populate(store)
  const pool = openPool(url, { max: 2 })
  const holder = await pool.connect()
  t.after(() => {
    holder.release(true)
    return pool.end()
  })
  return { host, store, ...tenants, pool, holder }
}

/** How many sessions wait for a lock. */
const waiting = async (pool: Pool): Promise<number> =>
  Number((await pool.query('select count(*) as n from pg_locks where not granted')).rows[0].n)

const closed = async (pool: Pool): Promise<string[]> =>
  (await pool.query('select month from closed_months order by month')).rows.map(({ month }) => month)

test("every call of a partner's takes its turn with the partner's others alone", async (t) => {
  const { store, acmeLive: acme, bolt, pool, holder } = await openOwn(t)
  for (const tenant of [acme, bolt]) await link(store, tenant)
  await store.addKey(keyFor(bolt, { sha256: HASH }), AUDIT)
  await holder.query('begin')
  // Tables that the calls below need first.
  await holder.query('lock table closed_months, trades, executions, tiers, webhooks')
  const activity = { ...JANUARY, final: false }
  const page = { after: null, limit: 9 }
  const calls: (() => Promise<unknown>)[] = [
    () => store.fixTenantPeriod(acme, JANUARY),
    () => store.readTenantLines(acme, activity, page),
    () => store.readActivity(acme, activity),
    () => store.readTerms(acme, JANUARY.month),
    () => store.readExecutions(acme, { after: { createdAt: T0, executionId: '' }, limit: 9 }),
    () => store.findWebhook(acme),
    () => store.markKeyUsed(acme, 'key_1'),
  ]
  const crowd = Promise.all(calls.flatMap((call) => Array.from({ length: CROWD }, call)))
  await until(WAIT_MS, 'the share of the partner is taken', async () => (await waiting(pool)) >= 4)
  // These would be refused after ten seconds in the queue of a waiting closer.
  await link(store, bolt, 'u2')
  await store.listPartners()
  await holder.query('lock table api_keys')
  const key = store.findKey(HASH)
  await until(WAIT_MS, 'a key is being looked up', async () => (await waiting(pool)) >= 5)
  assert.equal(await waiting(pool), 5, 'four of the partner, and who looks up a key')
  await holder.query('commit')
  assert.ok(await key)
  await crowd
})

test('a partner that asks for months without end closes those before all partners once', async (t) => {
  const { host, store, acmeLive, pool, holder } = await openOwn(t)
  host.now = plus(JANUARY.end, MINUTE_MS)
  await store.addKey(keyFor(acmeLive), AUDIT)
  for (const period of BEFORE)
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, period), { ...period, final: true })
  assert.deepEqual(await closed(pool), ['2025-12'])
  assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, true)
  assert.deepEqual(await closed(pool), ['2025-12', JANUARY.month])
  // With the gate held by a write none of them would be answered, if they needed it.
  await holder.query('begin')
  await holder.query('select pg_advisory_xact_lock_shared($1, 0)', [LOCK.all])
  for (const period of [...BEFORE, JANUARY]) {
    assert.equal((await store.fixTenantPeriod(acmeLive, period)).final, true)
    assert.equal((await store.fixPeriod(period)).final, true)
  }
  // Nor is a month closed that no pass has confirmed.
  const february = periodOf('2026-02')
  host.now = plus(february.end, MINUTE_MS)
  assert.deepEqual(await store.fixTenantPeriod(acmeLive, february), { ...february, final: false })
  assert.deepEqual(await store.fixPeriod(february), { ...february, final: false })
  await holder.query('commit')
})

test("a partner's call does not wait for somebody's write that hangs, nor do the others behind it", async (t) => {
  const { host, store, acmeLive, bolt, pool, holder } = await openOwn(t)
  host.now = plus(JANUARY.end, MINUTE_MS)
  await store.addKey(keyFor(acmeLive), AUDIT)
  await holder.query('begin')
  await holder.query('select pg_advisory_xact_lock_shared($1, 0)', [LOCK.all])
  // They would wait for the lock until the holder commits.
  const asked = Array.from({ length: CROWD }, () => store.fixTenantPeriod(acmeLive, JANUARY))
  for (const one of await Promise.all(asked)) assert.deepEqual(one, { ...JANUARY, final: false })
  await link(store, bolt)
  // An operator waits, and closes it for everybody.
  const operator = store.fixPeriod(JANUARY)
  await until(WAIT_MS, 'the operator waits', async () => (await waiting(pool)) > 0)
  await holder.query('commit')
  assert.equal((await operator).final, true)
  assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, true)
})
