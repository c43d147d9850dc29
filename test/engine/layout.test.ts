// How a window is cut into slots and units.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CENT, formatUsd, usd } from '../../src/core/money.ts'
import type { Frequency } from '../../src/core/time.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { layout } from '../../src/engine/slot-reserve.ts'
import { drive, regular, scheduleOf, total, windowDays } from './passes.ts'

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
