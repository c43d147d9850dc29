// A request that is wrong in several ways is told the first of them, in a fixed order:
// 401, 403 partner, 404/405 route, 413, 422, 404 resource, replay, 409, 403/400 rule.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AUDIT, fill, PLAN, startService, USER } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  executionsOf,
  type Json,
  LOW_PRICE,
  PLANS,
  PRICE,
  plan,
  poll,
  sendFirst,
  setUser,
  succeed,
  USERS,
  userPath,
} from './steps.ts'

const ME = '/partner/v1/me'
const HUGE = 'x'.repeat(70_000)
const latin1 = Buffer.from('{"partner_user_id":"\u00fc"', 'latin1')

type Case = readonly [told: string, status: number, method: string, path: string, body?: unknown]

test('who is asking comes before what is asked', async (t) => {
  const service = await startService(t, { rateLimit: 1000 })
  const live = await service.issueKey('gone', 'live')
  await service.store.changePartner('gone', (seen) => ({ ...seen, status: 'disabled' }), AUDIT)
  const requests = [
    ['GET', ME],
    ['GET', '/nowhere'],
    ['GET', '/%zz'],
    ['PUT', ME],
    ['POST', USERS, HUGE],
    ['POST', USERS, latin1],
    ['POST', USERS, {}],
    ['POST', confirmPath('exec_0'), fill('o', '1')],
  ] as const
  for (const [method, path, body] of requests) {
    for (const [key, status] of [
      [null, 401],
      ['x', 401],
      [live, 403],
    ] as const) {
      assert.equal((await service.call(method, path, body, { key })).status, status, `${method} ${path}`)
    }
  }
})

test('the route comes before the body, the size before the shape, the shape before the resource', async (t) => {
  const service = await startService(t)
  const cases: readonly Case[] = [
    ['route before size', 404, 'POST', '/nowhere', HUGE],
    ['route before shape', 404, 'POST', '/nowhere', '{'],
    ['method before size', 405, 'PUT', USERS, HUGE],
    ['method before shape', 405, 'DELETE', userPath('nobody'), '{'],
    ['size before shape', 413, 'POST', USERS, HUGE],
    ['size before encoding', 413, 'POST', USERS, Buffer.alloc(70_000, 0xff)],
    ['size before the resource', 413, 'PATCH', userPath('nobody'), HUGE],
    ['encoding before shape', 400, 'POST', USERS, latin1],
    ['shape before the user of a path', 422, 'PATCH', userPath('nobody'), { status: 'x' }],
    ['shape before the execution of a path', 422, 'POST', confirmPath('exec_0'), { status: 'filled' }],
    ['shape before the user of a plan', 422, 'POST', PLANS, { ...PLAN, amount_usd: '0' }],
    ['shape before consent', 422, 'POST', USERS, { ...USER, consent_accepted: false, email: '' }],
  ]
  for (const [told, status, method, path, body] of cases) {
    assert.equal((await service.call(method, path, body)).status, status, told)
  }
})

test('a missing resource comes before a conflict, a conflict before a rule', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['a', 'b', 'gone'])
  await service.tick(LOW_PRICE)
  const [a = '', b = ''] = ['a', 'b'].map((name) => sent.get(name))
  const pending =
    (await executionsOf(service, 'b')).find(({ status }) => status === 'pending')?.executionId ?? ''
  await succeed(service, 'POST', confirmPath(a), fill('order-a', '10.00'))
  await plan(service, 'gone', 'ended', { status: 'cancelled' })
  await setUser(service, 'gone', 'disabled')
  const planBody = (user: string, id: string, more: Json = {}) => ({
    ...PLAN,
    partner_user_id: user,
    partner_plan_id: id,
    ...more,
  })
  const cases: readonly Case[] = [
    ['no such execution, too much', 404, 'POST', confirmPath('exec_0'), fill('x', '999')],
    ['no such execution, order id taken', 404, 'POST', confirmPath('exec_0'), fill('order-a', '1')],
    ['replay', 200, 'POST', confirmPath(a), fill('order-a', '10.00')],
    ['recorded, too much', 409, 'POST', confirmPath(a), fill('order-a', '999')],
    ['pending, too much', 409, 'POST', confirmPath(pending), fill('x', '999')],
    ['pending, order id taken', 409, 'POST', confirmPath(pending), fill('order-a', '1')],
    ['order id taken, too much', 409, 'POST', confirmPath(b), fill('order-a', '999')],
    ['cancelled, too much', 409, 'POST', confirmPath(sent.get('gone') ?? ''), fill('x', '999')],
    ['unknown user, plan of another', 404, 'POST', PLANS, planBody('nobody', 'a')],
    ['disabled user, plan of another', 409, 'POST', PLANS, planBody('gone', 'a')],
    ['disabled user, cancelled plan', 409, 'POST', PLANS, planBody('gone', 'ended', { status: 'active' })],
    ['disabled user, cancelled plan again', 200, 'POST', PLANS, planBody('gone', 'ended')],
    ['disabled user, new plan', 403, 'POST', PLANS, planBody('gone', 'new')],
    ['another user, cancelled plan', 409, 'POST', PLANS, planBody('a', 'ended')],
  ]
  for (const [told, status, method, path, body] of cases) {
    const answer = await service.call(method, path, body)
    assert.equal(answer.status, status, `${told}: ${JSON.stringify(answer.body)}`)
  }
  // Nothing of all this took the executions out of the partner's hands.
  assert.equal((await poll(service)).get('b')?.length, 1)
  await assertSound(service)
})

test('a tick between the requests changes no answer', async (t) => {
  const service = await startService(t)
  const a = (await sendFirst(service, ['a'])).get('a') ?? ''
  const [, recorded, unknown] = await Promise.all([
    service.tick(PRICE),
    succeed(service, 'POST', confirmPath(a), fill('order-a', '10.00')),
    service.call('POST', confirmPath('exec_0'), fill('x', '1')),
  ])
  assert.deepEqual([recorded.status, recorded.replayed], ['filled', undefined])
  assert.deepEqual([unknown.status, unknown.body], [404, { detail: 'Execution not found.' }])
  assert.equal((await succeed(service, 'POST', confirmPath(a), fill('order-a', '10.00'))).replayed, true)
  await assertSound(service)
})
