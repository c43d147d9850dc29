// Keys under a wrong clock: a revoked one is dead, and a lifetime is what was asked for.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { periodOf } from '../../src/core/month.ts'
import { DAY_MS, HOUR_MS, monthOf, plus } from '../../src/core/time.ts'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { AUDIT, me, startService, T0 } from '../support/service.ts'
import { now, openShop, type Shop } from './wrong-clock.ts'

const issue = async (shop: Shop, shiftMs: number, ...more: string[]) =>
  JSON.parse((await shop.run(shiftMs, '--json', 'key', 'create', 'acme', '--env', 'live', ...more)).out)

test('a key revoked by a clock a day ahead is refused by one that is right, and by one a day behind', async (t) => {
  const shop = await openShop(t)
  const { key, key_id } = await issue(shop, 0)
  const right = await shop.serve(0)
  const behind = await shop.serve(-DAY_MS)
  assert.deepEqual([(await me(right.url, key)).status, (await me(behind.url, key)).status], [200, 200])
  const said = JSON.parse((await shop.runApart(DAY_MS, '--json', 'key', 'revoke', key_id)).out)
  assert.equal(said.usable, false)
  assert.deepEqual([(await me(right.url, key)).status, (await me(behind.url, key)).status], [401, 401])
  const [listed] = JSON.parse((await shop.run(-DAY_MS, '--json', 'key', 'list', 'acme')).out)
  assert.equal(listed.usable, false)
  assert.equal((await shop.run(-DAY_MS, 'key', 'rotate', key_id)).code, 5)
})

test('a report by a clock 40 days ahead moves neither the present nor the end of a key', async (t) => {
  const shop = await openShop(t)
  assert.equal((await shop.run(0, 'tick')).code, 0)
  const ahead = 40 * DAY_MS
  const month = monthOf(now())
  const report = await shop.run(ahead, '--json', 'billing', 'show', '--month', month)
  assert.equal(report.code, 0, report.err)
  assert.match(report.err, /is over by this clock alone/)
  for (const statement of JSON.parse(report.out)) assert.equal(statement.final, false)
  const { created_at, expires_at, key_id } = await issue(shop, 0, '--expires-in', '1h')
  assert.ok(Math.abs(Date.parse(created_at) - now()) < 60_000)
  assert.equal(Date.parse(expires_at) - Date.parse(created_at), HOUR_MS)
  assert.equal(JSON.parse((await shop.run(0, '--json', 'key', 'revoke', key_id)).out).usable, false)
  assert.ok(!(await shop.store.findWarnings()).some(({ kind }) => kind === 'clock_back'))
})

test('expiry goes by the later of clock and record, and lifetimes by the clock', async (t) => {
  const service = await startService(t)
  const { store } = service
  const end = periodOf('2026-01').end
  service.setClock(end)
  await service.tick()
  assert.equal((await store.fixPeriod(periodOf('2026-01'))).final, true)
  service.setClock(plus(end, -HOUR_MS))
  const tenant = await store.findTenant('acme', 'live')
  assert.ok(tenant)
  const { record } = issueKey({ tenant, label: null, lifetimeMs: 2 * HOUR_MS }, machine)
  const added = await store.addKey(record, AUDIT)
  assert.deepEqual([added.createdAt, added.expiresAt], [plus(end, -HOUR_MS), plus(end, HOUR_MS)])
  const seen = await store.findKey(record.sha256)
  assert.equal(seen?.now, end, 'the record says that it is midnight')
  service.setClock(plus(T0, HOUR_MS))
  assert.equal((await store.findKey(record.sha256))?.now, end)
  await store.markKeyUsed(tenant, record.keyId)
  const used = (await store.listKeys('acme')).find(({ keyId }) => keyId === record.keyId)
  assert.equal(used?.lastUsedAt, plus(T0, HOUR_MS), 'by the clock, or every call would mark it anew')
})
