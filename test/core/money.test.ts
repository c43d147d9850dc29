// Money: exact from text to text, and rounded where it has to be.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  averagePrice,
  type Btc,
  btc,
  CENT,
  divideHalfEven,
  floorToCents,
  formatBtc,
  formatPrice,
  formatUsd,
  lesser,
  price,
  priceAsNumber,
  UNITS,
  type Usd,
  usd,
} from '../../src/core/money.ts'

const PARSED: [text: string, units: bigint][] = [
  ['0', 0n],
  ['-0', 0n],
  ['1', UNITS],
  ['60.00', 60n * UNITS],
  ['0.00000001', 1n],
  ['-0.00000001', -1n],
  ['007.50', 750_000_000n],
  // Ties at the ninth place go to the even neighbour, below zero as well; anything past the tie does not.
  ['0.000000025000000001', 3n],
  ['-0.000000015', -2n],
  ['-0.000000025', -2n],
  ['0.000000004999999999', 0n],
  ['999999999999999999.999999999999999999', 10n ** 26n],
]

const REFUSED = ['', ' 1', '1 ', '+1', '1.', '.5', '1e3', '0x10', '1_000', '1,000', 'Infinity', 'NaN', '--1']
const TOO_LONG = ['1'.repeat(19), `0.${'1'.repeat(19)}`, '1\n', '١']

test('a decimal text becomes exact units, rounded half-even at the eighth place', () => {
  for (const [text, units] of PARSED) {
    assert.equal(usd(text), units, text)
    assert.equal(btc(text), units, text)
    assert.equal(price(text), units, text)
  }
})

test('what is not a plain decimal is refused before decimal.js could read it', () => {
  for (const text of [...REFUSED, ...TOO_LONG])
    assert.throws(() => usd(text), RangeError, JSON.stringify(text))
})

test('rounding agrees with integer arithmetic for every text of up to 18 places', () => {
  const digits = (min: number) => fc.stringMatching(new RegExp(`^[0-9]{${min},18}$`))
  fc.assert(
    fc.property(fc.boolean(), digits(1), digits(1), (negative, whole, fraction) => {
      const text = `${negative ? '-' : ''}${whole}.${fraction}`
      const scaled = BigInt(whole) * 10n ** 18n + BigInt(fraction.padEnd(18, '0'))
      assert.equal(usd(text), (negative ? -1n : 1n) * halfEven(scaled, 10n ** 10n))
    }),
    { numRuns: 500 },
  )
})

test('ties of the ninth place, whatever comes before them, go to the even side', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 25n }), (units) => {
      const text = `${formatBtc(units as Btc)}5`
      assert.equal(usd(text), units % 2n === 0n ? units : units + 1n)
    }),
  )
})

test('format and parse are inverse, in every form that is written out', () => {
  const anyUnits = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n })
  fc.assert(
    fc.property(anyUnits, (units) => {
      assert.equal(usd(formatUsd(units as Usd)), units)
      assert.equal(btc(formatBtc(units as Btc)), units)
      assert.equal(formatPrice(units as never), formatUsd(units as Usd))
      assert.match(formatBtc(units as Btc), /^-?\d+\.\d{8}$/)
      assert.match(formatUsd(units as Usd), /^-?(0|[1-9]\d*)\.\d\d(\d{0,5}[1-9])?$/)
    }),
    { numRuns: 500 },
  )
})

const WRITTEN: [units: bigint, asUsd: string, asBtc: string][] = [
  [0n, '0.00', '0.00000000'],
  [-1n, '-0.00000001', '-0.00000001'],
  [150_000_000n, '1.50', '1.50000000'],
  [10n ** 22n, '100000000000000.00', '100000000000000.00000000'],
]

test('amounts are written in full: dollars with at least two places, coins with eight', () => {
  for (const [units, asUsd, asBtc] of WRITTEN) {
    assert.equal(formatUsd(units as Usd), asUsd)
    assert.equal(formatBtc(units as Btc), asBtc)
  }
})

test('cutting to cents never raises an amount and never takes a whole cent', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 20n }), (units) => {
      const cut = floorToCents(units as Usd)
      assert.equal(cut % CENT, 0n)
      assert.ok(cut <= units && units - cut < CENT)
    }),
  )
})

test('the lesser of two, and a price for statistics', () => {
  assert.equal(lesser(usd('1'), usd('2')), usd('1'))
  assert.equal(lesser(usd('2'), usd('1')), usd('1'))
  assert.equal(priceAsNumber(price('60000.5')), 60000.5)
})

function halfEven(value: bigint, step: bigint): bigint {
  const [down, rest] = [value / step, (value % step) * 2n]
  if (rest === step) return down + (down % 2n)
  return rest > step ? down + 1n : down
}

test('half-even agrees with its definition', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 1n << 80n }), fc.bigInt({ min: 1n, max: 1n << 40n }), (n, d) => {
      assert.equal(divideHalfEven(n, d), halfEven(n, d))
    }),
  )
})

test('the average price is exact beyond 2^63 and null without coins', () => {
  assert.equal(averagePrice(0n as Usd, 0n as never), null)
  assert.equal(averagePrice((1n << 70n) as Usd, (1n << 70n) as never), UNITS)
  // Adjustments may make either negative.
  assert.equal(averagePrice(usd('-100.00'), -1n as never), null)
  assert.equal(averagePrice(usd('1.00'), -1n as never), null)
})
