// What a sandbox leaves alone, the tranches that it fires on request, and its idempotency keys as a partner sees them,
// however often it is wiped.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatUsd, usd } from '../../src/core/money.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { DAY_MS, formatInstant, HOUR_MS, plus } from '../../src/core/time.ts'
import type { Schedule } from '../../src/core/window.ts'
import { decide, fireNext, type Pass } from '../../src/engine/slot-reserve.ts'
import { dollars, LEAD_MS, SIGMA, START, scheduleOf } from '../engine/passes.ts'
import { assertSound, link, PRICE, plan } from '../http/steps.ts'
import { allExecutions } from '../store/world.ts'
import { openAgain, rowsOf } from '../support/database.ts'
import { AUDIT, T0 } from '../support/service.ts'
import { assertSame, type Bench, everythingOf, startBench } from './bench.ts'

const DAY = { start_date: '2026-01-05' }

test('an environment that was wiped before keys were kept begins after the last time of that', async (t) => {
  const bench = await startBench(t)
  const [acme, bolt] = [await bench.tenant('acme', 'test'), await bench.issueKey('bolt', 'test')]
  await bench.goAhead(acme, DAY_MS, PRICE)
  const rows = await rowsOf(t, bench.file)
  bench.setClock(plus(T0, HOUR_MS))
  await bench.store.resetSandbox(acme, { ...AUDIT, action: 'sandbox.reset', subject: 'acme' })
  // The schema of the previous version.
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

test('what is done to a sandbox changes nothing of others, nor what all share, and they stay in the real time', async (t) => {
  const bench = await startBench(t)
  const acme = await bench.tenant('acme', 'test')
  const others: Tenant[] = []
  await enrol(bench, bench.key)
  for (const [slug, environment] of OTHERS) {
    await enrol(bench, await bench.issueKey(slug, environment))
    others.push(await bench.tenant(slug, environment))
  }
  await bench.tick(PRICE)
  const before = await everythingOf(bench, others)
  for (const [what, take] of [
    ['an advance', () => bench.goAhead(acme, 40 * DAY_MS, '50000')],
    ['a tranche fired', () => bench.fire(acme, 'p1')],
    ['a reset', () => bench.store.resetSandbox(acme, AUDIT)],
  ] as const) {
    await take()
    assertSame(await everythingOf(bench, others), before, what)
  }
  const { start_date } = await enrol(bench, bench.key)
  assert.equal(start_date, formatInstant(plus(T0, 40 * DAY_MS)), 'a plan is dated by its sandbox')
  bench.advance(8 * HOUR_MS)
  await bench.tick(PRICE)
  const datesOf = async ({ tenantId }: Tenant) =>
    (await allExecutions(bench.store))
      .filter(({ tenant }) => tenant.tenantId === tenantId)
      .map(({ createdAt }) => createdAt - T0)
  assert.deepEqual(await datesOf(acme), [40 * DAY_MS + 8 * HOUR_MS])
  for (const other of others) assert.deepEqual(await datesOf(other), [0, 8 * HOUR_MS])
  await assertSound(bench)
})

const OTHERS = [
  ['acme', 'live'],
  ['bolt', 'test'],
  ['bolt', 'live'],
] as const

async function enrol(bench: Bench, key: string) {
  await link(bench, 'u1', { key })
  return plan(bench, 'u1', 'p1', {}, { key })
}

// Tranches brought forward: whichever are fired between the passes, a window spends its budget and no more.

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
        // On request there is always a next tranche, until less is left than the least amount of an instruction.
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
