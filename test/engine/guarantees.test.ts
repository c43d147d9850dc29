// The first guarantee of the timing engine, checked over random prices, outages and cadences: money is offered in time.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { floorToCents, type Usd } from '../../src/core/money.ts'
import { DAY_MS, FREQUENCIES, type Frequency, HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { failsafeLead } from '../../src/core/window.ts'
import { layout } from '../../src/engine/slot-reserve.ts'
import { dollars, drive, type Fired, LEAD_MS, type PassAt, scheduleOf, total } from './passes.ts'

/** The amounts cover every kind of layout: full, wide slots, one unit a slot, merged slots, a single tranche. */
const AMOUNTS = ['1.00', '7.50', '12.34', '29.99', '60.00', '100.01', '333.33', '999999.99']

type Weather = {
  everyMs: number
  jitter: number[]
  outages: { at: number; ms: number }[]
  prices: number[]
  live: boolean[]
}

const weather: fc.Arbitrary<Weather> = fc.record({
  everyMs: fc.integer({ min: MINUTE_MS, max: 6 * HOUR_MS }),
  jitter: fc.array(fc.double({ min: 0, max: 0.3, noNaN: true }), { minLength: 1, maxLength: 20 }),
  outages: fc.array(
    fc.record({
      at: fc.double({ min: -0.5, max: 1, noNaN: true }),
      ms: fc.integer({ min: 0, max: 2 * DAY_MS }),
    }),
    { maxLength: 3 },
  ),
  prices: fc.array(fc.double({ min: -0.1, max: 0.1, noNaN: true }), { minLength: 1, maxLength: 60 }),
  live: fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }),
})

/** Passes through a window and some time before it, each with the lead its tick gaps give. */
function passesThrough(lengthMs: number, { everyMs, jitter, outages, prices, live }: Weather): PassAt[] {
  const passes: PassAt[] = []
  const gaps: number[] = []
  // A cron of a minute would make 20,000 passes of a fortnight: the property needs no more than this many.
  const every = Math.max(everyMs, lengthMs / 400)
  let walk = Math.log(60_000)
  for (let ms = -10 * every, i = 0; ms < lengthMs; i++) {
    const before = ms
    ms += every * (1 + (jitter[i % jitter.length] ?? 0))
    for (const outage of outages) {
      const from = outage.at * lengthMs
      if (before <= from && from < ms) ms += outage.ms
    }
    ms = Math.floor(ms)
    gaps.push(ms - Math.floor(before))
    walk += prices[i % prices.length] ?? 0
    if (0 <= ms && ms < lengthMs) {
      const price = live[Math.floor(i / 7) % live.length] ? dollars(Math.exp(walk % 14)) : null
      passes.push({ ms, price, leadMs: failsafeLead(gaps) })
    }
  }
  return passes
}

const planned = fc.record({
  frequency: fc.constantFrom(...FREQUENCIES),
  amount: fc.constantFrom(...AMOUNTS),
  minTranche: fc.constantFrom('1.00', '5.00', '50.00'),
})
const schedules = (plan: { frequency: Frequency; amount: string; minTranche: string }) =>
  scheduleOf(plan.frequency, plan.amount, plan.minTranche)

const lengthOf = (schedule: { windowStart: number; windowEnd: number }) =>
  schedule.windowEnd - schedule.windowStart
const inSpan = (pass: PassAt, lengthMs: number) => pass.ms >= lengthMs - (pass.leadMs ?? LEAD_MS)

test('1: whenever a pass runs in the failsafe span, the whole budget has been offered in its window', () => {
  let withSpan = 0
  fc.assert(
    fc.property(planned, weather, (plan, sky) => {
      const schedule = schedules(plan)
      const passes = passesThrough(lengthOf(schedule), sky)
      const { fired } = drive(schedule, passes)
      assert.ok(total(fired) <= schedule.budget)
      assert.ok(fired.every((one) => one.amount >= schedule.floor))
      if (!passes.some((pass) => inSpan(pass, lengthOf(schedule)))) return
      withSpan += 1
      assert.equal(total(fired), schedule.budget)
    }),
    { numRuns: 300 },
  )
  assert.ok(withSpan > 100, 'the property must not hold for want of cases')
})

test('1: money that comes back by the failsafe span is offered again, in a bounded number of tranches', () => {
  const share = fc.array(fc.constantFrom(0n, 0n, 1n, 37n, 99n, 100n), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(planned, weather, share, (plan, sky, shares) => {
      const schedule = schedules(plan)
      const { slots, unitsPerSlot } = layout(schedule)
      let [n, extras, lastExtra] = [0, 0, Number.NEGATIVE_INFINITY]
      const refund = (one: Fired) => ((one.amount * (shares[n++ % shares.length] ?? 0n)) / 100n) as Usd
      let state = schedule
      for (const pass of passesThrough(lengthOf(schedule), sky)) {
        const fireable = floorToCents(state.fireable)
        const left = slots * unitsPerSlot - (state.layout?.unitsFired ?? 0)
        const run = drive(state, [pass], { refund })
        const [one] = run.fired
        state = run.schedule
        if (one && one.units === 0) {
          assert.ok(pass.ms - lastExtra >= 5 * MINUTE_MS, 'extras keep five minutes apart')
          ;[extras, lastExtra] = [extras + 1, pass.ms]
        }
        if (!inSpan(pass, lengthOf(schedule)) || fireable < schedule.floor) continue
        if (left > 0) assert.equal(one?.amount, fireable, 'the failsafe offers everything')
        else if (!one) assert.ok(extras === 3 || pass.ms - lastExtra < 5 * MINUTE_MS)
        else assert.equal(one.amount, fireable, 'an extra offers everything')
      }
      assert.ok(extras <= 3)
      assert.ok(n <= slots * unitsPerSlot + 3)
    }),
    { numRuns: 200 },
  )
})

test('1: every steady cadence from a minute to six hours has a pass in the span, one outage or not', () => {
  const cadence = fc.integer({ min: MINUTE_MS, max: 6 * HOUR_MS })
  const outage = fc.record({
    at: fc.double({ min: 0, max: 0.4, noNaN: true }),
    ms: fc.integer({ min: 0, max: 6 * HOUR_MS }),
  })
  fc.assert(
    fc.property(planned, cadence, fc.integer(), fc.option(outage), (plan, everyMs, phase, gap) => {
      const schedule = schedules(plan)
      const lengthMs = lengthOf(schedule)
      const passes: PassAt[] = []
      const gaps: number[] = []
      // Only the end of a long window and the gaps before it matter to the span.
      const from = Math.max(0, lengthMs - 2 * DAY_MS)
      // After an outage that may last until the window is over, there may be no pass left for the span.
      fc.pre(gap === null || from + gap.at * DAY_MS + 2 * everyMs + gap.ms <= lengthMs)
      let missing = gap?.ms ?? 0
      for (let ms = from - 9 * everyMs + (Math.abs(phase) % everyMs); ms < lengthMs; ) {
        if (ms >= 0) passes.push({ ms, price: null, leadMs: failsafeLead(gaps) })
        const skipped = gap && ms >= from + gap.at * DAY_MS ? missing : 0
        if (skipped > 0) missing = 0
        gaps.push(everyMs + skipped)
        ms += everyMs + skipped
      }
      assert.equal(total(drive(schedule, passes).fired), schedule.budget)
    }),
    { numRuns: 150 },
  )
})

test('the scheduler misses nothing by looking at a plan only when a due condition holds', () => {
  fc.assert(
    fc.property(planned, weather, (plan, sky) => {
      const passes = passesThrough(lengthOf(schedules(plan)), sky)
      const [due, eager] = [drive(schedules(plan), passes), drive(schedules(plan), passes, { eagerly: true })]
      assert.deepEqual(due.fired, eager.fired)
      const slotsAndLives = 2 * layout(schedules(plan)).slots
      assert.ok(
        due.touched <=
          due.fired.length +
            slotsAndLives +
            passes.filter((p) => inSpan(p, lengthOf(schedules(plan)))).length,
      )
    }),
    { numRuns: 200 },
  )
})
