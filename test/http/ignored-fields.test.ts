// What a call sends and its route does not know: ignored, and named in a header and in the log.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { REPORT_STATUSES } from '../../src/core/trade.ts'
import { BODY_BYTES_MAX } from '../../src/http/request.ts'
import { ROUTES } from '../../src/http/routes.ts'
import type { Log } from '../../src/log.ts'
import { fill, PLAN, startService, USER } from '../support/service.ts'
import { confirmPath, PLANS, planPath, sendFirst, USERS, userPath, WEBHOOKS } from './steps.ts'

const HEADER = 'x-ignored-fields'

function recorder(): { log: Log; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = []
  const note = (fields: object): void => void lines.push(fields as Record<string, unknown>)
  return { log: { debug: note, info: note, warn: note, error: note }, lines }
}

test('a misspelt field changes nothing, and is named', async (t) => {
  const { log, lines } = recorder()
  const service = await startService(t, { log })
  await service.call('POST', USERS, USER)
  const made = await service.call('POST', PLANS, PLAN)
  assert.equal(made.headers.get(HEADER), null)
  const paused = await service.call('POST', PLANS, { ...PLAN, stauts: 'paused' })
  assert.deepEqual([paused.status, paused.body.status], [200, 'active'])
  assert.equal(paused.headers.get(HEADER), 'stauts')
  assert.deepEqual(
    lines.map((line) => [line.route, 'ignored_fields' in line, line.ignored_fields]),
    [
      [USERS, false, undefined],
      [PLANS, false, undefined],
      [PLANS, true, 'stauts'],
    ],
  )
})

/** A body that each route with one takes, given an execution that was handed out. */
const TAKEN: Record<string, (executionId: string) => [path: string, body: object]> = {
  'POST /partner/v1/users': () => [USERS, { ...USER, partner_user_id: 'u9' }],
  'PATCH /partner/v1/users/:partner_user_id': () => [userPath('p1'), { status: 'linked' }],
  'POST /partner/v1/plans': () => [PLANS, { ...PLAN, partner_user_id: 'p1' }],
  'POST /partner/v1/executions/:execution_id/confirm': (id) => [confirmPath(id), fill('order', '10.00')],
  'POST /partner/v1/webhooks': () => [WEBHOOKS, { url: 'https://127.0.0.1/hook' }],
}

/** The same routes, refused for another reason than the shape of their body. */
const REFUSED: Record<string, [status: number, path: string, body: object]> = {
  'POST /partner/v1/users': [400, USERS, { ...USER, consent_accepted: false }],
  'PATCH /partner/v1/users/:partner_user_id': [404, userPath('nobody'), { status: 'linked' }],
  'POST /partner/v1/plans': [404, PLANS, { ...PLAN, partner_user_id: 'nobody' }],
  'POST /partner/v1/executions/:execution_id/confirm': [404, confirmPath('exec_0'), fill('order', '10.00')],
  'POST /partner/v1/webhooks': [400, WEBHOOKS, { url: 'https://10.0.0.1/' }],
}

test('every route with a body names what it ignores, also when it refuses', async (t) => {
  const service = await startService(t)
  const [id = ''] = (await sendFirst(service, ['p1'])).values()
  const unknown = { Status: 'paused', 'partner_slug ': 'other' }
  const told = '?dry_run, Status, partner_slug%20'
  const withBody = ROUTES.filter((route) => route.body)
  assert.equal(withBody.length, Object.keys(TAKEN).length)
  for (const { method, path: template } of withBody) {
    const route = `${method} ${template}`
    const [path, body] = TAKEN[route]?.(id) ?? assert.fail(route)
    const known = await service.call(method, path, body)
    assert.deepEqual([known.status, known.headers.get(HEADER)], [200, null], route)
    const taken = await service.call(method, `${path}?dry_run=1`, { ...body, ...unknown })
    assert.deepEqual([taken.status, taken.headers.get(HEADER)], [200, told], route)
    const [status, elsewhere, other] = REFUSED[route] ?? assert.fail(route)
    const refused = await service.call(method, `${elsewhere}?dry_run=1`, { ...other, ...unknown })
    assert.deepEqual([refused.status, refused.headers.get(HEADER)], [status, told], route)
    const misshapen = await service.call(method, `${path}?dry_run=1`, unknown)
    assert.deepEqual([misshapen.status, misshapen.headers.get(HEADER)], [422, told], route)
  }
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

/** Names as JSON writes them, and as they are told. */
const NAMES: readonly (readonly [json: string, told: string])[] = [
  ['"__proto__"', '__proto__'],
  ['"constructor"', 'constructor'],
  ['""', '""'],
  ['"\\"\\""', '%22%22'],
  ['"*"', '%2A'],
  ['"+5"', '%2B5'],
  ['"?limit"', '%3Flimit'],
  ['"a, b"', 'a%2C%20b'],
  ['"a\\r\\nSet-Cookie: x=1"', 'a%0D%0ASet-Cookie%3A%20x%3D1'],
  ['"\\u0000\\u001b[31m"', '%00%1B%5B31m'],
  ['"stаtus"', 'st%D0%B0tus'],
  ['"\\u202e"', '%E2%80%AE'],
  ['"\\ud83d\\ude80"', '%F0%9F%9A%80'],
  ['"a\\ud800b"', 'a%EF%BF%BDb'],
  ['"it\'s(!)~-._"', 'it%27s%28%21%29~-._'],
  [`"${'x'.repeat(64)}"`, 'x'.repeat(64)],
  [`"${'x'.repeat(65)}"`, `${'x'.repeat(64)}*`],
  [`"${'\u{1f680}'.repeat(65)}"`, `${'%F0%9F%9A%80'.repeat(64)}*`],
]

test('names of any kind are told in letters that are safe in a header', async (t) => {
  const { log, lines } = recorder()
  const service = await startService(t, { log })
  await service.call('POST', USERS, USER)
  for (const [name, told] of NAMES) {
    const body = `${JSON.stringify(PLAN).slice(0, -1)},${name}:1,${name}:{"amount_usd":"9.00"}}`
    const answer = await service.call('POST', PLANS, body)
    assert.deepEqual([answer.status, answer.body.amount_usd], [200, '60.00'], name)
    assert.equal(answer.headers.get(HEADER), told, name)
    assert.equal(lines.at(-1)?.ignored_fields, told, name)
  }
})

test('a key that is sent as a name is in no log', async (t) => {
  const { log, lines } = recorder()
  const service = await startService(t, { log })
  const whole = [service.key, `Bearer ${service.key}`]
  const names = Object.fromEntries(whole.map((name) => [name, 1]))
  const { headers } = await service.call('GET', `${planPath('p')}?${new URLSearchParams(names as never)}`)
  assert.equal(headers.get(HEADER), '?sse_test_*, ?Bearer%20sse_test_*')
  await service.call('POST', USERS, { ...USER, ...names })
  assert.equal(lines.at(-1)?.ignored_fields, 'sse_test_*, Bearer%20sse_test_*')
  assert.doesNotMatch(JSON.stringify(lines), new RegExp(service.key.slice(9)))
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
