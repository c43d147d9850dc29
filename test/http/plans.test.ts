// Users and plans over HTTP: the answers, and each refusal.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DAY_MS } from '../../src/core/time.ts'
import { PLAN, startService, T0, USER } from '../support/service.ts'
import {
  assertSound,
  type Json,
  LOW_PRICE,
  link,
  PLANS,
  PRICE,
  plan,
  setUser,
  succeed,
  USERS,
  userPath,
  windowsOf,
} from './steps.ts'

const DESCRIPTION = join(import.meta.dirname, '../../fixtures/openapi/openapi.json')
const DATES = ['consent_timestamp', 'start_date']
const OFF = { smart_timing_enabled: false }

// The effect of a user's or a plan's request in every state is tested in test/core/user.test.ts and plan.test.ts.

test('each refusal of a user and of a plan says why, and changes nothing', async (t) => {
  const service = await startService(t)
  for (const id of ['linked', 'other', 'disabled']) await link(service, id)
  for (const [user, id] of [
    ['linked', 'mine'],
    ['linked', 'over'],
    ['disabled', 'stopped'],
  ] as const)
    await plan(service, user, id)
  await plan(service, 'linked', 'over', { status: 'cancelled' })
  const stopped = await setUser(service, 'disabled', 'disabled')
  assert.deepEqual([stopped.status, stopped.plans_paused, stopped.executions_cancelled], ['disabled', 1, 0])
  const planOf = (user: string, id: string, more = {}): Json => ({
    ...PLAN,
    partner_user_id: user,
    partner_plan_id: id,
    ...more,
  })
  const cases: [method: string, path: string, body: Json, status: number, detail: RegExp][] = [
    ['POST', USERS, { ...USER, consent_accepted: false }, 400, /^User consent is required\.$/],
    ['PATCH', userPath('nobody'), { status: 'disabled' }, 404, /^Partner user not found\.$/],
    [
      'POST',
      PLANS,
      planOf('nobody', 'new'),
      404,
      /^Partner user not found; create and link the user first\.$/,
    ],
    ['POST', PLANS, planOf('disabled', 'new'), 403, /^Partner user is not active \(disabled\)\.$/],
    ['POST', PLANS, planOf('disabled', 'stopped'), 403, /^Partner user is not active \(disabled\)\.$/],
    [
      'POST',
      PLANS,
      planOf('other', 'mine'),
      409,
      /mine.* different partner_user_id.*cancel.*create a new plan/,
    ],
    [
      'POST',
      PLANS,
      planOf('linked', 'over', { status: 'active' }),
      409,
      /over.*cancelled plan cannot be reactivated.*new partner_plan_id/,
    ],
  ]
  const state = async () => [await succeed(service, 'GET', USERS), await succeed(service, 'GET', PLANS)]
  const before = await state()
  for (const [method, path, body, status, detail] of cases) {
    const answer = await service.call(method, path, body)
    assert.equal(answer.status, status, JSON.stringify(answer.body))
    assert.deepEqual(Object.keys(answer.body), ['detail'])
    assert.match(answer.body.detail, detail)
  }
  assert.deepEqual(await state(), before)
})

test('the answer to a user is the whole user: what was left out is kept, null clears it', async (t) => {
  const service = await startService(t)
  const send = (more: Json) => succeed(service, 'POST', USERS, { ...USER, ...more })
  const first = await send({ email: 'a@example.com', auth_provider: 'apple' })
  assert.deepEqual(first, {
    partner_user_id: 'u1',
    email: 'a@example.com',
    auth_provider: 'apple',
    consent_accepted: true,
    consent_version: 'v1',
    consent_timestamp: '2026-01-01T00:00:00.000Z',
    status: 'linked',
    created_at: '2026-01-05T00:00:00.000Z',
    updated_at: '2026-01-05T00:00:00.000Z',
  })
  service.advance(1000)
  const later = { ...first, updated_at: '2026-01-05T00:00:01.000Z' }
  assert.deepEqual(await send({ email: null }), { ...later, email: null })
})

test('a plan of a first request is answered whole, with its defaults', async (t) => {
  const service = await startService(t)
  await link(service, 'u')
  const created = await plan(service, 'u', 'p')
  assert.deepEqual(created, {
    ...PLAN,
    partner_user_id: 'u',
    partner_plan_id: 'p',
    smart_timing_enabled: true,
    start_date: '2026-01-05T00:00:00.000Z',
    status: 'active',
    created_at: '2026-01-05T00:00:00.000Z',
    updated_at: '2026-01-05T00:00:00.000Z',
  })
})

test('each field of a body is answered as it was sent, in a first request and in later ones', async (t) => {
  const service = await startService(t)
  const { components } = JSON.parse(readFileSync(DESCRIPTION, 'utf8'))
  const sampleOf = (name: string): Json =>
    Object.fromEntries(
      Object.entries<{ examples: [unknown] }>(components.schemas[name].properties).map(
        ([field, { examples }]) => [field, examples[0]],
      ),
    )
  const assertAnswered = (answer: Json, sent: Json) => {
    for (const [field, value] of Object.entries(sent)) {
      if (DATES.includes(field))
        assert.equal(Date.parse(String(answer[field])), Date.parse(String(value)), field)
      else assert.equal(answer[field], value, field)
    }
  }
  const user = sampleOf('UserRequest')
  assertAnswered(await succeed(service, 'POST', USERS, user), user)
  const whole = sampleOf('PlanRequest')
  const { partner_user_id, amount_usd, frequency } = whole
  for (const before of [null, { amount_usd, frequency }, { amount_usd: '1.00', frequency }]) {
    const id = { partner_user_id, partner_plan_id: JSON.stringify(before) }
    if (before) await succeed(service, 'POST', PLANS, { ...id, ...before })
    assertAnswered(await succeed(service, 'POST', PLANS, { ...whole, ...id }), { ...whole, ...id })
    assertAnswered(await succeed(service, 'GET', `${PLANS}/${encodeURIComponent(id.partner_plan_id)}`), {
      ...whole,
      ...id,
    })
  }
})

test('smart timing off fires nothing, on again goes on in the window that runs', async (t) => {
  const service = await startService(t)
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await service.tick(PRICE)
  await plan(service, 'u', 'p', OFF)
  service.advance(DAY_MS / 2)
  assert.equal((await service.tick(LOW_PRICE)).executionsCreated, 0)
  // Left out, it keeps its value.
  assert.equal((await plan(service, 'u', 'p')).smart_timing_enabled, false)
  await plan(service, 'u', 'p', { smart_timing_enabled: true })
  assert.equal((await service.tick(PRICE)).executionsCreated, 1)
  assert.equal((await windowsOf(service, 'p')).length, 1)

  await plan(service, 'u', 'p', OFF)
  service.advance(2 * DAY_MS)
  await plan(service, 'u', 'p', { smart_timing_enabled: true })
  await service.tick(PRICE)
  const [ended, present] = await windowsOf(service, 'p')
  assert.equal(ended?.closed?.reason, 'ended')
  assert.equal(present?.start, T0 + 2 * DAY_MS)
  await assertSound(service)
})
