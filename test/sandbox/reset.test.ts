// Wiping a test environment: all of it, nothing but it, and nothing left dangling.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { DAY_MS } from '../../src/core/time.ts'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { WIPED } from '../../src/store/shared/sandboxes.ts'
import { COUNTS } from '../../src/store/sqlite/pass.ts'
import { assertSound, confirmPath, DUE, link, PRICE, plan, succeed } from '../http/steps.ts'
import { AUDIT, fill } from '../support/service.ts'
import { assertSame, everythingOf, startBench } from './bench.ts'

/** What hangs on a tenant and outlives a reset. */

const ALL_WIPED = [...WIPED, ...COUNTS]
const KEPT = ['api_keys', 'polls', 'webhooks', 'sandboxes', 'tenants', 'used_before_reset']

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
  assert.deepEqual(tables.filter(hangs).sort(), [...wiped, ...KEPT].sort())
  for (const [i, table] of wiped.entries()) {
    const tooSoon = (parents.get(table) ?? []).filter((parent) => wiped.slice(0, i).includes(parent))
    assert.deepEqual(tooSoon, [], `${table} goes before what it refers to`)
  }
})

test('a reset takes all of the test environment, and nothing else of anybody', async (t) => {
  const bench = await startBench(t)
  const live = await bench.issueKey('acme', 'live')
  const other = await bench.issueKey('bolt', 'test')
  for (const key of [bench.key, live, other]) {
    await link(bench, 'u1', { key })
    await plan(bench, 'u1', 'p1', {}, { key })
  }
  await bench.tick(PRICE)
  await succeed(bench, 'POST', '/partner/v1/webhooks', { url: 'https://127.0.0.1:1/hook' })
  for (const key of [bench.key, live, other]) {
    const [due] = await succeed(bench, 'GET', DUE, undefined, { key })
    await succeed(bench, 'POST', confirmPath(due.execution_id), fill('o1', '10.00'), { key })
  }
  const acme = await bench.tenant('acme', 'test')
  await bench.goAhead(acme, 2 * DAY_MS, PRICE)
  const [late] = await succeed(bench, 'GET', DUE)
  await plan(bench, 'u1', 'p1', { status: 'cancelled' })
  assert.equal((await bench.call('POST', confirmPath(late.execution_id), fill('o2', '10.00'))).status, 409)

  const others = [await bench.tenant('acme', 'live'), await bench.tenant('bolt', 'test')]
  const before = await everythingOf(bench, others)
  const wiped = await bench.store.resetSandbox(acme, { ...AUDIT, action: 'sandbox.reset' })
  assert.deepEqual({ ...wiped, executions: 0 }, { users: 1, plans: 1, windows: 3, executions: 0, trades: 1 })
  assertSame(await everythingOf(bench, others), before, 'the others')
  for (const [table, rows] of ALL_WIPED) {
    const left = await bench.rows(
      `select * from ${table} where ${rows.replace(':tenant', String(acme.tenantId))}`,
    )
    assert.deepEqual(left, [], table)
  }
  await assertSound(bench)
  assert.equal((await bench.rows("select * from audit where action = 'sandbox.reset'")).length, 1)
  assert.equal((await succeed(bench, 'GET', '/partner/v1/webhooks')).url, 'https://127.0.0.1:1/hook')

  // It begins again under the same names, later than anything it had.
  await link(bench, 'u1')
  const fresh = await plan(bench, 'u1', 'p1')
  assert.equal(fresh.created_at, '2026-01-07T00:00:00.000Z')
  bench.advance(1)
  await bench.fire(acme, 'p1')
  await assertSound(bench)
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
  // Foreign keys are back, after a failure and after a success: what refers to nothing is refused again.
  const { record } = issueKey({ tenant: { ...acme, tenantId: 999 }, label: null, lifetimeMs: null }, machine)
  await assert.rejects(bench.store.addKey(record, AUDIT), /FOREIGN KEY/)
  await bench.store.resetSandbox(acme, AUDIT)
  await assert.rejects(bench.store.addKey(record, AUDIT), /FOREIGN KEY/)
  await assertSound(bench)
})
