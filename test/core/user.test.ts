// Users: every state against every request, and the stored parts of a partner's request.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Instant, plus } from '../../src/core/time.ts'
import { linkUser, setUserStatus, type User, type UserRequest, type UserStatus } from '../../src/core/user.ts'

const T0 = Date.UTC(2026, 0, 5) as Instant
const NOW = plus(T0, 1)
const KNOWN: User = {
  partnerUserId: 'u1',
  email: 'a@example.com',
  authProvider: 'apple',
  consentVersion: 'v1',
  consentTimestamp: T0,
  status: 'linked',
  createdAt: T0,
  updatedAt: T0,
}
const SAID: UserRequest = {
  partnerUserId: 'u1',
  consentAccepted: true,
  consentVersion: 'v2',
  consentTimestamp: NOW,
}
const STATES = [null, 'linked', 'disabled'] as const
const userIn = (status: UserStatus | null): User | null => status && { ...KNOWN, status }

test('a link makes a user or updates one, and leaves a disabled one disabled', () => {
  for (const status of STATES) {
    const { user, stopsPlans } = linkUser(userIn(status), SAID, NOW)
    assert.deepEqual(user, {
      ...KNOWN,
      ...(status === null && { email: null, authProvider: null, createdAt: NOW }),
      status: status ?? 'linked',
      consentVersion: 'v2',
      consentTimestamp: NOW,
      updatedAt: NOW,
    })
    assert.equal(stopsPlans, false)
    assert.throws(() => linkUser(userIn(status), { ...SAID, consentAccepted: false }, NOW), {
      code: 'consent_required',
    })
  }
})

test('an optional field left out is kept, null clears it, and another value replaces it', () => {
  const said = (more: Partial<UserRequest>) => {
    const { email, authProvider } = linkUser(KNOWN, { ...SAID, ...more }, NOW).user
    return [email, authProvider]
  }
  assert.deepEqual(said({}), ['a@example.com', 'apple'])
  assert.deepEqual(said({ email: null }), [null, 'apple'])
  assert.deepEqual(said({ authProvider: null }), ['a@example.com', null])
  assert.deepEqual(said({ email: 'b@example.com', authProvider: 'google' }), ['b@example.com', 'google'])
})

test('a status is set for a user who is known, and a disable stops the plans, again if need be', () => {
  for (const wanted of ['linked', 'disabled'] as const) {
    assert.throws(() => setUserStatus(null, wanted, NOW), { code: 'user_not_found' })
    for (const status of ['linked', 'disabled'] as const)
      assert.deepEqual(setUserStatus({ ...KNOWN, status }, wanted, NOW), {
        user: { ...KNOWN, status: wanted, updatedAt: status === wanted ? T0 : NOW },
        stopsPlans: wanted === 'disabled',
      })
  }
})
