// Everything around an answer: headers, routes and methods, the order of refusals, ignored fields, and its log line.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { REPORT_STATUSES } from '../../src/core/confirmation.ts'
import { formatInstant, plus } from '../../src/core/time.ts'
import { type CallLine, createCallLog, KEYLESS_LINES_MAX } from '../../src/http/app.ts'
import { BODY_BYTES_MAX } from '../../src/http/request.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { AUDIT, fill, PLAN, recordingLog, startService, USER } from '../support/service.ts'
import { exchange, head } from './raw.ts'
import {
  assertSound,
  confirmPath,
  link,
  PLANS,
  PRICE,
  plan,
  planPath,
  poll,
  revokeKey,
  sendFirst,
  succeed,
  USERS,
  userPath,
} from './steps.ts'

const ME = '/partner/v1/me'
const LIMIT = 65_536
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

test('every answer has a request id, is JSON and is not to be cached', async (t) => {
  const { call, key: ours } = await startService(t)
  const requests = [
    ['GET', ME, undefined, 200],
    ['POST', USERS, USER, 200],
    ['POST', USERS, {}, 422],
    ['POST', USERS, { ...USER, consent_accepted: false }, 400],
    ['PATCH', userPath('nobody'), { status: 'linked' }, 404],
    ['GET', '/', undefined, 404],
    ['DELETE', ME, undefined, 405],
    ['POST', USERS, 'x'.repeat(LIMIT + 1), 413],
    ['GET', ME, undefined, 401, null],
  ] as const
  const ids = new Set<string>()
  for (const [method, path, body, status, key = ours] of requests) {
    const answer = await call(method, path, body, { key })
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
  assert.equal(ids.size, requests.length)
})

test('a sane request id is echoed, any other one replaced', async (t) => {
  const { call, url, key } = await startService(t)
  const echoed = async (id: string) =>
    (await call('GET', ME, undefined, { headers: { 'x-request-id': id } })).headers.get('x-request-id')
  for (const id of ['a', 'req-1', 'A.b_c-9', '0'.repeat(128), '8f6e0f9e-6d0f-4b0c-8f57-0d1b3a3f4c11'])
    assert.equal(await echoed(id), id)
  for (const id of ['', 'a b', 'a,b', '0'.repeat(129), '<script>', 'a\u00e9', '{"a":1}', 'a;b', '$(x)'])
    assert.match((await echoed(id)) ?? '', UUID, id)
  // A log has the id of every call. A client that sends a key there, whole or inside other text, does so by mistake.
  for (const id of [key, `Bearer.${key}`, key.replace('test', 'live'), 'sse_whsec_abc'])
    assert.match((await echoed(id)) ?? '', UUID, id)
  // The answer to a refused request has the id too.
  const refused = await exchange(url, [head('GET', '/nowhere', key, ['X-Request-Id: mine'])])
  assert.equal(refused.headers.get('x-request-id'), 'mine')
})

const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE']

test('a wrong method is told the right ones, and no method leases but GET', async (t) => {
  const service = await startService(t)
  await link(service, 'p')
  await plan(service, 'p', 'p')
  await service.tick(PRICE)
  for (const [template, routes] of Map.groupBy(ROUTES, ({ path }) => path)) {
    const [path, allowed] = [template.replaceAll(/:\w+/g, 'u'), routes.map(({ method }) => method as string)]
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
      '/partner/v1',
      '/Partner/v1/me',
      '/partner/v1/me/x',
      '/partner/v1/plans/',
      '/partner/v1/executions/x',
    ],
    ...['/partner/v1/executions/x/confirm/y', '/', '/favicon.ico', '/%', '/%ff', '//partner/v1/me'],
    ...['zz', 'ff', 'ed%a0%80', 'c0%af'].map((code) => `/partner/v1/users/%${code}`),
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

test('the bare address leads a browser to the page of the API, and nobody else', async (t) => {
  const { url, key } = await startService(t)
  const ask = (accept: string | null, method = 'GET', path = '/') =>
    fetch(url + path, { method, redirect: 'manual', headers: accept === null ? {} : { accept } })
  for (const accept of ['text/html,*/*;q=0.8', 'application/json, Text/HTML;level=1', 'text/html;q=0.1']) {
    for (const path of ['/', '/?x=1']) {
      const { status, headers } = await ask(accept, 'GET', path)
      // Relative, so that it holds behind a proxy with a path of its own.
      const told = ['location', 'vary', 'cache-control', 'content-length'].map((name) => headers.get(name))
      assert.deepEqual([status, ...told], [302, 'docs', 'accept', 'no-store', '0'], accept)
      assert.match(headers.get('x-request-id') ?? '', UUID)
    }
  }
  const others = ['*/*', 'text/*', 'text/html;q=0, */*', 'text/html;q=0.000', 'x-text/html', 'text/htmlx']
  for (const accept of [null, ...others]) {
    const { status, headers } = await ask(accept)
    assert.deepEqual([status, headers.get('location')], [401, null], String(accept))
  }
  for (const method of ['HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    assert.equal((await ask('text/html', method)).status, 401, method)
  for (const path of ['//', '/x', '/partner/v1/me'])
    assert.equal((await ask('text/html', 'GET', path)).status, 401, path)
  // The address of the page with an extra slash, as a shell completes it, is the page to everybody.
  const slash = await ask(null, 'GET', '/docs/?x=1')
  assert.deepEqual([slash.status, slash.headers.get('location')], [302, '../docs'])
  assert.equal((await ask(null, 'GET', '/docs/')).url, `${url}/docs/`)
  assert.match((await ask(null, 'GET', '/docs')).headers.get('x-request-id') ?? '', UUID)
  assert.equal((await ask(null, 'POST', '/docs/')).status, 405)
  for (const path of ['/docs//', '/docs/x', '/docs/page.css/'])
    assert.equal((await ask('text/html', 'GET', path)).status, 401, path)
  // With a key, it is treated like any unknown path.
  assert.equal((await fetch(url, { headers: { authorization: `Bearer ${key}` } })).status, 404)
})

test('an unexpected failure is a 500 that says nothing, and a log line that says all', async (t) => {
  const { log, entries } = recordingLog()
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
  assert.deepEqual([failed.status, failed.body], [500, { detail: 'Internal Server Error' }])
  assert.equal(failed.headers.get('x-request-id'), 'find-me')
  assert.equal(failed.headers.get('cache-control'), 'no-store')
  const lines = entries.filter(({ level }) => level === 'error')
  assert.equal(lines.length, 1)
  assert.equal(lines[0]?.fields.err, boom)
  assert.equal(lines[0]?.fields.request_id, 'find-me')
  assert.equal(lines[0]?.fields.status, 500)
  const logged = JSON.stringify(lines)
  for (const secret of [service.key, 'order-of-mine', id])
    assert.ok(!logged.includes(secret), `${secret} is logged`)

  burns = false
  const retried = await succeed(service, 'POST', confirmPath(id), fill('order-of-mine', '10.00'))
  assert.equal(retried.replayed, undefined)
  await assertSound(service)
})

// A request that is wrong in several ways gets the first error in a fixed order: 401, 403 partner, 404/405 route, 413,
// 422, 404 resource, replay, 409, 403/400 rule.

const HUGE = 'x'.repeat(70_000)
const latin1 = Buffer.from('{"partner_user_id":"\u00fc"', 'latin1')

type Case = readonly [told: string, status: number, method: string, path: string, body?: unknown]

test('who is asking comes before what is asked', async (t) => {
  const service = await startService(t, { rateLimit: 1000 })
  const live = await service.issueKey('gone', 'live')
  const revoked = await service.issueKey('gone', 'test')
  await revokeKey(service, revoked)
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
    for (const key of [null, 'x', revoked, live]) {
      const { status } = await service.call(method, path, body, { key })
      assert.equal(status, key === live ? 403 : 401, `${method} ${path}`)
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
  for (const [told, status, method, path, body] of cases)
    assert.equal((await service.call(method, path, body)).status, status, told)
})

// Fields that a route does not know: ignored, and named in a header and in the log.

const HEADER = 'x-ignored-fields'

test('a misspelt field changes nothing, and is named', async (t) => {
  const { log, entries } = recordingLog()
  const service = await startService(t, { log })
  await service.call('POST', USERS, USER)
  const made = await service.call('POST', PLANS, PLAN)
  assert.equal(made.headers.get(HEADER), null)
  const paused = await service.call('POST', PLANS, { ...PLAN, stauts: 'paused' })
  assert.deepEqual([paused.status, paused.body.status], [200, 'active'])
  assert.equal(paused.headers.get(HEADER), 'stauts')
  for (const [body, status] of [
    [{ ...PLAN, partner_user_id: 'nobody', stauts: 'paused' }, 404],
    [{ stauts: 'paused' }, 422],
  ] as const) {
    const refused = await service.call('POST', `${PLANS}?dry_run=1`, body)
    assert.deepEqual([refused.status, refused.headers.get(HEADER)], [status, '?dry_run, stauts'])
  }
  const [user, plan, misspelt] = entries.map(({ fields }) => fields)
  for (const fields of [user, plan]) assert.ok(fields && !('ignored_fields' in fields))
  assert.deepEqual([user?.route, plan?.route, misspelt?.route], [USERS, PLANS, PLANS])
  assert.equal(misspelt?.ignored_fields, 'stauts')
})

test('every route names the parameters that it ignores, each once', async (t) => {
  const service = await startService(t)
  for (const { method, path: template, parameters, body } of ROUTES) {
    if (body) continue
    const path = template.replaceAll(/:\w+/g, 'p1')
    const given = `?limt=5&Month=1&limt=6&a%20b${parameters.has('month') ? '&month=2026-01' : ''}`
    const answer = await service.call(method, path + given)
    assert.equal(answer.headers.get(HEADER), '?limt, ?Month, ?a%20b', `${method} ${path}`)
  }
  const refused = await service.call('GET', '/partner/v1/plans?limit=0&limt=1')
  assert.deepEqual([refused.status, refused.headers.get(HEADER)], [422, '?limt'])
})

test('what a status has no use for is not unknown', async (t) => {
  const service = await startService(t)
  for (const status of REPORT_STATUSES) {
    const report = { ...fill('o', '1.00'), partner_fee_usd: '0.01', executed_at: null, failure_reason: 'x' }
    const answer = await service.call('POST', confirmPath('exec_0'), { ...report, status })
    assert.deepEqual([answer.status, answer.headers.get(HEADER)], [404, null], status)
  }
})

test('a call that is refused before its body is read names nothing', async (t) => {
  const service = await startService(t)
  const stranger = await service.call('POST', `${PLANS}?a=1`, { ...PLAN, stauts: 1 }, { key: null })
  assert.deepEqual([stranger.status, stranger.headers.get(HEADER)], [401, null])
  for (const body of ['[{"a":1}]', '{"a":1', '"a"']) {
    const broken = await service.call('POST', PLANS, body)
    assert.deepEqual([broken.status, broken.headers.get(HEADER)], [422, null], body)
  }
})

/** Names as JSON writes them, and as the header names them. */
const NAMES: readonly (readonly [json: string, told: string])[] = [
  ['"__proto__"', '__proto__'],
  ['""', '""'],
  ['"\\"\\""', '%22%22'],
  ['"+5"', '%2B5'],
  ['"?limit"', '%3Flimit'],
  ['"a\\r\\nSet-Cookie: x=1"', 'a%0D%0ASet-Cookie%3A%20x%3D1'],
  ['"stаtus"', 'st%D0%B0tus'],
  ['"\\ud83d\\ude80"', '%F0%9F%9A%80'],
  ['"a\\ud800b"', 'a%EF%BF%BDb'],
  ['"it\'s(!)~-._"', 'it%27s%28%21%29~-._'],
  [`"${'x'.repeat(64)}"`, 'x'.repeat(64)],
  [`"${'x'.repeat(65)}"`, `${'x'.repeat(64)}*`],
  [`"${'\u{1f680}'.repeat(65)}"`, `${'%F0%9F%9A%80'.repeat(64)}*`],
]

test('names of any kind are told in letters that are safe in a header', async (t) => {
  const { log, entries } = recordingLog()
  const service = await startService(t, { log })
  await service.call('POST', USERS, USER)
  for (const [name, told] of NAMES) {
    const body = `${JSON.stringify(PLAN).slice(0, -1)},${name}:1,${name}:{"amount_usd":"9.00"}}`
    const answer = await service.call('POST', PLANS, body)
    assert.deepEqual([answer.status, answer.body.amount_usd], [200, '60.00'], name)
    assert.equal(answer.headers.get(HEADER), told, name)
    assert.equal(entries.at(-1)?.fields.ignored_fields, told, name)
  }
})

test('a key that is sent as a name is in no log', async (t) => {
  const { log, entries } = recordingLog()
  const service = await startService(t, { log })
  const whole = [service.key, `Bearer ${service.key}`]
  const names = Object.fromEntries(whole.map((name) => [name, 1]))
  const { headers } = await service.call('GET', `${planPath('p')}?${new URLSearchParams(names as never)}`)
  assert.equal(headers.get(HEADER), '?sse_test_*, ?Bearer%20sse_test_*')
  await service.call('POST', USERS, { ...USER, ...names })
  assert.equal(entries.at(-1)?.fields.ignored_fields, 'sse_test_*, Bearer%20sse_test_*')
  assert.doesNotMatch(JSON.stringify(entries), new RegExp(service.key.slice(9)))
})

test('however many and however long they are, the header stays short and counts the rest', async (t) => {
  const service = await startService(t)
  const send = (names: readonly string[]) =>
    service.call('POST', USERS, { ...USER, ...Object.fromEntries(names.map((name) => [name, 0])) })
  const letters = Array.from('abcdefghijklmnopqrstuvwxyz')
  const { headers } = await send(letters)
  assert.equal(headers.get(HEADER), `${letters.slice(0, 20).join(', ')}, +6`)
  assert.equal((await send(letters.slice(0, 20))).headers.get(HEADER), letters.slice(0, 20).join(', '))
  const rockets = letters.map((letter) => '\u{1f680}'.repeat(40) + letter)
  const long = (await send(rockets)).headers.get(HEADER) ?? ''
  assert.match(long, /^(%F0%9F%9A%80){40}a, (%F0%9F%9A%80){40}b, \+24$/)
  assert.ok(long.length <= 1_024)
  const many = Array.from({ length: 8_000 }, (_, i) => `f${i}`)
  assert.ok(JSON.stringify(many).length < BODY_BYTES_MAX)
  const most = await send(many.slice(0, 6_000))
  assert.deepEqual([most.status, most.headers.get(HEADER)], [200, `${many.slice(0, 20).join(', ')}, +5980`])
})

// The volume of log lines that a flood of calls causes.

const LINE: CallLine = {
  request_id: 'r',
  method: 'GET',
  route: '/partner/v1/me',
  partner_slug: 'acme',
  environment: 'test',
  status: 200,
  duration_ms: 1,
}

test('of a thousand calls without a key a few have a line and the rest are counted; with one each has its own', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { log, entries } = recordingLog()
  const { url, key } = await startService(t, { log })
  const call = async (authorization: string) =>
    (await fetch(`${url}/partner/v1/me`, { headers: { authorization } })).text()
  for (let i = 0; i < 100; i++) await Promise.all(Array.from({ length: 10 }, () => call('Bearer wrong')))
  for (let i = 0; i < 20; i++) await call(`Bearer ${key}`)
  const lines = (status: number) => entries.filter(({ fields }) => fields.status === status).length
  assert.deepEqual([lines(401), lines(200)], [KEYLESS_LINES_MAX, 20])
  t.mock.timers.tick(1_000)
  assert.deepEqual(entries.at(-1), {
    level: 'warn',
    message: 'more refused calls, not logged one by one',
    fields: { calls: 1_000 - KEYLESS_LINES_MAX },
  })
  await call('Bearer wrong')
  assert.equal(lines(401), KEYLESS_LINES_MAX + 1, 'the next second has lines of its own')
  t.mock.timers.tick(1_000)
  assert.equal(entries.length, KEYLESS_LINES_MAX + 1 + 20 + 1, 'and nothing to sum up')
})

test('an error that comes again has its stack once a minute, and a line each time', (t) => {
  t.mock.method(performance, 'now', () => now)
  let now = 0
  const { log, entries } = recordingLog()
  const note = createCallLog(log)
  const failed = { ...LINE, status: 500 }
  const full = () => note(failed, new Error('disk is full'))
  full()
  full()
  note(failed, new Error('another'))
  now = 59_999
  full()
  now = 60_000
  full()
  const told = entries.map(({ level, fields }) => [level, fields.err !== undefined, fields.error])
  const whole = ['error', true, undefined]
  const short = ['error', false, 'Error: disk is full']
  assert.deepEqual(told, [whole, short, whole, short, whole])
})

test('a call with a key that has ended is logged with its partner, once a minute with the number of calls', async (t) => {
  const { log, entries } = recordingLog()
  const service = await startService(t, { log })
  const call = async () => assert.equal((await service.call('GET', '/partner/v1/me')).status, 401)
  const keyId = await revokeKey(service, service.key)
  const endedAt = formatInstant(service.now())
  // The number of refused calls that are not logged one by one is logged for each second, whatever their key.
  const warned = () => entries.filter(({ message }) => message.startsWith('a call with a key'))
  const said = (calls: number) => ({
    level: 'warn',
    message: 'a call with a key that is revoked',
    fields: { key_id: keyId, partner_slug: 'acme', environment: 'test', ended_at: endedAt, calls },
  })
  await call()
  assert.deepEqual(warned(), [said(1)])
  for (let n = 0; n < 20; n++) await call()
  assert.deepEqual(warned(), [said(1)])
  service.setClock(plus(service.now(), 60_000))
  await call()
  assert.deepEqual(warned(), [said(1), said(21)])
  assert.ok(entries.every((entry) => !JSON.stringify(entry).includes(service.key)))
})
