// Users and plans over HTTP: the answers, each refusal, and a plan's next step.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, formatInstant, type Instant, MINUTE_MS } from '../../src/core/time.ts'
import { startBench } from '../sandbox/bench.ts'
import { AUDIT, fill, PLAN, type Service, startService, T0, USER } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  EXECUTIONS,
  type Json,
  LOW_PRICE,
  link,
  PLANS,
  PRICE,
  plan,
  planPath,
  poll,
  setUser,
  succeed,
  USERS,
  userPath,
  windowsOf,
} from './steps.ts'

const OFF = { smart_timing_enabled: false }

// What a request of a user or a plan leads to in every state is in test/core/user.test.ts and test/core/plan.test.ts.

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

// When a plan's next step comes: as long as the scheduler has to take it, that is never in the past.

test('a plan never looks for its next step in the past', async (t) => {
  const bench = await startBench(t)
  const here = await bench.store.findTenant('acme', 'test')
  assert.ok(here)
  /** The step and its time, in minutes from the time of the sandbox. */
  const next = async (id: string): Promise<[unknown, number | null]> => {
    const { as_of } = await succeed(bench, 'GET', EXECUTIONS)
    const { next_step, next_step_at: at } = await succeed(bench, 'GET', planPath(id))
    return [next_step, at === null ? null : (Date.parse(at) - Date.parse(as_of)) / MINUTE_MS]
  }
  const hold = (held: boolean) => bench.store.changePartner('acme', (seen) => ({ ...seen, held }), AUDIT)
  await link(bench, 'u')
  await plan(bench, 'u', 'on')
  await plan(bench, 'u', 'off', { smart_timing_enabled: false })
  await plan(bench, 'u', 'paused', { status: 'paused' })
  await plan(bench, 'u', 'spent', { amount_usd: '1.00' })
  await link(bench, 'other')
  await plan(bench, 'other', 'later', {
    start_date: formatInstant((bench.now() + 9 * DAY_MS) as Instant),
  })
  bench.advance(30_000)
  assert.deepEqual(await next('on'), ['buy', 0], 'no pass has looked at it yet')
  await bench.tick(PRICE)
  await reportBought(bench, ['1.00', '10.00'])
  assert.deepEqual(await next('spent'), ['next_window', 24 * 60 - 0.5])
  const [step, minutes] = await next('on')
  assert.ok(step === 'buy' && minutes !== null && minutes > 0, `${step} ${minutes}`)

  // The sandbox is three days ahead of the machine, and its passes have left what is off or paused alone.
  await bench.goAhead(here, 3 * DAY_MS)
  assert.deepEqual(await next('off'), ['enable_smart_timing', null])
  await plan(bench, 'u', 'off', { smart_timing_enabled: true })
  assert.deepEqual(await next('off'), ['next_window', 0], 'its window ended while it was off')
  await hold(true)
  assert.deepEqual(await next('off'), ['release_hold', null])
  await hold(false)
  await setUser(bench, 'u', 'disabled')
  assert.deepEqual(await next('off'), ['link_user', null])
  await setUser(bench, 'u', 'linked')
  assert.deepEqual(await next('off'), ['activate', null])
  await plan(bench, 'u', 'off', { status: 'active' })
  assert.deepEqual(await next('off'), ['buy', 0], 'a window that begins now')
  await plan(bench, 'u', 'paused', { status: 'active', smart_timing_enabled: false })
  await plan(bench, 'u', 'paused', { smart_timing_enabled: true })
  assert.deepEqual(await next('paused'), ['buy', 0])
  assert.deepEqual(await next('later'), ['buy', 6 * 24 * 60 - 0.5])

  // Nobody runs a pass for two days, and then one does: what was overdue is done.
  bench.advance(2 * DAY_MS)
  for (const id of ['off', 'paused']) assert.deepEqual(await next(id), ['next_window', 0], id)
  await bench.tick(PRICE)
  for (const id of ['off', 'paused']) assert.deepEqual(await next(id), ['confirm', null], id)
  await assertSound(bench)
})

/** Polls, and confirms everything of these amounts as bought whole. */
async function reportBought(service: Service, amounts: readonly string[]): Promise<void> {
  for (const { execution_id, amount_usd } of [...(await poll(service)).values()].flat())
    if (amounts.includes(String(amount_usd)))
      await succeed(
        service,
        'POST',
        confirmPath(String(execution_id)),
        fill(`o-${execution_id}`, String(amount_usd)),
      )
}
