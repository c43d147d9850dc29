// Partners: what each change changes.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { usd } from '../../src/core/money.ts'
import {
  MIN_TRANCHE_LEAST,
  type Partner,
  setHeld,
  setMinTranche,
  setPartnerStatus,
} from '../../src/core/partner.ts'
import { type Instant, plus } from '../../src/core/time.ts'

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
  assert.deepEqual(setPartnerStatus(ACME, 'disabled', LATER), {
    ...ACME,
    status: 'disabled',
    updatedAt: LATER,
  })
  assert.deepEqual(setHeld(ACME, true, LATER), { ...ACME, held: true, updatedAt: LATER })
  assert.deepEqual(setMinTranche(ACME, usd('7.50'), LATER), {
    ...ACME,
    minTranche: usd('7.50'),
    updatedAt: LATER,
  })
})

test('a hold outlasts a change of status, and the reverse', () => {
  const both = setPartnerStatus(setHeld(ACME, true, T0), 'disabled', T0)
  assert.deepEqual(setPartnerStatus(both, 'active', T0), { ...ACME, held: true })
  assert.deepEqual(setHeld(both, false, T0), { ...ACME, status: 'disabled' })
})

test('the minimum tranche is a cent or more', () => {
  assert.equal(setMinTranche(ACME, MIN_TRANCHE_LEAST, T0).minTranche, usd('0.01'))
  assert.throws(() => setMinTranche(ACME, usd('0.00'), T0), {
    code: 'usage',
    message: 'The minimum tranche is at least 0.01.',
  })
})
