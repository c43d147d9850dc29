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
import { chanceOf } from '../simulation/chance.ts'
import { textOf } from '../simulation/system/record.ts'
import { until } from '../support/within.ts'
import { besideStore } from './postgres.ts'
import { AUDIT, enrolAll, failed, filled, keyFor, link, poll, report, sendPlan, T0, tick } from './world.ts'

/** A process of its own: its connections, and its clock, which need not be right. */
type Host = { store: Store; clock: Instant }

/**
 * So many executions that wait to be confirmed, all of one window: their confirmations wait for each other behind the
 * gate.
 */
async function supply(pool: Pool, { tenantId }: Tenant, count: number): Promise<string[]> {
  const said = await pool.query(
    `with u as (
       insert into users (tenant_id, partner_user_id, consent_version, consent_timestamp, status, created_at, updated_at)
       values ($1::bigint, 'u', 'v1', 0, 'linked', 0, 0) returning user_id),
     p as (
       insert into plans (tenant_id, user_id, partner_plan_id, amount_usd, frequency, smart_timing_enabled, start_date,
         status, created_at, updated_at)
       select $1::bigint, user_id, 'p', 1e12, 'daily', 1, 0, 'paused', 0, 0 from u returning plan_id),
     w as (
       insert into windows (plan_id, window_start, window_end, budget, reserved)
       select plan_id, 0, 86400000, 1e12, $2::int * 1e8 from p returning window_id, plan_id)
     insert into executions (execution_id, tenant_id, plan_id, window_id, window_start, tranche_index, amount_usd,
       trigger_kind, slot, units, created_at, status, delivered_count, lease_expires_at)
     select 'exec_' || md5($1::bigint || ' ' || n), $1::bigint, plan_id, window_id, 0, n, 1e8, 'clock', n, 1, 0, 'sent', 1, 0
     from w, generate_series(1, $2::int) n returning execution_id`,
    [tenantId, count],
  )
  return said.rows.map(({ execution_id }) => execution_id as string)
}

async function hostOn(connect: (clock: () => Instant) => Promise<Store>): Promise<Host> {
  const host = { clock: T0 } as Host
  host.store = await connect(() => host.clock)
  return host
}

const recordedAt = async ({ store }: Host, tenant: Tenant, executionId = '', fill = true) => {
  const made = await report(store, tenant, executionId, fill ? filled(usd('1')) : failed())
  assert.ok(made.kind === 'recorded')
  return made.trade.recordedAt
}

const tradesOf = ({ store }: Host, period: Period) => textOf(store, { ...period, final: true }, 'trades')

/** The executions in an export, which names each in one line. */
const idsIn = (text: string): string[] => text.match(/exec_[0-9a-f]{32}/g)?.sort() ?? []

/** The executions with trades in these months, read past the exports; a trade's digest shows that it is unchanged. */
async function idsByMonth(pool: Pool, months: string[]): Promise<Map<string, string[]>> {
  const { rows } = await pool.query(
    `select month, array_agg(execution_id order by execution_id) as ids
     from trades, to_char(to_timestamp(recorded_at / 1000.0) at time zone 'UTC', 'YYYY-MM') as month
     where month = any($1) group by month`,
    [months],
  )
  const found = new Map(rows.map(({ month, ids }) => [month, ids]))
  return new Map(months.map((month) => [month, found.get(month) ?? []]))
}

for (const whose of ['all', 'a tenant'] as const)
  test(`a write that has read its clock before midnight is waited for by the one that closes the month for ${whose}`, async (t) => {
    const { acmeLive, connect, hold, waiting } = await besideStore(t)
    const [writer, closer, late] = await Promise.all([hostOn(connect), hostOn(connect), hostOn(connect)])
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

const ROUNDS = 120
const PER_ROUND = 4
const MOVES = { least: 3, most: 6 }
/** The share of rounds that read a reported month again at once; the last one reads all of them. */
const READ_AGAIN = 0.25
const AROUND_MS = 40
const SEED = 20260131

test('a month that was reported stays as it was, however writers, closers and exporters meet at midnight', async (t) => {
  const chance = chanceOf(SEED)
  const { acme, acmeLive, bolt, connect, pool, hold } = await besideStore(t)
  const hosts = await Promise.all(Array.from({ length: 5 }, () => hostOn(connect)))
  const [first] = hosts as [Host]
  const tenants = [acmeLive, bolt, acme]
  const left = new Map<Tenant, string[]>()
  for (const tenant of tenants) left.set(tenant, await supply(pool, tenant, ROUNDS * PER_ROUND))
  const closed = new Map<string, string>()
  const seen = { closedInTheMiddle: 0, datedBehind: 0 }

  /** A confirmation: it may not be dated in a month that was reported before it began. */
  async function write(host: Host, tenant: Tenant, period: Period, fills = true): Promise<void> {
    const isOver = closed.has(period.month)
    const at = await recordedAt(host, tenant, left.get(tenant)?.pop() ?? '', fills)
    if (isOver || at >= period.end) seen.datedBehind += 1
    if (isOver) assert.ok(at >= period.end, `${at} is in ${period.month}, which was reported`)
  }

  /** A month reported as final has its bytes from then on. */
  async function close(host: Host, period: Period, tenant: Tenant | null): Promise<boolean> {
    const { store } = host
    const fixed = await (tenant ? store.fixTenantPeriod(tenant, period) : store.fixPeriod(period))
    if (!fixed.final) return false
    const text = await textOf(host.store, fixed, 'trades')
    const known = closed.get(period.month)
    if (known === undefined) closed.set(period.month, text)
    else assert.equal(text, known, `${period.month} has changed`)
    return true
  }

  /** Holds a row that writers need, between their clock and their commit. */
  async function holdRow({ tenantId }: Tenant, forMs: number): Promise<void> {
    const plans = 'select plan_id from plans where tenant_id = $1'
    const { release } = await hold(`select from windows where plan_id in (${plans}) for update`, [tenantId])
    await sleep(forMs)
    await release()
  }

  /** Drawn at once, done after a moment. */
  async function move(period: Period): Promise<void> {
    const [host, tenant, moment] = [chance.pick(hosts), chance.pick(tenants), chance.between(0, 8)]
    const [kind, fills, forAll] = [chance.next(), chance.happens(0.8), chance.happens(0.6)]
    const heldMs = chance.between(2, 15)
    if (moment > 0) await sleep(moment)
    if (kind < 0.4) await write(host, tenant, period, fills)
    else if (kind < 0.75) await close(host, period, forAll ? null : tenant)
    else if (kind < 0.85) await host.store.addKey(keyFor(tenant), AUDIT)
    else await holdRow(tenant, heldMs)
  }

  for (let round = 0; round < ROUNDS; round++) {
    const period = periodOf(`${2026 + Math.floor(round / 12)}-${String((round % 12) + 1).padStart(2, '0')}`)
    for (const host of hosts) host.clock = plus(period.end, chance.between(-AROUND_MS, AROUND_MS))
    await Promise.all(Array.from({ length: chance.between(MOVES.least, MOVES.most) }, () => move(period)))
    if (closed.has(period.month)) seen.closedInTheMiddle += 1
    // By now it is over for all, and somebody's clock is far behind.
    first.clock = plus(period.end, HOUR_MS)
    await first.store.addKey(keyFor(acme), AUDIT)
    assert.ok(await close(first, period, null))
    const behind = chance.pick(hosts)
    behind.clock = plus(period.end, -chance.between(1, 20 * HOUR_MS))
    await write(behind, chance.pick(tenants), period)
    if (chance.happens(READ_AGAIN)) assert.ok(await close(chance.pick(hosts), period, null))
  }
  const reported = new Map([...closed].map(([month, text]) => [month, idsIn(text)]))
  assert.deepEqual(await idsByMonth(pool, [...closed.keys()]), reported)
  for (const [month, text] of closed)
    if (chance.happens(READ_AGAIN / 10)) assert.equal(await tradesOf(first, periodOf(month)), text)
  assert.ok(seen.closedInTheMiddle > ROUNDS / 40 && seen.datedBehind > ROUNDS, JSON.stringify(seen))
  // The supply has plans without a schedule.
  const faults = (await first.store.findFaults()).filter(({ kind }) => kind !== 'plan_window')
  assert.deepEqual(faults, [])
  const { rows } = await pool.query(
    'select deadlocks from pg_stat_database where datname = current_database()',
  )
  assert.equal((rows[0] as { deadlocks: bigint }).deadlocks, 0n)
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
    () => sendPlan(store, acme, { partnerPlanId: 'p1' }),
  ]
  const crowd = Promise.all(calls.flatMap((call) => Array.from({ length: CROWD }, call)))
  await until(WAIT_MS, 'the share of the partner is taken', async () => (await waiting()) >= 4)
  // These would be refused after ten seconds in the queue of a waiting closer.
  await link(store, bolt, 'u2')
  await store.readPlans(bolt, page)
  await store.listPartners()
  await store.readScheduler()
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
  // A write holds the gate: a reading that needed it would not be answered.
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
