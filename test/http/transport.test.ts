// What surrounds every answer: headers, routes and methods, body sizes, unexpected failures.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Log } from '../../src/log.ts'
import { fill, startService, USER } from '../support/service.ts'
import { exchange, head } from './raw.ts'
import {
  assertSound,
  confirmPath,
  DUE,
  EXECUTIONS,
  link,
  PLANS,
  PRICE,
  plan,
  planPath,
  poll,
  sendFirst,
  succeed,
  TRADES,
  USERS,
  userPath,
  WEBHOOKS,
} from './steps.ts'

const ME = '/partner/v1/me'
const LIMIT = 65_536
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

test('every answer has a request id, is JSON and is not to be cached', async (t) => {
  const { call } = await startService(t)
  const requests = [
    ['GET', ME, undefined, 200],
    ['POST', USERS, USER, 200],
    ['POST', USERS, {}, 422],
    ['POST', USERS, { ...USER, consent_accepted: false }, 400],
    ['PATCH', userPath('nobody'), { status: 'linked' }, 404],
    ['GET', '/', undefined, 404],
    ['DELETE', ME, undefined, 405],
    ['POST', USERS, 'x'.repeat(LIMIT + 1), 413],
  ] as const
  const ids = new Set<string>()
  for (const [method, path, body, status] of requests) {
    const answer = await call(method, path, body)
    assert.equal(answer.status, status)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.match(answer.headers.get('content-type') ?? '', /^application\/json\b/)
    assert.match(answer.headers.get('x-request-id') ?? '', UUID)
    // No page of another site may read an answer, and none says what made it.
    for (const name of answer.headers.keys())
      assert.doesNotMatch(name, /^(access-control-|server$|x-powered-by$)/)
    ids.add(answer.headers.get('x-request-id') ?? '')
    if (status !== 200) assert.deepEqual(Object.keys(answer.body), ['detail'])
  }
  const unknown = await call('GET', ME, undefined, { key: null })
  assert.match(unknown.headers.get('x-request-id') ?? '', UUID)
  assert.equal(unknown.headers.get('cache-control'), 'no-store')
  assert.equal(ids.size, requests.length)
})

test('a sane request id is echoed, any other one replaced', async (t) => {
  const { call, url, key } = await startService(t)
  const echoed = async (id: string) =>
    (await call('GET', ME, undefined, { headers: { 'x-request-id': id } })).headers.get('x-request-id')
  for (const id of ['a', 'req-1', 'A.b_c-9', '0'.repeat(128), '8f6e0f9e-6d0f-4b0c-8f57-0d1b3a3f4c11']) {
    assert.equal(await echoed(id), id)
  }
  for (const id of ['', 'a b', 'a,b', '0'.repeat(129), '<script>', 'a\u00e9', '{"a":1}', 'a;b', '$(x)']) {
    assert.match((await echoed(id)) ?? '', UUID, id)
  }
  // A log has the id of every call. A client that sends a key there, as it is or inside something, does so by mistake.
  for (const id of [key, `Bearer.${key}`, key.replace('test', 'live'), 'sse_whsec_abc'])
    assert.match((await echoed(id)) ?? '', UUID, id)
  // Also with the answer to a request that is refused.
  const refused = await exchange(url, [head('GET', '/nowhere', key, ['X-Request-Id: mine'])])
  assert.equal(refused.headers.get('x-request-id'), 'mine')
})

const ALLOW: Record<string, readonly string[]> = {
  [ME]: ['GET'],
  [USERS]: ['POST'],
  [userPath('u')]: ['PATCH'],
  [PLANS]: ['POST', 'GET'],
  [planPath('p')]: ['GET'],
  [EXECUTIONS]: ['GET'],
  [TRADES]: ['GET'],
  [DUE]: ['GET'],
  [confirmPath('exec_0')]: ['POST'],
  [WEBHOOKS]: ['POST', 'GET', 'DELETE'],
}
const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE']

test('a wrong method is told the right ones, and no method leases but GET', async (t) => {
  const service = await startService(t)
  await link(service, 'p')
  await plan(service, 'p', 'p')
  await service.tick(PRICE)
  for (const [path, allowed] of Object.entries(ALLOW)) {
    for (const method of METHODS.filter((name) => !allowed.includes(name))) {
      const { status, headers, body } = await service.call(method, path)
      assert.equal(status, 405, `${method} ${path}`)
      assert.deepEqual((headers.get('allow') ?? '').split(', ').sort(), [...allowed].sort(), path)
      assert.deepEqual(body, method === 'HEAD' ? null : { detail: 'Method Not Allowed' })
    }
  }
  assert.equal((await poll(service)).get('p')?.[0]?.delivered_count, 1)
})

test('a path that is not a route is not found, by any method', async (t) => {
  const service = await startService(t)
  const paths = [
    ...[
      '/',
      '/partner',
      '/partner/v1',
      '/partner/v2/me',
      '/Partner/v1/me',
      '/partner/v1/ME',
      '/partner/v1/me/x',
    ],
    ...[
      '/partner/v1/executions/',
      '/partner/v1/plans/',
      '/partner/v1/plans/a/b',
      '/partner/v1/executions/due/x',
      '/partner/v1/executions/x',
      '/partner/v1/users/a/b',
    ],
    ...['/partner/v1/executions/x/confirm/y', '/partner/v1/webhooks/x', '/favicon.ico', '/%', '/%zz', '/%ff'],
    ...[
      '/partner/v1/users/%',
      '/partner/v1/users/%zz',
      '/partner/v1/users/%ff',
      '/partner/v1/users/%ed%a0%80',
    ],
    ...['/partner/v1/executions/%c0%af/confirm', '/partner/v1//me', '//partner/v1/me'],
  ]
  for (const path of paths) {
    for (const method of ['GET', 'POST', 'PATCH', 'HEAD', 'OPTIONS']) {
      const { status, headers, body } = await service.call(method, path)
      assert.equal(status, 404, `${method} ${path}`)
      assert.deepEqual(body, method === 'HEAD' ? null : { detail: 'Not Found' }, path)
      assert.equal(headers.get('cache-control'), 'no-store', path)
      assert.notEqual(headers.get('x-request-id'), null, path)
    }
  }
})

test('a query string is not part of a route', async (t) => {
  const service = await startService(t)
  await succeed(service, 'GET', `${ME}?month=2026-01&x`)
  await succeed(service, 'GET', `${DUE}?limit=0&status=sent`)
})

test('an unexpected failure is a 500 that says nothing, and a log line that says all', async (t) => {
  const lines: Record<string, unknown>[] = []
  const log: Log = {
    debug: () => {},
    info: () => {},
    warn: () => {},
    error: (fields, message) => lines.push({ ...fields, message }),
  }
  const boom = new Error('disk on fire at /var/secret')
  let burns = true
  const service = await startService(t, {
    log,
    wrap: (store) => ({
      ...store,
      confirmExecution: (...args) => (burns ? Promise.reject(boom) : store.confirmExecution(...args)),
    }),
  })
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  const options = { headers: { 'x-request-id': 'find-me' } }
  const failed = await service.call('POST', confirmPath(id), fill('order-of-mine', '10.00'), options)
  assert.equal(failed.status, 500)
  assert.deepEqual(failed.body, { detail: 'Internal Server Error' })
  assert.equal(failed.headers.get('x-request-id'), 'find-me')
  assert.equal(failed.headers.get('cache-control'), 'no-store')
  assert.equal(lines.length, 1)
  assert.equal(lines[0]?.err, boom)
  assert.equal(lines[0]?.request_id, 'find-me')
  assert.equal(lines[0]?.status, 500)
  const logged = JSON.stringify(lines)
  for (const secret of [service.key, 'order-of-mine', id])
    assert.ok(!logged.includes(secret), `${secret} is logged`)

  burns = false
  const retried = await succeed(service, 'POST', confirmPath(id), fill('order-of-mine', '10.00'))
  assert.equal(retried.replayed, undefined)
  await assertSound(service)
})

test('a failure while the caller is looked up is a 500 too', async (t) => {
  const wrap: Parameters<typeof startService>[1] = {
    wrap: (store) => ({ ...store, findKey: () => Promise.reject(new Error('no disk')) }),
  }
  const { call } = await startService(t, wrap)
  for (const path of [ME, '/nowhere', '/%zz']) {
    const { status, body } = await call('GET', path)
    assert.equal(status, 500)
    assert.deepEqual(body, { detail: 'Internal Server Error' })
  }
})
