// The timing of one window: its layout, when its tranches fire, how large they are, and why.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Trigger } from '../../src/core/execution.ts'
import { CENT, formatUsd, type Price, priceAsNumber, type Usd, usd } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import type { Frequency } from '../../src/core/window.ts'
import { decide, fireNext, layout, reservationPrice } from '../../src/engine/slot-reserve.ts'
import {
  at,
  dollars,
  drive,
  type Fired,
  LEAD_MS,
  type PassAt,
  regular,
  SIGMA,
  START,
  scheduleOf,
  total,
  windowDays,
} from './passes.ts'

const hours = (fired: readonly Fired[]) => fired.map(({ ms }) => ms / HOUR_MS)

test('without a price each unit is due in the middle of its share of the slot', () => {
  const daily = drive(scheduleOf('daily', '60.00'), regular(MINUTE_MS, DAY_MS))
  assert.deepEqual(hours(daily.fired), [2, 6, 10, 14, 18, 22])
  assert.ok(daily.fired.every((one) => one.trigger === 'clock' && one.amount === usd('10.00') && !one.price))
  const weekly = drive(scheduleOf('weekly', '280.00'), regular(15 * MINUTE_MS, 7 * DAY_MS))
  assert.deepEqual(
    hours(weekly.fired),
    Array.from({ length: 28 }, (_, i) => 3 + 6 * i),
  )
  const single = drive(scheduleOf('weekly', '5.00'), regular(15 * MINUTE_MS, 7 * DAY_MS))
  assert.deepEqual(hours(single.fired), [84])
})

test('a budget that does not divide leaves its odd cents to the last tranche', () => {
  const { fired } = drive(scheduleOf('daily', '100.00'), regular(MINUTE_MS, DAY_MS))
  assert.deepEqual(
    fired.map(({ amount }) => formatUsd(amount)),
    ['16.66', '16.66', '16.67', '16.67', '16.67', '16.67'],
  )
})

test('the reservation price is ref * exp(hw * (1 - 2 (1 + 1/k)^(m - k)))', () => {
  const reference = { price: dollars(60_000), halfWidth: 0.5 * 0.005 * Math.sqrt(8) }
  const expected: [m: number, k: number, exponent: number][] = [
    [0, 1, 0],
    [0, 2, 1 - 2 / 1.5 ** 2],
    [1, 2, -1 / 3],
    [0, 3, 1 - 2 / (4 / 3) ** 3],
    [2, 3, 1 - 2 / (4 / 3)],
  ]
  for (const [m, k, exponent] of expected) {
    const got = priceAsNumber(reservationPrice(reference, m, k))
    const want = 60_000 * Math.exp(reference.halfWidth * exponent)
    assert.ok(Math.abs(got / want - 1) < 1e-11, `m ${m} of ${k}: ${got}, not ${want}`)
  }
  assert.equal(reservationPrice(reference, 0, 1), reference.price)
})

const limitOf = (m: number): Price =>
  reservationPrice({ price: dollars(60_000), halfWidth: 0.5 * SIGMA * Math.sqrt(8) }, m, 2)

type Step = [ms: number, price: Price | null, fires: Trigger | null, units?: number]

/** Each path is a daily plan of 60.00 in 3 slots of 8 hours with 2 units each. */
const PATHS: Record<string, Step[]> = {
  'the first unit fires at the first price, the second at its reservation price': [
    [0, dollars(60_000), 'slot_start'],
    [MINUTE_MS, dollars(60_000), null],
    [2 * MINUTE_MS, (limitOf(1) + 1n) as Price, null],
    [3 * MINUTE_MS, limitOf(1), 'limit'],
    [4 * MINUTE_MS, dollars(1), null],
    [8 * HOUR_MS, dollars(1), 'slot_start'],
  ],
  'a crash fires one unit a pass': [
    [0, dollars(60_000), 'slot_start'],
    [MINUTE_MS, dollars(0.01), 'limit'],
    [2 * MINUTE_MS, dollars(0.01), null],
  ],
  'what is left at the deadline fires there, merged with the unit of the next slot': [
    [0, dollars(60_000), 'slot_start'],
    [8 * HOUR_MS - 1, dollars(70_000), null],
    [8 * HOUR_MS, dollars(70_000), 'deadline', 2],
    [9 * HOUR_MS, dollars(70_000), null],
  ],
  'a feed gone stale makes the schedule a clock, and the reservation price survives it': [
    [0, dollars(60_000), 'slot_start'],
    [HOUR_MS, null, null],
    [2 * HOUR_MS, null, null],
    [3 * HOUR_MS, (limitOf(1) + 1n) as Price, null],
    [4 * HOUR_MS, limitOf(1), 'limit'],
    [7 * HOUR_MS, null, null],
  ],
  'a feed gone stale for long fires by the clock': [
    [0, dollars(60_000), 'slot_start'],
    [6 * HOUR_MS - 1, null, null],
    [6 * HOUR_MS, null, 'clock'],
    [7 * HOUR_MS, dollars(1), null],
  ],
  'a slot entered without a price takes its reference from its first live one': [
    [0, null, null],
    [HOUR_MS, dollars(60_000), 'slot_start'],
    [90 * MINUTE_MS, (limitOf(1) + 1n) as Price, null],
    [100 * MINUTE_MS, limitOf(1), 'limit'],
  ],
  'a clock unit counts against the reservation prices of a feed that comes to life': [
    [0, null, null],
    [2 * HOUR_MS, null, 'clock'],
    [3 * HOUR_MS, dollars(60_000), null],
    [4 * HOUR_MS, limitOf(1), 'limit'],
  ],
  'clock units that are due together are one tranche': [[7 * HOUR_MS, null, 'clock', 2]],
  'slots slept through fire at the next pass, in one tranche': [
    [0, dollars(60_000), 'slot_start'],
    [17 * HOUR_MS, dollars(90_000), 'catch_up', 4],
    [18 * HOUR_MS, dollars(90_000), null],
  ],
  'a whole slot without a price is made up for at its deadline': [
    [0, null, null],
    [8 * HOUR_MS, dollars(60_000), 'deadline', 3],
  ],
  'slots slept through without a price are one tranche too': [[19 * HOUR_MS, null, 'catch_up', 5]],
  'near the end everything fires at once': [
    [0, dollars(60_000), 'slot_start'],
    [DAY_MS - LEAD_MS, dollars(90_000), 'failsafe', 5],
    [DAY_MS - LEAD_MS + MINUTE_MS, dollars(1), null],
  ],
  'a first pass that comes late is a failsafe of everything': [[DAY_MS - 1, null, 'failsafe', 6]],
}

test('price paths through one daily window', () => {
  for (const [what, steps] of Object.entries(PATHS)) {
    let schedule = scheduleOf('daily', '60.00')
    for (const [ms, price, trigger, units = 1] of steps) {
      const step = drive(schedule, [{ ms, price }])
      schedule = step.schedule
      const got = step.fired.map((one) => [one.trigger, one.units, formatUsd(one.amount)])
      const want = trigger === null ? [] : [[trigger, units, `${units * 10}.00`]]
      assert.deepEqual(got, want, `${what}, at ${ms} ms`)
    }
  }
})

test('the reference, the half-width and sigma are fixed at the first live pass of a slot', () => {
  const schedule = scheduleOf('daily', '60.00')
  const first = drive(schedule, [{ ms: 0, price: dollars(60_000), sigma: 0.01 }])
  const halfWidth = 0.5 * 0.01 * Math.sqrt(8)
  assert.deepEqual(first.schedule.reference, { price: dollars(60_000), halfWidth })
  const later = drive(first.schedule, [{ ms: HOUR_MS, price: dollars(70_000), sigma: 0.03 }], {
    eagerly: true,
  })
  assert.deepEqual(later.schedule.reference, { price: dollars(60_000), halfWidth })
  const next = drive(later.schedule, [{ ms: 8 * HOUR_MS, price: dollars(70_000), sigma: 0.03 }])
  assert.deepEqual(next.schedule.reference, { price: dollars(70_000), halfWidth: 0.5 * 0.03 * Math.sqrt(8) })
})

test('a lead longer than the window fires it whole at once, and reaches no window that has not begun', () => {
  const schedule = scheduleOf('daily', '60.00')
  const all = drive(schedule, [{ ms: 0, price: dollars(60_000), leadMs: 48 * HOUR_MS }])
  assert.deepEqual(
    all.fired.map(({ trigger, units }) => [trigger, units]),
    [['failsafe', 6]],
  )
  const before = drive(schedule, [{ ms: -1, price: dollars(60_000), leadMs: 48 * HOUR_MS }], {
    eagerly: true,
  })
  assert.deepEqual(before.fired, [])
  assert.equal(before.schedule.nextRunAt, START)
})

test('money that comes back joins the units still to come', () => {
  const once = { refund: (one: Fired) => (one.ms === 2 * HOUR_MS ? one.amount : (0n as Usd)) }
  const { fired } = drive(scheduleOf('daily', '60.00'), regular(MINUTE_MS, DAY_MS), once)
  assert.deepEqual(
    fired.map(({ amount }) => formatUsd(amount)),
    ['10.00', ...Array(5).fill('12.00')],
  )
})

test('with no unit to come it waits for the failsafe: three extras at most, five minutes apart', () => {
  const schedule = scheduleOf('daily', '60.00')
  const { fired } = drive(schedule, regular(MINUTE_MS, DAY_MS), { refund: (one) => one.amount })
  assert.equal(fired.length, 6 + 3)
  const extras = fired.slice(6)
  const minutesBeforeEnd = extras.map(({ ms }) => (DAY_MS - ms) / MINUTE_MS)
  assert.deepEqual(minutesBeforeEnd, [15, 10, 5])
  assert.ok(
    extras.every(
      ({ trigger, units, amount }) => trigger === 'failsafe' && units === 0 && amount === usd('60'),
    ),
  )
})

test('a remainder under the minimum tranche is not offered', () => {
  const part = { refund: (one: Fired) => (one.ms === 22 * HOUR_MS ? usd('4.99') : (0n as Usd)) }
  const { fired, schedule } = drive(scheduleOf('daily', '60.00'), regular(MINUTE_MS, DAY_MS), part)
  assert.equal(fired.length, 6)
  assert.equal(schedule.fireable, usd('4.99'))
})

test('units a raised minimum makes too small wait and are merged', () => {
  const raised = {
    ...drive(scheduleOf('daily', '60.00'), [{ ms: 0, price: null }]).schedule,
    floor: usd('25.00'),
  }
  const { fired } = drive(raised, regular(MINUTE_MS, DAY_MS))
  assert.deepEqual(
    fired.map(({ amount }) => formatUsd(amount)),
    // A rest of 20.00 could not fire alone: it is added instead of being released.
    ['60.00'],
  )
})

test('a clock set back within a window fires nothing twice', () => {
  const forth = drive(
    scheduleOf('daily', '60.00'),
    regular(MINUTE_MS, 13 * HOUR_MS, () => dollars(60_000)),
  )
  const again: PassAt[] = regular(MINUTE_MS, DAY_MS, () => dollars(60_000))
  const back = drive(forth.schedule, again, { eagerly: true })
  assert.equal(total([...forth.fired, ...back.fired]), usd('60.00'))
  assert.deepEqual(
    back.fired.map(({ ms }) => ms >= 13 * HOUR_MS),
    back.fired.map(() => true),
  )
})

test('a window that is over must be rolled before it is timed', () => {
  const schedule = scheduleOf('daily', '60.00')
  assert.throws(
    () => decide(schedule, { now: at(DAY_MS), price: null, sigma: SIGMA, leadMs: LEAD_MS }),
    /rolled before it is timed/,
  )
})

// The layout of a window: its slots and units.

const LAYOUTS: [frequency: Frequency, amount: string, min: string, slots: number, unitsPerSlot: number][] = [
  ['daily', '1000000.00', '5.00', 3, 2],
  ['daily', '30.00', '5.00', 3, 2],
  ['daily', '29.99', '5.00', 1, 2],
  ['daily', '10.00', '5.00', 1, 2],
  ['daily', '9.99', '5.00', 1, 1],
  ['daily', '5.00', '5.00', 1, 1],
  ['daily', '1.00', '5.00', 1, 1],
  ['weekly', '140.00', '5.00', 14, 2],
  ['weekly', '139.99', '5.00', 7, 2],
  ['weekly', '70.00', '5.00', 7, 2],
  ['weekly', '69.99', '5.00', 7, 1],
  ['weekly', '35.00', '5.00', 7, 1],
  ['weekly', '34.99', '5.00', 6, 1],
  ['weekly', '10.00', '5.00', 2, 1],
  ['weekly', '9.99', '5.00', 1, 1],
  ['weekly', '1.00', '5.00', 1, 1],
  ['bi-weekly', '280.00', '5.00', 28, 2],
  ['bi-weekly', '279.99', '5.00', 14, 2],
  ['bi-weekly', '139.99', '5.00', 14, 1],
  ['bi-weekly', '69.99', '5.00', 13, 1],
  ['bi-weekly', '12.00', '5.00', 2, 1],
  // A venue's own minimum moves every border.
  ['daily', '6.00', '1.00', 3, 2],
  ['daily', '5.99', '1.00', 1, 2],
  ['weekly', '1000.00', '100.00', 7, 1],
  ['bi-weekly', '100.00', '1000.00', 1, 1],
]

test('a window is cut by frequency, amount and the venue minimum', () => {
  for (const [frequency, amount, min, slots, unitsPerSlot] of LAYOUTS) {
    const schedule = scheduleOf(frequency, amount, min)
    assert.deepEqual(
      layout(schedule),
      { slots, unitsPerSlot, unitsFired: 0 },
      `${frequency} ${amount} ${min}`,
    )
  }
})

test('every layout spends its whole budget in whole cents, with no tranche under the minimum', () => {
  for (const [frequency, amount, min, slots, unitsPerSlot] of LAYOUTS) {
    const schedule = scheduleOf(frequency, amount, min)
    const what = `${frequency} ${amount} ${min}`
    const { fired } = drive(schedule, regular(10 * MINUTE_MS, windowDays(schedule) * DAY_MS))
    assert.equal(total(fired), usd(amount), what)
    assert.equal(fired.length, slots * unitsPerSlot, what)
    for (const { amount: tranche } of fired) {
      assert.equal(tranche % CENT, 0n, what)
      assert.ok(tranche >= schedule.floor, `${what}: ${formatUsd(tranche)}`)
    }
  }
})

test('what is left of a slot, however short, is cut into at least one slot', () => {
  const { windowEnd, ...whole } = scheduleOf('daily', '60.00', '5.00')
  for (const lengthMs of [1, MINUTE_MS, 3 * HOUR_MS, 5 * HOUR_MS, 13 * HOUR_MS]) {
    const rest = { ...whole, windowStart: plus(windowEnd, -lengthMs), windowEnd }
    const { slots, unitsPerSlot } = layout(rest)
    assert.ok(slots >= 1 && unitsPerSlot === 2, `${lengthMs} ms: ${slots} x ${unitsPerSlot}`)
    const [fired] = drive(rest, regular(MINUTE_MS, lengthMs)).fired
    assert.ok(fired, `${lengthMs} ms`)
  }
})

test('a sandbox fires what came back after the last unit, and nothing below an instruction', () => {
  const schedule = scheduleOf('daily', '60.00')
  const planned = layout(schedule)
  const fired = { ...planned, unitsFired: planned.slots * planned.unitsPerSlot }
  const pass = { now: at(HOUR_MS), price: null, sigma: SIGMA, leadMs: LEAD_MS }
  const back = (text: string) => fireNext({ ...schedule, layout: fired, fireable: usd(text) }, pass)
  assert.deepEqual([back('7.50')?.tranche?.amount, back('7.50')?.tranche?.trigger], [usd('7.50'), 'clock'])
  assert.equal(back('0.50'), null)
})
