// Sandbox time as a partner and an operator see it: tranches, leases, dates; data that it must not move; and the wipe.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { price } from '../../src/core/money.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { SANDBOX_UNTIL } from '../../src/core/sandbox.ts'
import { DAY_MS, formatInstant, HOUR_MS, plus } from '../../src/core/time.ts'
import { advanceSandbox, STOP_PAGE_PLANS } from '../../src/engine/sandbox.ts'
import { issueKey } from '../../src/keys.ts'
import { machine, machineAt } from '../../src/machine.ts'
import { WIPED } from '../../src/store/shared/sandboxes.ts'
import { COUNTS } from '../../src/store/sqlite/pass.ts'
import type { Store } from '../../src/store/store.ts'
import { assertSound, executionsOf, ledgerOf, link, PRICE, plan, poll, windowsOf } from '../http/steps.ts'
import { sendPlan } from '../store/world.ts'
import { AUDIT, T0 } from '../support/service.ts'
import { assertSame, type Bench, everythingOf, startBench } from './bench.ts'

async function withPlan(bench: Bench, more = {}) {
  await link(bench, 'u1')
  await plan(bench, 'u1', 'p1', more)
  return bench.tenant('acme', 'test')
}

test('a week shows the windows and tranches of a week, each dated in it', async (t) => {
  const bench = await startBench(t)
  const acme = await withPlan(bench)
  const advanced = await bench.goAhead(acme, 7 * DAY_MS, PRICE)
  assert.equal(advanced.windowsRolled, 7)
  assert.equal(advanced.after.now, T0 + 7 * DAY_MS)
  const windows = await windowsOf(bench, 'p1')
  assert.deepEqual(
    windows.map((window) => ledgerOf(window)),
    [...Array(7).fill('60.00 0.00 0.00 ended'), '10.00 0.00 0.00 open'],
  )
  const executions = await executionsOf(bench, 'p1')
  assert.equal(executions.length, advanced.executionsCreated)
  for (const { createdAt, windowStart } of executions) {
    assert.ok(windowStart <= createdAt && createdAt < windowStart + DAY_MS, formatInstant(createdAt))
  }
  // Ids rise in the order of creation, and none is from next week.
  const ids = executions.map(({ executionId }) => executionId)
  assert.deepEqual([...ids].sort(), ids)
  assert.ok(ids.every((id) => Number.parseInt(id.slice(5, 17), 16) === T0))
  await assertSound(bench)
})

/** An advance by an hour, at a price that fires. */
const anHour = (store: Store, tenant: Tenant) => ({
  ...{ store, machine: machineAt(T0).machine, tenant, byMs: HOUR_MS },
  ...{ price: price(PRICE), audit: AUDIT, onProgress: () => {} },
})

test('an advance writes few plans at a time, because live calls wait for each write', async (t) => {
  const bench = await startBench(t)
  const acme = await withPlan(bench)
  for (let i = 0; i < 2 * STOP_PAGE_PLANS; i++)
    await sendPlan(bench.store, acme, { partnerPlanId: `more-${i}` })
  const pages: number[] = []
  const { moveSandbox, changeDuePlans } = bench.store
  const store: Store = {
    ...bench.store,
    moveSandbox: (tenant, byMs, page) => {
      pages.push(page.planIds.length)
      return moveSandbox(tenant, byMs, page)
    },
    changeDuePlans: (passId, planIds, decide) => {
      pages.push(planIds.length)
      return changeDuePlans(passId, planIds, decide)
    },
  }
  const { executionsCreated } = await advanceSandbox(anHour(store, acme))
  assert.equal(executionsCreated, 2 * STOP_PAGE_PLANS + 1)
  assert.equal(Math.max(...pages), STOP_PAGE_PLANS)
  await assertSound(bench)
})

test('an advance that fails among the plans of one instant tells what the others have fired', async (t) => {
  const bench = await startBench(t)
  const acme = await withPlan(bench)
  for (let i = 0; i < STOP_PAGE_PLANS; i++) await sendPlan(bench.store, acme, { partnerPlanId: `more-${i}` })
  const store: Store = { ...bench.store, changeDuePlans: () => Promise.reject(new Error('a damaged row')) }
  const told: number[] = []
  const onEnd = async ({ executionsCreated }: { executionsCreated: number }) => told.push(executionsCreated)
  await assert.rejects(advanceSandbox({ ...anHour(store, acme), onEnd }), /a damaged row/)
  assert.deepEqual(told, [STOP_PAGE_PLANS])
})

test('the same prices at the same times fire the same tranches as the scheduler would', async (t) => {
  const [bench, ticked] = [await startBench(t), await startBench(t)]
  const acme = await withPlan(bench, { frequency: 'weekly', amount_usd: '500.00' })
  await withPlan(ticked, { frequency: 'weekly', amount_usd: '500.00' })
  await bench.goAhead(acme, 3 * DAY_MS, PRICE)
  for (let hour = 0; hour <= 72; hour++) {
    ticked.setClock(plus(T0, hour * HOUR_MS))
    await ticked.tick(PRICE)
  }
  const tale = async (of: Bench) =>
    (await executionsOf(of, 'p1')).map(({ createdAt, amount, firing }) => [createdAt, amount, firing.trigger])
  assert.deepEqual(await tale(bench), await tale(ticked))
})

test('ticks go on in the sandbox from where its clock stands', async (t) => {
  const bench = await startBench(t)
  const acme = await withPlan(bench)
  await bench.goAhead(acme, 30 * DAY_MS + HOUR_MS, PRICE)
  const before = (await executionsOf(bench, 'p1')).length
  bench.setClock(plus(T0, 8 * HOUR_MS))
  const report = await bench.tick(PRICE)
  assert.equal(report.at, T0 + 8 * HOUR_MS)
  assert.equal(report.executionsCreated, 1)
  const last = (await executionsOf(bench, 'p1')).at(before)
  assert.equal(last?.createdAt, T0 + 30 * DAY_MS + 9 * HOUR_MS)
  // The price is the present one, not that of 30 days ago.
  assert.equal(last?.firing.price, 60000n * 100_000_000n)
  assert.equal((await bench.tick(PRICE)).executionsCreated, 0)
})

test('a key does not expire because the clock of the sandbox was moved', async (t) => {
  const bench = await startBench(t)
  const acme = await bench.tenant('acme', 'test')
  const { record, secret } = issueKey({ tenant: acme, label: null, lifetimeMs: DAY_MS }, machine)
  await bench.store.addKey(record, AUDIT)
  await bench.goAhead(acme, 300 * DAY_MS)
  assert.equal((await bench.call('GET', '/partner/v1/me', undefined, { key: secret })).status, 200)
  bench.setClock(plus(T0, DAY_MS))
  assert.equal((await bench.call('GET', '/partner/v1/me', undefined, { key: secret })).status, 401)
})

test('no live tenant can be given a time of its own, and no clock goes back', async (t) => {
  const bench = await startBench(t)
  const live = await bench.tenant('acme', 'live')
  const acme = await withPlan(bench)
  await bench.goAhead(acme, DAY_MS)
  const db = new Database(bench.file)
  t.after(() => db.close())
  const fails = (sql: string) =>
    assert.throws(() => db.exec(sql), /constraint|only goes on|append-only/i, sql)
  const values = (environment: string) => `values (${live.tenantId}, '${environment}', ${DAY_MS})`
  for (const environment of ['live', 'test'])
    fails(`insert into sandboxes (tenant_id, environment, offset_ms) ${values(environment)}`)
  fails(`update sandboxes set tenant_id = ${live.tenantId}`)
  fails('update sandboxes set offset_ms = offset_ms - 1')
  fails(`update sandboxes set offset_ms = ${SANDBOX_UNTIL + 1}`)
  fails('delete from sandboxes')
  fails('delete from consents')
})

test('a poll and the backlog count the same, and no sandbox looks late', async (t) => {
  const bench = await startBench(t)
  const acme = await withPlan(bench)
  await bench.goAhead(acme, HOUR_MS, PRICE)
  assert.equal([...(await poll(bench)).values()].flat().length, 1)
  const now = bench.now()
  const counted = async () => {
    const { test, live } = await bench.store.readBacklog(now)
    return [test.due, live.oldestDueAt]
  }
  assert.deepEqual(await counted(), [0, null])
  // The lease is over in the tenant's own time, hours before it would be in real time.
  await bench.goAhead(acme, HOUR_MS, PRICE)
  assert.deepEqual(await counted(), [1, null])
  assert.equal([...(await poll(bench)).values()].flat().length, 1)
})

// Wiping a test environment: all of it, nothing else, and no dangling reference.

const ALL_WIPED = [...WIPED, ...COUNTS]
/** Tables of a tenant that a reset leaves alone. */
const KEPT = ['api_keys', 'polls', 'webhooks', 'sandboxes', 'tenants', 'used_before_reset']
/** Tables that nobody writes any more. */
const EMPTY = ['open_counts']

test('every table that hangs on a tenant is either wiped or kept, children before their parents', async (t) => {
  const bench = await startBench(t)
  const schema = await bench.rows("select name from sqlite_schema where type = 'table'")
  const tables = schema.map(({ name }) => String(name))
  const parents = new Map<string, string[]>()
  for (const table of tables) {
    const keys = await bench.rows(`pragma foreign_key_list(${table})`)
    parents.set(
      table,
      keys.map((key) => String(key.table)),
    )
  }
  const hangs = (table: string): boolean =>
    table === 'tenants' || (parents.get(table) ?? []).some((parent) => parent !== table && hangs(parent))
  const wiped = ALL_WIPED.map(([table]) => table)
  assert.deepEqual(tables.filter(hangs).sort(), [...wiped, ...KEPT, ...EMPTY].sort())
  for (const [i, table] of wiped.entries()) {
    const tooSoon = (parents.get(table) ?? []).filter((parent) => wiped.slice(0, i).includes(parent))
    assert.deepEqual(tooSoon, [], `${table} goes before what it refers to`)
  }
})

test('a reset that fails half-way has not happened', async (t) => {
  const bench = await startBench(t)
  await link(bench, 'u1')
  await plan(bench, 'u1', 'p1')
  const acme = await bench.tenant('acme', 'test')
  await bench.goAhead(acme, DAY_MS, PRICE)
  const db = new Database(bench.file)
  t.after(() => db.close())
  db.exec("create trigger stop before delete on users begin select raise(abort, 'stop') ; end")
  const before = await everythingOf(bench, [acme])
  await assert.rejects(bench.store.resetSandbox(acme, AUDIT), /stop/)
  assertSame(await everythingOf(bench, [acme]), before, 'the sandbox')
  db.exec('drop trigger stop')
  // Foreign keys are enforced again, after a failure and after a success.
  const { record } = issueKey({ tenant: { ...acme, tenantId: 999 }, label: null, lifetimeMs: null }, machine)
  await assert.rejects(bench.store.addKey(record, AUDIT), /FOREIGN KEY/)
  await bench.store.resetSandbox(acme, AUDIT)
  await assert.rejects(bench.store.addKey(record, AUDIT), /FOREIGN KEY/)
  await assertSound(bench)
})
