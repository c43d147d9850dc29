// Months on PostgreSQL: the gate between writers and closers, whatever their clocks show, and calls that block nobody.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { usd } from '../../src/core/money.ts'
import { type Period, periodOf } from '../../src/core/month.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { HOUR_MS, type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { machineAt } from '../../src/machine.ts'
import { LOCK } from '../../src/store/postgres/server/locks.ts'
import type { Pool } from '../../src/store/postgres/server/pool.ts'
import type { Store } from '../../src/store/store.ts'
import { textOf } from '../simulation/system/record.ts'
import { until } from '../support/within.ts'
import { besideStore } from './postgres.ts'
import { AUDIT, enrolAll, filled, keyFor, link, poll, report, T0, tick } from './world.ts'

/** A process of its own: its connections, and its clock, which need not be right. */
type Host = { store: Store; clock: Instant }

const recordedAt = async ({ store }: Host, tenant: Tenant, executionId = ''): Promise<Instant> => {
  const made = await report(store, tenant, executionId, filled(usd('1')))
  assert.ok(made.kind === 'recorded')
  return made.trade.recordedAt
}

const tradesOf = ({ store }: Host, period: Period) => textOf(store, { ...period, final: true }, 'trades')

for (const whose of ['all', 'a tenant'] as const)
  test(`a write that has read its clock before midnight is waited for by the one that closes the month for ${whose}`, async (t) => {
    const { acmeLive, connect, hold, waiting } = await besideStore(t)
    const host = async () => {
      const one = { clock: T0 } as Host
      one.store = await connect(() => one.clock)
      return one
    }
    const [writer, closer, late] = await Promise.all([host(), host(), host()])
    await enrolAll(writer.store, acmeLive, ['p1', 'p2'])
    await tick({ store: writer.store, machine: machineAt(T0).machine }, '60000')
    const [first, second] = (await poll(writer.store, acmeLive)).map(({ executionId }) => executionId)
    assert.ok(first && second)
    const january = periodOf('2026-01')
    writer.clock = plus(january.end, -1)
    const { release } = await hold('select from windows for update')
    // It is past its gate with a time in January, and waits for the row.
    const written = recordedAt(writer, acmeLive, first)
    await until(WAIT_MS, 'a write that waits', async () => (await waiting(`locktype <> 'advisory'`)) > 0)
    closer.clock = plus(january.end, HOUR_MS)
    await closer.store.addPartner({ partnerSlug: 'carl', name: 'carl' }, AUDIT)
    let closed = false
    const closing = closer.store.fixPeriod(january, whose === 'all' ? null : acmeLive).then((period) => {
      closed = true
      return period
    })
    const closerWaits = async () => (await waiting(`locktype = 'advisory' and mode = 'ExclusiveLock'`)) > 0
    await until(WAIT_MS, 'a closer that waits', closerWaits)
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

const closed = async (pool: Pool): Promise<string[]> =>
  (await pool.query('select month from closed_months order by month')).rows.map(({ month }) => month)

test("every call of a partner's takes its turn with the partner's others alone", async (t) => {
  const { store, acmeLive: acme, bolt, hold, waiting } = await besideStore(t)
  for (const tenant of [acme, bolt]) await link(store, tenant)
  await store.addKey(keyFor(bolt, { sha256: HASH }), AUDIT)
  // Tables that the calls below need first.
  const { client, release } = await hold('lock table closed_months, trades, executions, tiers, webhooks')
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
  await until(WAIT_MS, 'the share of the partner is taken', async () => (await waiting()) >= 4)
  // These would be refused after ten seconds in the queue of a waiting closer.
  await link(store, bolt, 'u2')
  await store.listPartners()
  await client.query('lock table api_keys')
  const key = store.findKey(HASH)
  await until(WAIT_MS, 'a key is being looked up', async () => (await waiting()) >= 5)
  assert.equal(await waiting(), 5, 'four of the partner, and who looks up a key')
  await release()
  assert.ok(await key)
  await crowd
})

test('a partner that asks for months without end closes those before all partners once', async (t) => {
  const { setClock, store, acmeLive, pool, hold } = await besideStore(t)
  setClock(plus(JANUARY.end, MINUTE_MS))
  await store.addKey(keyFor(acmeLive), AUDIT)
  for (const period of BEFORE)
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, period), { ...period, final: true })
  assert.deepEqual(await closed(pool), ['2025-12'])
  assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, true)
  assert.deepEqual(await closed(pool), ['2025-12', JANUARY.month])
  // With the gate held by a write none of them would be answered, if they needed it.
  const { release } = await hold('select pg_advisory_xact_lock_shared($1, 0)', [LOCK.all])
  for (const period of [...BEFORE, JANUARY]) {
    assert.equal((await store.fixTenantPeriod(acmeLive, period)).final, true)
    assert.equal((await store.fixPeriod(period)).final, true)
  }
  // Nor is a month closed that no pass has confirmed.
  const february = periodOf('2026-02')
  setClock(plus(february.end, MINUTE_MS))
  assert.deepEqual(await store.fixTenantPeriod(acmeLive, february), { ...february, final: false })
  assert.deepEqual(await store.fixPeriod(february), { ...february, final: false })
  await release()
})

test("a partner's call does not wait for somebody's write that hangs, nor do the others behind it", async (t) => {
  const { setClock, store, acmeLive, bolt, hold, waiting } = await besideStore(t)
  setClock(plus(JANUARY.end, MINUTE_MS))
  await store.addKey(keyFor(acmeLive), AUDIT)
  const { release } = await hold('select pg_advisory_xact_lock_shared($1, 0)', [LOCK.all])
  // They would wait for the lock until the holder commits.
  const asked = Array.from({ length: CROWD }, () => store.fixTenantPeriod(acmeLive, JANUARY))
  for (const one of await Promise.all(asked)) assert.deepEqual(one, { ...JANUARY, final: false })
  await link(store, bolt)
  // An operator waits, and closes it for everybody.
  const operator = store.fixPeriod(JANUARY)
  await until(WAIT_MS, 'the operator waits', async () => (await waiting()) > 0)
  await release()
  assert.equal((await operator).final, true)
  assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, true)
})
