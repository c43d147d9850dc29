// Partners and their keys: the effect of each change, the lifetime of a key, rotation and revocation.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import {
  type ApiKey,
  isUsable,
  isWellFormedKey,
  makeKey,
  revoke,
  rotate,
  visibleParts,
} from '../../src/core/key.ts'
import { usd } from '../../src/core/money.ts'
import {
  endMinimum,
  MIN_TRANCHE_LEAST,
  type Partner,
  setHeld,
  setMinTranche,
  setPartnerStatus,
} from '../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, type Instant, parseInstant, plus } from '../../src/core/time.ts'

const T0 = Date.UTC(2026, 0, 5) as Instant
const LATER = plus(T0, 1)
const ACME: Partner = {
  partnerSlug: 'acme',
  name: 'Acme',
  status: 'active',
  minTranche: usd('5.00'),
  held: false,
  createdAt: T0,
  updatedAt: T0,
}

test('each change of a partner changes one thing and when it was changed', () => {
  for (const [changed, change] of [
    [setPartnerStatus(ACME, 'disabled', LATER), { status: 'disabled' }],
    [setHeld(ACME, true, LATER), { held: true }],
    [setMinTranche(ACME, usd('7.50'), LATER), { minTranche: usd('7.50') }],
  ] as const)
    assert.deepEqual(changed, { ...ACME, ...change, updatedAt: LATER })
})

test('a hold outlasts a change of status, and the reverse', () => {
  const both = setPartnerStatus(setHeld(ACME, true, T0), 'disabled', T0)
  assert.deepEqual(setPartnerStatus(both, 'active', T0), { ...ACME, held: true, lastMinimum: null })
  assert.deepEqual(setHeld(both, false, T0), { ...ACME, status: 'disabled' })
})

test('a minimum ends with the month before the present one at the earliest, so no month that is over changes', () => {
  const march = parseInstant('2026-03-01T00:00:00Z')
  const now = march.ok ? march.at : T0
  for (const last of ['2026-02', '2026-03', '2031-01', null])
    assert.deepEqual(endMinimum(ACME, last, now), { ...ACME, lastMinimum: last, updatedAt: now })
  for (const last of ['2026-01', '2025-12', '0001-01'])
    assert.throws(() => endMinimum(ACME, last, now), {
      code: 'month_closed',
      message:
        '2026-02 is over, and its minimum stays as it was charged: the last month with a minimum is 2026-02 or later.',
    })
})

test('the minimum tranche is a cent or more', () => {
  assert.equal(setMinTranche(ACME, MIN_TRANCHE_LEAST, T0).minTranche, usd('0.01'))
  assert.throws(() => setMinTranche(ACME, usd('0.00'), T0), {
    code: 'usage',
    message: 'The minimum tranche is at least 0.01.',
  })
})

// API keys: their text, their lifetime, rotation and revocation.

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const NOW = Date.UTC(2026, 0, 5) as Instant
const bytes = (n: number) => randomBytes(n)

test('a key names its environment, carries forty random characters and ends in its checksum', () => {
  for (const environment of ['test', 'live'] as const) {
    const key = makeKey(environment, bytes)
    assert.match(key, new RegExp(`^sse_${environment}_[0-9A-Za-z]{46}$`))
    assert.ok(isWellFormedKey(key))
    assert.deepEqual(visibleParts(key), { prefix: `sse_${environment}_`, lastFour: key.slice(-4) })

    let value = 0
    for (const character of key.slice(-6)) value = value * 62 + BASE62.indexOf(character)
    assert.equal(value, crc32(key.slice(0, -6)), 'the checksum is the CRC-32 of everything before it')
  }
})

test('bytes that would favour some characters are thrown away', () => {
  let round = 0
  const key = makeKey('test', (n) => new Uint8Array(n).fill(round++ === 0 ? 248 : 247))
  assert.equal(key.slice(9, 49), BASE62[247 % 62]?.repeat(40))
  assert.equal(round, 2)
})

test('one mistyped character or two swapped ones are always noticed', () => {
  const key = makeKey('live', bytes)
  const character = fc.constantFrom(...BASE62)
  fc.assert(
    fc.property(fc.integer({ min: 9, max: key.length - 1 }), character, (i, typed) => {
      const mistyped = key.slice(0, i) + typed + key.slice(i + 1)
      assert.equal(isWellFormedKey(mistyped), mistyped === key)
    }),
    { numRuns: 300 },
  )
  for (let i = 9; i < key.length - 1; i++) {
    const swapped = key.slice(0, i) + key[i + 1] + key[i] + key.slice(i + 2)
    assert.equal(isWellFormedKey(swapped), swapped === key, `swapped at ${i}`)
  }
})

test('texts of another form are not keys', () => {
  const key = makeKey('test', bytes)
  const others = ['', 'sse_test_', key.slice(1), `${key}a`, key.toUpperCase(), `${key}\n`, ` ${key}`]
  for (const text of [...others, key.replace('test', 'live'), key.replace('test', 'prod')]) {
    assert.equal(isWellFormedKey(text), false, JSON.stringify(text))
  }
})

test('a key works until the millisecond it ends, and never once it is revoked', () => {
  const table: [revoked: number | null, expires: number | null, usable: boolean][] = [
    [null, null, true],
    [null, 1, true],
    [null, 0, false],
    [365 * DAY_MS, null, false],
    [0, null, false],
    [1, -1, false],
    [-1, 1, false],
  ]
  for (const [revoked, expires, usable] of table) {
    const ended = { ...OLD, revokedAt: revoked as Instant | null, expiresAt: expires as Instant | null }
    assert.equal(isUsable(ended, 0 as Instant), usable, `revoked ${revoked}, expires ${expires}`)
  }
})

const AT_NOW = { now: NOW, clock: NOW, isRotated: false }
const OLD: ApiKey = {
  keyId: 'key_1',
  tenant: { tenantId: 1, partnerSlug: 'acme', environment: 'live' },
  prefix: 'sse_live_',
  lastFour: 'abcd',
  label: 'poller',
  createdAt: plus(NOW, -10 * DAY_MS),
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
}
const ROTATED: [what: string, expires: number | null, ends: number, lifetimeMs: number | null][] = [
  ['a key without an end ends with the overlap, its successor never', null, 24 * HOUR_MS, null],
  ['a key with an end beyond the overlap ends with it', 80 * DAY_MS, 24 * HOUR_MS, 90 * DAY_MS],
  ['a key that ends before the overlap lives no longer for it', HOUR_MS, HOUR_MS, 10 * DAY_MS + HOUR_MS],
]
for (const [what, expires, ends, lifetimeMs] of ROTATED) {
  test(`rotation: ${what}`, () => {
    const seen = { ...OLD, expiresAt: expires === null ? null : plus(NOW, expires) }
    assert.deepEqual(rotate(seen, 24 * HOUR_MS, AT_NOW), {
      key: { ...seen, expiresAt: plus(NOW, ends) },
      successor: { tenant: OLD.tenant, label: 'poller', lifetimeMs },
    })
  })
}

test('a key that has ended has no successor', () => {
  const message = 'Key key_1 is revoked or expired; issue a new one with key create.'
  const refusal = { code: 'key_ended', message }
  assert.throws(() => rotate({ ...OLD, revokedAt: NOW }, HOUR_MS, AT_NOW), refusal)
  assert.throws(() => rotate({ ...OLD, expiresAt: NOW }, HOUR_MS, AT_NOW), refusal)
})

test('a key that has a successor gets no second one: it would live no longer than what is left of the first', () => {
  const seen = { ...OLD, expiresAt: plus(NOW, 24 * HOUR_MS) }
  assert.throws(() => rotate(seen, HOUR_MS, { ...AT_NOW, isRotated: true }), {
    code: 'key_ended',
    message:
      'Key key_1 has a successor, which `tranche key list acme` shows. If nobody has its secret any more, issue another with `tranche key create acme --env live`.',
  })
})

test('a key is revoked once, and from that very moment', () => {
  const revoked = revoke(OLD, AT_NOW)
  assert.deepEqual(revoked, { ...OLD, revokedAt: NOW })
  assert.equal(isUsable(revoked, NOW), false)
  assert.deepEqual(revoke(revoked, { ...AT_NOW, clock: plus(NOW, HOUR_MS) }), revoked)
})
