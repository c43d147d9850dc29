// Fees: the tier that a month is charged by, each month rounded once and shared out to the cent.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  besideVersion,
  chooseTier,
  feesOf,
  feeWeight,
  setTier,
  shareOut,
  statementOf,
  type Tier,
  type TierTerms,
  tiersInForce,
} from '../../src/core/fees.ts'
import { creditOf, type Issued } from '../../src/core/invoice.ts'
import { CENT, formatUsd, type Usd, usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import type { Instant } from '../../src/core/time.ts'
import { tier } from '../support/samples.ts'

const FEES: [what: string, tier: Tier, volume: string, users: number, total: string][] = [
  ['nothing', tier(), '0.00', 0, '0.00'],
  ['a half goes down to the even cent', tier(), '1.00', 1, '0.00'],
  ['a half goes up to the even cent', tier(), '3.00', 1, '0.02'],
  ['a unit above the half goes up', tier(), '1.00000001', 1, '0.01'],
  ['a unit below the half goes down', tier(), '2.99999999', 1, '0.01'],
  ['rounded on the month, not on each of its trades', tier(), '300.00', 300, '1.50'],
  ['per user', tier({ perActiveUser: usd('0.25') }), '100.00', 3, '1.25'],
  ['the minimum when the rest is less', tier({ monthlyMinimum: usd('99.00') }), '100.00', 1, '99.00'],
  ['the minimum without any volume', tier({ monthlyMinimum: usd('99.00') }), '0.00', 0, '99.00'],
  ['no minimum on top of more', tier({ monthlyMinimum: usd('0.49') }), '100.00', 1, '0.50'],
  ['the whole volume at most', tier({ rateBps: 10_000 }), '123456789012.34', 1, '123456789012.34'],
  ['a thousand times 2^63 units', tier({ rateBps: 1 }), '92233720368547758.07', 1, '9223372036854.78'],
]

for (const [what, priced, volume, activeUsers, total] of FEES) {
  test(`the fee of a month: ${what}`, () => {
    assert.equal(formatUsd(feesOf(priced, { volume: usd(volume), activeUsers }).total), total)
  })
}

test('the versions beside one are the last before it and the first after it, of its own name', () => {
  const months = ['2026-01', '2026-03', '2026-05', '2026-07', '2026-09']
  const versions = months.map((fromMonth) => tier({ fromMonth }))
  const others = ['2026-04', '2026-06'].map((fromMonth) => tier({ fromMonth, name: 'other' }))
  const { before, next } = besideVersion(
    [...versions, ...others].toReversed(),
    tier({ fromMonth: '2026-05' }),
  )
  assert.deepEqual([before, next], [versions[1], versions[3]])
})

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((all, one) => all + one, 0n)

test('shares add up exactly, each within a cent of its exact part, and order breaks ties', () => {
  const weights = fc.array(fc.bigInt({ min: 0n, max: 1n << 70n }), { minLength: 1, maxLength: 60 })
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 1n << 50n }), weights, (cents, parts) => {
      const total = (cents * CENT) as Usd
      const shares = shareOut(total, parts)
      assert.equal(sum(shares), total)
      const given = sum(parts)
      const [fair, whole] = given === 0n ? [parts.map(() => 1n), BigInt(parts.length)] : [parts, given]
      for (const [i, share] of shares.entries()) {
        const exact = cents * (fair[i] ?? 0n)
        const down = exact / whole
        assert.ok(share === down * CENT || share === (down + 1n) * CENT, `share ${i} is ${share}`)
        if (exact % whole === 0n) assert.equal(share, down * CENT, 'an exact part gets nothing more')
      }
    }),
  )
  assert.deepEqual(shareOut(usd('0.02'), [1n, 1n, 1n]), [usd('0.01'), usd('0.01'), 0n])
  assert.deepEqual(shareOut(usd('1.00'), [0n, 0n, 0n]), [usd('0.34'), usd('0.33'), usd('0.33')])
  assert.deepEqual(shareOut(usd('1.00'), []), [])
})

test('a month of random trades: rounded once, shared exactly, never off by more than a cent a user', () => {
  const trades = fc.array(fc.tuple(fc.nat(9), fc.bigInt({ min: 1n, max: 10n ** 14n })), { maxLength: 200 })
  const priced = fc.record({
    rateBps: fc.nat(10_000),
    perActiveUser: fc.bigInt({ min: 0n, max: 10_000n }).map((cents) => (cents * CENT) as Usd),
    monthlyMinimum: fc.bigInt({ min: 0n, max: 1_000_000n }).map((cents) => (cents * CENT) as Usd),
  })
  fc.assert(
    fc.property(trades, priced, (booked, terms) => {
      const volumes = new Map<number, bigint>()
      for (const [user, amount] of booked) volumes.set(user, (volumes.get(user) ?? 0n) + amount)
      const volume = sum(booked.map(([, amount]) => amount)) as Usd
      const chosen = tier(terms)
      const { total, volumeFee, userFee } = feesOf(chosen, { volume, activeUsers: volumes.size })
      const off = volumeFee * 10_000n - volume * BigInt(terms.rateBps)
      assert.ok((off < 0n ? -off : off) * 2n <= CENT * 10_000n, 'rounded by half a cent at most')
      assert.equal(userFee, BigInt(volumes.size) * terms.perActiveUser)
      const both = volumeFee + userFee
      assert.ok(total >= both && total >= terms.monthlyMinimum, 'not less than either')
      assert.ok(total === both || total === terms.monthlyMinimum, 'and one of the two')
      const weights = [...volumes.values()].map((own) => feeWeight(chosen, { trades: 1, volume: own as Usd }))
      assert.equal(sum(shareOut(total, weights)), volumes.size === 0 ? 0n : total)
    }),
  )
})

test('no fee in the test environment nor before the partner was there', () => {
  const activity = {
    activeUsers: 1,
    activePlans: 1,
    executionsCreated: 1,
    executionsFilled: 1,
    executionsPartial: 0,
    executionsFailed: 0,
    executionsCancelled: 0,
    volume: usd('1000.00'),
    btc: 1n as never,
    partnerFees: usd('0.00'),
  }
  const total = (environment: 'test' | 'live', partnerExisted: boolean, lastMinimum?: string) => {
    const statement = statementOf({
      tenant: { tenantId: 1, partnerSlug: 'acme', environment },
      period: periodOf('2026-01'),
      final: true,
      tier: tier({ monthlyMinimum: usd('100.00') }),
      tierSource: 'volume',
      activity,
      partnerExisted,
      lastMinimum: lastMinimum ?? null,
    })
    return [statement.billable, formatUsd(statement.fees.total), formatUsd(statement.fees.minimumFee)]
  }
  assert.deepEqual(total('live', true), [true, '100.00', '100.00'])
  assert.deepEqual(total('live', false), [true, '0.00', '0.00'])
  assert.deepEqual(total('test', true), [false, '0.00', '0.00'])
  assert.deepEqual(total('live', true, '2026-01'), [true, '100.00', '100.00'], 'its last month')
  assert.deepEqual(total('live', true, '2025-12'), [true, '5.00', '0.00'], 'a month after it')
})

test('a volume that adjustments brought below nothing is charged like none, and weighs nothing', () => {
  const below = usd('-100.00')
  const priced = tier({ perActiveUser: usd('1.00'), monthlyMinimum: usd('0.50') })
  assert.equal(feesOf(priced, { volume: below, activeUsers: 0 }).total, usd('0.50'))
  assert.deepEqual(feesOf(priced, { volume: below, activeUsers: 2 }).volumeFee, 0n)
  assert.equal(feeWeight(priced, { trades: 0, volume: below }), 0n)
  assert.equal(
    feeWeight(priced, { trades: 1, volume: below }),
    feeWeight(priced, { trades: 9, volume: usd('0.00') }),
  )
})

// Pricing tiers: the one that a month is charged by, and the terms that a new version inherits.

const VERSIONS: Tier[] = [
  tier(),
  tier({ name: 'growth', place: 2, minVolume: usd('1000000.00'), rateBps: 35 }),
  tier({ name: 'growth', place: 2, minVolume: usd('500000.00'), rateBps: 30, fromMonth: '2026-03' }),
  tier({ name: 'vip', place: 3, rateBps: 1, fromMonth: '2026-02' }),
]
const CHOICES: [month: string, volume: string, override: string | null, ...chosen: unknown[]][] = [
  ['2026-01', '999999.99999999', null, 'starter', 50, 'volume'],
  ['2026-01', '1000000.00', null, 'growth', 35, 'volume'],
  ['2026-02', '600000.00', null, 'starter', 50, 'volume'],
  ['2026-03', '499999.99', null, 'starter', 50, 'volume'],
  ['2026-03', '500000.00', null, 'growth', 30, 'volume'],
  ['2026-01', '0.00', 'growth', 'growth', 35, 'override'],
  ['2026-03', '0.00', 'growth', 'growth', 30, 'override'],
  ['2026-03', '9000000.00', 'starter', 'starter', 50, 'override'],
  ['2026-03', '9000000.00', 'vip', 'vip', 1, 'override'],
]
for (const [month, volume, override, ...wanted] of CHOICES) {
  test(`the tier of ${month} at ${volume}, override ${override}`, () => {
    for (const versions of [VERSIONS, VERSIONS.toReversed()]) {
      const chosen = chooseTier(tiersInForce(versions, month), override, usd(volume))
      assert.deepEqual([chosen.tier.name, chosen.tier.rateBps, chosen.tierSource], wanted)
    }
  })
}

test('of tiers that begin at one volume the one that was there first is charged, whatever comes later', () => {
  const many = Array.from({ length: 50 }, (_, i) =>
    tier({ name: `t${i}`, fromMonth: `20${30 + (i % 40)}-01`, place: 60 - i, rateBps: i }),
  )
  const at = (versions: Tier[]) => chooseTier(tiersInForce(versions, '2090-01'), null, usd('5.00')).tier.name
  assert.equal(at([...VERSIONS, ...many]), 'starter')
  const edited = tier({ fromMonth: '2089-01', rateBps: 45 })
  assert.equal(at([...many, edited, ...VERSIONS]), 'starter')
  // Of t0 and t40, which begin in the same month, t40 was set first.
  assert.equal(at(many), 't40')
})

test('an override that names what is not in force is never passed over in silence', () => {
  assert.throws(() => chooseTier(tiersInForce(VERSIONS, '2026-01'), 'vip', usd('0.00')), /vip/)
})

test('what no tier begins at reaches the lowest, of equal ones the oldest, and never one without a volume', () => {
  const later = tier({ name: 'vip', rateBps: 7, fromMonth: '2026-01', monthlyMinimum: usd('5000.00') })
  const without = [
    tier({ minVolume: usd('1000.00') }),
    { ...later, minVolume: null },
    tier({ name: 'growth', fromMonth: '2026-01', minVolume: usd('5000.00') }),
  ]
  const cases: [versions: Tier[], volume: string, name: string][] = [
    [[...VERSIONS, { ...later, minVolume: usd('0.00') }], '-1.00', 'starter'],
    [[...VERSIONS, { ...later, minVolume: null }], '-1.00', 'starter'],
    [VERSIONS, '-100.00', 'starter'],
    [without, '-1.00', 'starter'],
    [without, '0.00', 'starter'],
    [without, '999.00', 'starter'],
    [without, '5000.00', 'growth'],
  ]
  for (const [versions, volume, name] of cases)
    for (const each of [versions, versions.toReversed()])
      assert.equal(chooseTier(tiersInForce(each, '2026-01'), null, usd(volume)).tier.name, name, volume)
})

const NOW = Date.UTC(2026, 1, 10) as Instant
const GROWTH: TierTerms = { name: 'growth', rateBps: 33, fromMonth: null }
const grown = (more: Partial<Tier>) =>
  tier({ name: 'growth', place: 2, fromMonth: '2026-02', rateBps: 33, ...more })
const SET: [what: string, terms: TierTerms, made: Tier][] = [
  [
    'what is left out stays as it is in the version before',
    { ...GROWTH, fromMonth: '2026-04', perActiveUser: usd('1.00') },
    grown({ fromMonth: '2026-04', minVolume: usd('500000.00'), perActiveUser: usd('1.00') }),
  ],
  [
    'without a month, in the present one, before a version that is to come',
    GROWTH,
    grown({ minVolume: usd('1000000.00') }),
  ],
  ['zero is given, and not left out', { ...GROWTH, minVolume: usd('0.00') }, grown({})],
  [
    'a tier that is new begins with nothing',
    { name: 'flat', rateBps: 0, fromMonth: '2026-02', monthlyMinimum: usd('250.00') },
    tier({
      name: 'flat',
      place: 4,
      fromMonth: '2026-02',
      minVolume: null,
      rateBps: 0,
      monthlyMinimum: usd('250.00'),
    }),
  ],
]
for (const [what, terms, made] of SET) {
  test(`a tier is set: ${what}`, () => assert.deepEqual(setTier(VERSIONS, terms, NOW), made))
}

test('a tier is not set for a month that is over', () => {
  assert.throws(() => setTier(VERSIONS, { ...GROWTH, fromMonth: '2026-01' }, NOW), {
    code: 'month_closed',
    message: '2026-01 is over; a change can start in 2026-02 or later.',
  })
})

test('a credit beyond what is left of its invoice is refused with the limits, or with why there are none', () => {
  const issued = (number: string, net: string, corrects: string | null = null): Issued => ({
    number,
    partnerSlug: 'acme',
    month: '2026-10',
    corrects,
    issuedAt: 0 as Instant,
    net: usd(net),
    tax: usd('0'),
    details: number,
  })
  const [some, rest] = [issued('R-2', '20.00', 'R-1'), issued('R-3', '30.00', 'R-1')]
  for (const [earlier, message] of [
    [[], 'R-1 can be credited with 0.01 to 50.00, its net amount.'],
    [[some], 'R-1 can be credited with 0.01 to 30.00, what earlier credit notes have left of it.'],
    [[some, rest], 'R-1 has been credited in full: nothing is left of it.'],
  ] as const) {
    const asked = { earlier, net: usd('50.01'), tax: null, details: 'another' }
    assert.throws(() => creditOf(issued('R-1', '50.00'), asked), { message })
  }
})
