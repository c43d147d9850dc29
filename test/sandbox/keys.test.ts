// What a sandbox fires by hand, and its idempotency keys as a partner sees them, however often it is wiped.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatUsd, usd } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, plus } from '../../src/core/time.ts'
import type { Schedule } from '../../src/core/window.ts'
import { decide, fireNext, type Pass } from '../../src/engine/slot-reserve.ts'
import { dollars, LEAD_MS, SIGMA, START, scheduleOf } from '../engine/passes.ts'
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

// Tranches brought forward: whatever is fired by hand between the passes, a window spends its budget and no more.

const passOf = (hour: number, price: number | null): Pass => ({
  now: plus(START, hour * HOUR_MS),
  price: price === null ? null : dollars(price),
  sigma: SIGMA,
  leadMs: LEAD_MS,
})

const window = fc.record({
  frequency: fc.constantFrom('daily' as const, 'weekly' as const, 'bi-weekly' as const),
  cents: fc.integer({ min: 100, max: 200_000 }),
  minTranche: fc.constantFrom('0.01', '5.00', '40.00'),
  hours: fc.array(
    fc.record({
      wait: fc.integer({ min: 0, max: 30 }),
      byHand: fc.boolean(),
      price: fc.option(fc.integer({ min: 50_000, max: 70_000 })),
    }),
    { maxLength: 40 },
  ),
})

test('fired by hand or in its time, the window spends its budget to the cent', () => {
  fc.assert(
    fc.property(window, ({ frequency, cents, minTranche, hours }) => {
      const amount = (cents / 100).toFixed(2)
      let schedule: Schedule = scheduleOf(frequency, amount, minTranche)
      const { windowEnd, floor } = schedule
      let spent = 0n
      let hour = 0
      const step = (pass: Pass, byHand: boolean): void => {
        const decision = byHand ? fireNext(schedule, pass) : decide(schedule, pass)
        // By hand there is always a next tranche, until less is left than an instruction may be.
        if (byHand) assert.equal(decision === null, schedule.fireable < floor)
        if (!decision) return
        schedule = decision.schedule
        if (!decision.tranche) return
        assert.ok(decision.tranche.amount >= floor)
        spent += decision.tranche.amount
        assert.equal(schedule.fireable + spent, schedule.budget)
      }
      for (const { wait, byHand, price } of hours) {
        hour += wait
        if (plus(START, hour * HOUR_MS) >= windowEnd) break
        step(passOf(hour, price), byHand)
      }
      step({ ...passOf(0, null), now: plus(windowEnd, -1) }, false)
      assert.equal(formatUsd(schedule.budget), formatUsd(usd(amount)))
      assert.ok(schedule.fireable < floor, `${formatUsd(schedule.fireable)} left`)
    }),
    { numRuns: 500, seed: 6 },
  )
})

test('what is due anyway is the next tranche, and a window that has not begun has none', () => {
  const schedule = scheduleOf('daily', '60.00')
  const due = passOf(0, 60_000)
  assert.deepEqual(fireNext(schedule, due), decide(schedule, due))
  assert.equal(fireNext(scheduleOf('daily', '60.00', '5.00', plus(START, HOUR_MS)), due), null)
})
