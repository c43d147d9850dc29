// What a user agreed to, and when: evidence that an operator can read, whatever became of the user.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openShell, PLAN, USER } from '../support/service.ts'

test('user show has every consent once, oldest first, also after a disable and an erasure', async (t) => {
  const shell = openShell(t)
  await shell.tranche(['partner', 'create', 'acme', '--name', 'Acme'])
  const key = (await shell.tranche(['key', 'create', 'acme', '--env', 'live'])).out.trim()
  const call = async (method: string, path: string, body: object) =>
    assert.equal((await shell.call(method, `/partner/v1/${path}`, key, JSON.stringify(body))).status, 200)
  const show = async () =>
    JSON.parse((await shell.tranche(['user', 'show', 'acme', 'u1', '--env', 'live', '--json'])).out)

  await call('POST', 'users', { ...USER, email: 'ann@example.org' })
  shell.advance(1_000)
  // The same again is not a consent of its own; another version is, and so is the old one given anew.
  await call('POST', 'users', USER)
  await call('POST', 'users', {
    ...USER,
    consent_version: 'v2',
    consent_timestamp: '2026-01-05T02:00:00+02:00',
  })
  shell.advance(1_000)
  await call('POST', 'users', { ...USER, consent_timestamp: '2026-01-05T00:00:02Z' })
  await call('POST', 'plans', PLAN)
  const consents = [
    ['v1', '2026-01-01T00:00:00.000Z', '2026-01-05T00:00:00.000Z'],
    ['v2', '2026-01-05T00:00:00.000Z', '2026-01-05T00:00:01.000Z'],
    ['v1', '2026-01-05T00:00:02.000Z', '2026-01-05T00:00:02.000Z'],
  ].map(([consent_version, consent_timestamp, received_at]) => ({
    consent_version,
    consent_timestamp,
    received_at,
  }))
  const linked = await show()
  assert.deepEqual(linked.consents, consents)
  assert.deepEqual([linked.status, linked.email, linked.erased_at], ['linked', 'ann@example.org', null])
  assert.deepEqual(
    linked.plans.map((plan: { partner_plan_id: string; status: string }) => [
      plan.partner_plan_id,
      plan.status,
    ]),
    [['p1', 'active']],
  )

  await call('PATCH', 'users/u1', { status: 'disabled' })
  assert.equal((await shell.tranche(['user', 'erase', 'acme', 'u1', '--env', 'live', '--yes'])).code, 0)
  const gone = await show()
  assert.deepEqual(gone.consents, consents)
  assert.deepEqual([gone.status, gone.email, gone.plans[0].status], ['disabled', null, 'paused'])
  assert.notEqual(gone.erased_at, null)

  const words = (await shell.tranche(['user', 'show', 'acme', 'u1', '--env', 'live'])).out
  for (const { consent_version, consent_timestamp, received_at } of consents)
    assert.match(words, new RegExp(`^${consent_version} +${consent_timestamp} +${received_at}$`, 'm'))
  for (const [line, problem] of [
    ['user show acme u2 --env live', 'user_not_found'],
    ['user show acme u1 --env test', 'user_not_found'],
    ['user show bolt u1 --env live', 'partner_not_found'],
  ] as const) {
    const { code, out, err } = await shell.tranche([...line.split(' '), '--json'])
    assert.deepEqual([code, out, JSON.parse(err).error.code], [4, '', problem], line)
  }
})
