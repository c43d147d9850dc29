// Tranches brought forward: whatever is fired by hand between the passes, a window spends its budget and no more.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatUsd, usd } from '../../src/core/money.ts'
import { HOUR_MS, plus } from '../../src/core/time.ts'
import type { Schedule } from '../../src/core/window.ts'
import { decide, fireNext, type Pass } from '../../src/engine/slot-reserve.ts'
import { dollars, LEAD_MS, SIGMA, START, scheduleOf } from '../engine/passes.ts'

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
