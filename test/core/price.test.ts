// Prices: the limit of volatility, the prices it ignores, and the odd figures of a fill.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Trade } from '../../src/core/confirmation.ts'
import { btc, type Price, price, UNITS, usd } from '../../src/core/money.ts'
import {
  FIRST_VOLATILITY,
  type OddPrice,
  observe,
  oddPrice,
  sigma,
  type Volatility,
} from '../../src/core/price.ts'
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
  // An equal move in a quarter of the time is twice the volatility of an hour.
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

// Whether the dollars, the coins and the price of a fill agree with each other and with the market.

type Fault = OddPrice['fault'] | null

const oddOf = (
  [executionPrice, bitcoin]: readonly [price: string, btc: string],
  market: string | null,
  told = { usd: '10', btc: bitcoin },
): Fault => {
  const fill = { status: 'filled', usdAmount: usd('10'), btcAmount: btc(bitcoin) }
  const report = { ...fill, executionPrice: price(executionPrice) }
  const amounts = { usd: usd(told.usd), btc: btc(told.btc) }
  const facts = { amounts, market: market === null ? null : price(market) }
  const odd = oddPrice({ report } as unknown as Trade, facts)
  assert.equal(odd?.price ?? report.executionPrice, report.executionPrice)
  return odd?.fault ?? null
}

const ODD: [what: string, fill: [price: string, btc: string], market: string | null, fault: Fault][] = [
  ['coins five percent off, and a satoshi of rounding', ['60000', '0.00017501'], '60000', null],
  ['coins two satoshis more than five percent off', ['60000', '0.00017502'], '60000', 'contradicted'],
  ['a price in another unit than the coins', ['60000', '0.16666666'], '60000', 'contradicted'],
  ['dollars for a satoshi', ['0.00064', '15625'], '60000', 'far_off'],
  ['cents', ['6000000', '0.00000166'], '60000', 'far_off'],
  ['twice the market', ['120000', '0.00008333'], '60000', 'far_off'],
  ['half the market', ['30000', '0.00033333'], '60000', 'far_off'],
  ['a little less than twice the market', ['119000', '0.00008403'], '60000', null],
  ['less than a bitcoin can cost', ['99.99', '0.10001'], null, 'far_off'],
  ['the least that one can cost', ['100', '0.1'], null, null],
  ['the most', ['5000000', '0.000002'], null, null],
  ['more than that', ['5000001', '0.000002'], null, 'far_off'],
]
for (const [what, fill, market, fault] of ODD) {
  test(`the price of a fill: ${what}`, () => assert.equal(oddOf(fill, market), fault))
}

test('amounts that an operator gave are held against the price, or against the market where that price is far off', () => {
  const fill = ['60000', '0.00016666'] as const
  assert.equal(oddOf(fill, '60000', { usd: '9.00', btc: '0.00015' }), null)
  assert.equal(oddOf(fill, '60000', { usd: '99999', btc: '0.00016666' }), 'contradicted')
  assert.equal(oddOf(fill, '60000', { usd: '1.00', btc: '1000' }), 'contradicted')
  assert.equal(oddOf(fill, '60000', { usd: '0', btc: '0' }), null)
  const inSatoshis = ['0.00064', '15625'] as const
  assert.equal(oddOf(inSatoshis, '60000', { usd: '10', btc: '0.00016666' }), null)
  assert.equal(oddOf(inSatoshis, '60000', { usd: '10', btc: '16666' }), 'far_off')
  const failed = { report: { status: 'failed' } } as unknown as Trade
  assert.equal(oddPrice(failed, { amounts: { usd: usd('1'), btc: btc('1') }, market: null }), null)
})
