// Volatility: what it settles at, and which prices it passes over.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Price, price, UNITS } from '../../src/core/money.ts'
import { FIRST_VOLATILITY, observe, sigma, type Volatility } from '../../src/core/price.ts'
import { HOUR_MS, type Instant, MINUTE_MS } from '../../src/core/time.ts'

const T0 = Date.UTC(2026, 0, 5)
const at = (ms: number): Instant => (T0 + ms) as Instant
const dollars = (amount: number): Price => (BigInt(Math.round(amount * 100)) * (UNITS / 100n)) as Price

/** Feeds prices `stepMs` apart, up and down by the log return `r` in turn. */
function zigzag(r: number, stepMs: number, count: number, seen: Volatility = FIRST_VOLATILITY): Volatility {
  let volatility = seen
  for (let i = 0; i < count; i++)
    volatility = observe(volatility, dollars(60_000 * Math.exp((i % 2) * r)), at(i * stepMs))
  return volatility
}

test('until a day of history is in, sigma has its fixed value', () => {
  assert.equal(sigma(FIRST_VOLATILITY), 0.005)
  const almost = zigzag(0.02, HOUR_MS, 24)
  assert.ok(Math.abs(almost.hours - 23) < 1e-9)
  assert.equal(sigma(almost), 0.005)
  assert.notEqual(sigma(zigzag(0.02, HOUR_MS, 25)), 0.005)
})

test('a steady market is learned: sigma tends to the return of an hour', () => {
  assert.ok(Math.abs(sigma(zigzag(0.01, HOUR_MS, 2_000)) - 0.01) < 1e-5)
  // The same move in a quarter of the time is twice the volatility of an hour.
  assert.ok(Math.abs(sigma(zigzag(0.01, 15 * MINUTE_MS, 8_000)) - 0.02) < 1e-5)
})

test('half of what was known is forgotten in 72 hours', () => {
  const before: Volatility = { variance: 0.0004, hours: 100, last: { price: price('60000'), at: at(0) } }
  let seen = before
  for (let hour = 1; hour <= 72; hour++) seen = observe(seen, price('60000'), at(hour * HOUR_MS))
  assert.ok(Math.abs(seen.variance - 0.0002) < 1e-12)
})

test('sigma stays within its bounds', () => {
  assert.equal(sigma(zigzag(0, HOUR_MS, 2_000)), 0.001)
  assert.equal(sigma(zigzag(0.3, HOUR_MS, 200)), 0.03)
})

const SPACING: [what: string, gapMs: number, takesReturn: boolean, movesOn: boolean][] = [
  ['the same instant', 0, false, false],
  ['a minute', MINUTE_MS, false, false],
  ['just under 15 minutes', 15 * MINUTE_MS - 1, false, false],
  ['15 minutes', 15 * MINUTE_MS, true, true],
  ['six hours', 6 * HOUR_MS, true, true],
  ['just over six hours', 6 * HOUR_MS + 1, false, true],
  ['a week', 168 * HOUR_MS, false, true],
  ['a clock set back', -HOUR_MS, false, true],
]

test('returns are taken over 15 minutes to six hours; a longer gap or a clock set back starts over', () => {
  const seen = observe(FIRST_VOLATILITY, price('60000'), at(0))
  for (const [what, gap, takesReturn, movesOn] of SPACING) {
    const next = observe(seen, price('61000'), at(gap))
    assert.equal(next.hours, takesReturn ? gap / HOUR_MS : 0, what)
    assert.equal(next.variance !== seen.variance, takesReturn, what)
    assert.equal(next.last?.at, movesOn ? at(gap) : at(0), what)
  }
})

test('whatever is observed, sigma is a number within its bounds', () => {
  const tick = fc.record({
    cents: fc.integer({ min: 1, max: 10 ** 10 }),
    ms: fc.integer({ min: -HOUR_MS, max: 8 * HOUR_MS }),
  })
  fc.assert(
    fc.property(fc.array(tick, { maxLength: 80 }), (ticks) => {
      let [seen, now] = [FIRST_VOLATILITY, 0]
      for (const { cents, ms } of ticks) {
        now += ms
        seen = observe(seen, dollars(cents / 100), at(now))
        assert.ok(0.001 <= sigma(seen) && sigma(seen) <= 0.03)
      }
    }),
  )
})
