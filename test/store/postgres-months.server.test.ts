// Calls of partners about months, on a server: they keep nobody from their connection, and nobody from writing.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { periodOf } from '../../src/core/month.ts'
import { type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { openStore } from '../../src/store/postgres/open.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import { openPool, type Pool } from '../../src/store/postgres/server/pool.ts'
import { temporaryFolder } from '../support/database.ts'
import { ownDatabase } from '../support/postgres-server.ts'
import { hasTool } from '../support/tools.ts'
import { until } from '../support/within.ts'
import { AUDIT, keyFor, link, populate, T0 } from './world.ts'

/** Of each kind of call: more than there are connections. */
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
  if (!hasTool(t, 'postgres')) return
  const { store, acmeLive: acme, bolt, pool, holder } = await openOwn(t)
  for (const tenant of [acme, bolt]) await link(store, tenant)
  await store.addKey(keyFor(bolt, { sha256: HASH }), AUDIT)
  await holder.query('begin')
  // What each of the calls below asks for first.
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
  // These would be refused after ten seconds in the line of anybody who waits.
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
  if (!hasTool(t, 'postgres')) return
  const { host, store, acmeLive, pool, holder } = await openOwn(t)
  host.now = plus(JANUARY.end, MINUTE_MS)
  await store.addKey(keyFor(acmeLive), AUDIT)
  for (const period of BEFORE)
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, period), { ...period, final: true })
  assert.deepEqual(await closed(pool), ['2025-12'])
  assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, true)
  assert.deepEqual(await closed(pool), ['2025-12', JANUARY.month])
  // With the gate held by a write none of them would be answered, were it asked for.
  await holder.query('begin')
  await holder.query('select pg_advisory_xact_lock_shared($1, 0)', [LOCK.all])
  for (const period of [...BEFORE, JANUARY]) {
    assert.equal((await store.fixTenantPeriod(acmeLive, period)).final, true)
    assert.equal((await store.fixPeriod(period)).final, true)
  }
  // Nor one that no pass has confirmed.
  const february = periodOf('2026-02')
  host.now = plus(february.end, MINUTE_MS)
  assert.deepEqual(await store.fixTenantPeriod(acmeLive, february), { ...february, final: false })
  assert.deepEqual(await store.fixPeriod(february), { ...february, final: false })
  await holder.query('commit')
})

test("a partner's call does not wait for somebody's write that hangs, nor do the others behind it", async (t) => {
  if (!hasTool(t, 'postgres')) return
  const { host, store, acmeLive, bolt, pool, holder } = await openOwn(t)
  host.now = plus(JANUARY.end, MINUTE_MS)
  await store.addKey(keyFor(acmeLive), AUDIT)
  await holder.query('begin')
  await holder.query('select pg_advisory_xact_lock_shared($1, 0)', [LOCK.all])
  // The lock would be waited for until the holder commits.
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
