// Keys and months under a wrong clock: a revoked key is dead, and a month is closed by its records.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { periodOf } from '../../src/core/month.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, monthOf, plus } from '../../src/core/time.ts'
import { issueKey } from '../../src/keys.ts'
import { machine } from '../../src/machine.ts'
import { confirmPath, sendFirst, tenantOf } from '../http/steps.ts'
import { AUDIT, fill, me, startService, T0 } from '../support/service.ts'
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

test('expiry goes by the later of clock and record, and lifetimes by the clock', async (t) => {
  const service = await startService(t)
  const { store } = service
  const end = periodOf('2026-01').end
  service.setClock(end)
  await service.tick()
  assert.equal((await store.fixPeriod(periodOf('2026-01'))).final, true)
  service.setClock(plus(end, -HOUR_MS))
  const tenant = await tenantOf({ store }, 'live')
  const { record } = issueKey({ tenant, label: null, lifetimeMs: 2 * HOUR_MS }, machine)
  const added = await store.addKey(record, AUDIT)
  assert.deepEqual([added.createdAt, added.expiresAt], [plus(end, -HOUR_MS), plus(end, HOUR_MS)])
  const back = (await store.findWarnings()).find(({ kind }) => kind === 'clock_back')
  assert.match(back?.message ?? '', /confirmations are booked at 2026-02-01T00:00:00\.000Z, into 2026-02$/)
  service.setClock(end)
  assert.ok(!(await store.findWarnings()).some(({ kind }) => kind === 'clock_back'))
  service.setClock(plus(end, -HOUR_MS))
  const seen = await store.findKey(record.sha256)
  assert.equal(seen?.now, end, 'the record says that it is midnight')
  service.setClock(plus(T0, HOUR_MS))
  assert.equal((await store.findKey(record.sha256))?.now, end)
  await store.markKeyUsed(tenant, record.keyId)
  const used = (await store.listKeys('acme')).find(({ keyId }) => keyId === record.keyId)
  assert.equal(used?.lastUsedAt, plus(T0, HOUR_MS), 'by the clock, or every call would mark it anew')
})

// Closing months: by the records, and never by the clock of the process that reports.

const JANUARY = periodOf('2026-01')

test('a trade since its end confirms a month as well; one of a clock in doubt does not', async (t) => {
  const service = await startService(t)
  const { store, setClock } = service
  const [due = ''] = (await sendFirst(service, ['p1'])).values()
  setClock(plus(JANUARY.end, MINUTE_MS))
  await service.call('POST', confirmPath(due), fill('o1', '5.00'))
  const doubt = { clockAt: JANUARY.end, witness: { source: 'x', at: T0 } }
  await store.decideDispute(() => doubt)
  assert.equal((await store.fixPeriod(JANUARY)).final, false)
  await store.decideDispute(() => null)
  assert.equal((await store.fixPeriod(JANUARY)).final, true)
})

test('trades that a clock ahead has dated do not take later writes along through a report', async (t) => {
  const service = await startService(t)
  const { store, setClock } = service
  const [due = ''] = (await sendFirst(service, ['p1'])).values()
  setClock(plus(T0, 15 * DAY_MS))
  await service.call('POST', confirmPath(due), fill('o1', '5.00'))
  const back = plus(T0, HOUR_MS)
  setClock(back)
  assert.deepEqual(await store.fixPeriod(JANUARY), { ...JANUARY, end: back, final: false })
  assert.equal((await store.readClock()).now, back)
})

test('exports in a process ahead warn and are not final; a pass by that clock is stopped by the feed', async (t) => {
  const shop = await openShop(t)
  assert.equal((await shop.run(0, 'tick', '--price-feed', shop.feed)).code, 0)
  const month = monthOf(now())
  const argv = ['billing', 'export', '--month', month]
  const present = await shop.run(0, ...argv)
  assert.equal(present.code, 0)
  assert.match(present.err, /^\S+ is not over yet: these are its figures so far\.\n$/)
  for (const [ahead, run] of [
    [40 * DAY_MS, shop.runApart],
    [400 * DAY_MS, shop.run],
  ] as const) {
    assert.equal((await shop.run(ahead, 'tick', '--price-feed', shop.feed)).code, 1)
    const { code, out, err } = await run(ahead, ...argv)
    assert.equal(code, 0, err)
    assert.match(err, /is over by this clock alone.*Run tranche tick/)
    assert.match(out, /,USD,false,/)
  }
  assert.ok(Math.abs((await shop.store.readClock()).now - now()) < MINUTE_MS)
})
