// Pricing tiers: which one a month is charged by, and what a new version inherits.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chooseTier, setTier, type Tier, type TierTerms, tiersInForce } from '../../src/core/fees.ts'
import { usd } from '../../src/core/money.ts'
import type { Instant } from '../../src/core/time.ts'
import { tier } from '../support/samples.ts'

const VERSIONS: Tier[] = [
  tier(),
  tier({ name: 'growth', place: 2, minVolume: usd('1000000.00'), rateBps: 35 }),
  tier({ name: 'growth', place: 2, minVolume: usd('500000.00'), rateBps: 30, fromMonth: '2026-03' }),
  tier({ name: 'vip', place: 3, rateBps: 1, fromMonth: '2026-02' }),
]
const CHOICES: [
  month: string,
  volume: string,
  override: string | null,
  name: string,
  bps: number,
  source: string,
][] = [
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
for (const [month, volume, override, name, bps, source] of CHOICES) {
  test(`the tier of ${month} at ${volume}, override ${override}`, () => {
    for (const versions of [VERSIONS, VERSIONS.toReversed()]) {
      const chosen = chooseTier(tiersInForce(versions, month), override, usd(volume))
      assert.deepEqual([chosen.tier.name, chosen.tier.rateBps, chosen.tierSource], [name, bps, source])
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

test('a volume that adjustments brought below nothing reaches the lowest tier, of equal ones the oldest', () => {
  const later = tier({ name: 'vip', rateBps: 7, fromMonth: '2026-01', monthlyMinimum: usd('5000.00') })
  for (const minVolume of [usd('0.00'), null])
    for (const versions of [
      [...VERSIONS, { ...later, minVolume }],
      [{ ...later, minVolume }, ...VERSIONS],
    ])
      assert.equal(chooseTier(tiersInForce(versions, '2026-01'), null, usd('-1.00')).tier.name, 'starter')
})

test('a tier without a volume is never reached, whatever the others begin at', () => {
  const versions = [
    tier({ minVolume: usd('1000.00') }),
    tier({ name: 'vip', fromMonth: '2026-01', minVolume: null }),
    tier({ name: 'growth', fromMonth: '2026-01', minVolume: usd('5000.00') }),
  ]
  for (const [volume, name] of [
    ['-1.00', 'starter'],
    ['0.00', 'starter'],
    ['999.00', 'starter'],
    ['5000.00', 'growth'],
  ] as const)
    assert.equal(chooseTier(tiersInForce(versions, '2026-01'), null, usd(volume)).tier.name, name)
})

test('with one tier at each volume, what is below nothing reaches the lowest', () => {
  assert.equal(chooseTier(tiersInForce(VERSIONS, '2026-01'), null, usd('-100.00')).tier.name, 'starter')
})

const NOW = Date.UTC(2026, 1, 10) as Instant
const GROWTH: TierTerms = { name: 'growth', rateBps: 33, fromMonth: null }
const SET: [what: string, terms: TierTerms, made: Tier][] = [
  [
    'what is left out stays as it is in the version before',
    { ...GROWTH, fromMonth: '2026-04', perActiveUser: usd('1.00') },
    tier({
      name: 'growth',
      place: 2,
      fromMonth: '2026-04',
      minVolume: usd('500000.00'),
      rateBps: 33,
      perActiveUser: usd('1.00'),
    }),
  ],
  [
    'without a month, in the present one, before a version that is to come',
    GROWTH,
    tier({ name: 'growth', place: 2, fromMonth: '2026-02', minVolume: usd('1000000.00'), rateBps: 33 }),
  ],
  [
    'zero is given, and not left out',
    { ...GROWTH, minVolume: usd('0.00') },
    tier({ name: 'growth', place: 2, fromMonth: '2026-02', rateBps: 33 }),
  ],
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
