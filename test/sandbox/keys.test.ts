// The idempotency keys of a test environment as a partner sees them, however often it is wiped.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, plus } from '../../src/core/time.ts'
import { assertSound, confirmPath, DUE, link, PRICE, plan, succeed } from '../http/steps.ts'
import { openAgain, rowsOf } from '../support/database.ts'
import { AUDIT, fill, T0 } from '../support/service.ts'
import { type Bench, startBench } from './bench.ts'

const DAY = { start_date: '2026-01-05' }

/** Polls, buys what is due under its key, and returns the keys. */
async function buyAll(bench: Bench): Promise<string[]> {
  const due = await succeed(bench, 'GET', DUE)
  for (const { execution_id, idempotency_key, amount_usd } of due)
    await succeed(bench, 'POST', confirmPath(execution_id), fill(idempotency_key, amount_usd))
  return due.map(({ idempotency_key }: { idempotency_key: string }) => idempotency_key)
}

test('a partner that sends the same plan again after each reset never sees a key again', async (t) => {
  const bench = await startBench(t)
  const acme = await bench.tenant('acme', 'test')
  const keys: string[] = []
  for (let resets = 0; ; resets += 1) {
    bench.setClock(plus(T0, HOUR_MS))
    await link(bench, 'u1')
    await plan(bench, 'u1', 'plan-1', DAY)
    bench.advance(10)
    await bench.tick(PRICE)
    keys.push(...(await buyAll(bench)))
    if (resets === 2) break
    await bench.store.resetSandbox(acme, AUDIT)
  }
  assert.deepEqual(keys, [
    'plan-1:2026-01-05T00:00:00.000Z:0',
    'plan-1:2026-01-05T00:00:00.001Z:0',
    'plan-1:2026-01-05T00:00:00.002Z:0',
  ])
  // What comes after: all of the window is bought, and the next ones are on the grid.
  await bench.goAhead(acme, 2 * DAY_MS, PRICE)
  keys.push(...(await buyAll(bench)))
  const starts = new Set(keys.slice(2).map((key) => key.slice('plan-1:'.length, -2)))
  assert.deepEqual(
    [...starts],
    ['2026-01-05T00:00:00.002Z', '2026-01-06T00:00:00.000Z', '2026-01-07T00:00:00.000Z'],
  )
  assert.equal(new Set(keys).size, keys.length)
  const [{ windows } = { windows: [] }] = await bench.store.findPlans('plan-1')
  assert.deepEqual(
    windows.map(({ spent }) => spent),
    [60n, 60n, 10n].map((usd) => usd * 100_000_000n),
  )
  await assertSound(bench)
})

test('an environment that was wiped before keys were kept begins after the last time of that', async (t) => {
  const bench = await startBench(t)
  const [acme, bolt] = [await bench.tenant('acme', 'test'), await bench.issueKey('bolt', 'test')]
  await bench.goAhead(acme, DAY_MS, PRICE)
  const rows = await rowsOf(t, bench.file)
  bench.setClock(plus(T0, HOUR_MS))
  await bench.store.resetSandbox(acme, { ...AUDIT, action: 'sandbox.reset', subject: 'acme' })
  // As the version before left it.
  await rows('drop table used_before_reset')
  await rows('alter table sandboxes drop column used_until')
  await rows("delete from migrations where name like '%_used_before_reset.sql'")
  const store = await openAgain(bench.file, bench.now)
  t.after(() => store.close())
  bench.advance(1)
  for (const key of [bench.key, bolt]) {
    await link(bench, 'u1', { key })
    for (const id of ['p1', 'p2']) await plan(bench, 'u1', id, DAY, { key })
  }
  const startsOf = async (slug: string) =>
    (await store.listPlans({ slug, environment: 'test' }, { after: null, limit: 9 })).map(({ window }) => [
      (window?.start ?? T0) - T0,
      (window?.end ?? T0) - T0,
    ])
  const after = [DAY_MS + HOUR_MS + 1, 2 * DAY_MS]
  assert.deepEqual(await startsOf('acme'), [after, after])
  assert.deepEqual(await startsOf('bolt'), [
    [0, DAY_MS],
    [0, DAY_MS],
  ])
  await assertSound(bench)
})
