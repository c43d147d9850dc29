// Accepted values: how decimals, dates, ids, reasons, paths and cursors are parsed, stored, compared and written back.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ID_MAX } from '../../src/core/text.ts'
import { CURSOR_MAX, wrap } from '../../src/http/fields.ts'
import { each } from '../store/world.ts'
import { fill, type Service, startService } from '../support/service.ts'
import { startMonitored } from './monitored.ts'
import { exchange, head } from './raw.ts'
import {
  assertSound,
  confirmPath,
  DUE,
  ledgerOf,
  link,
  PLANS,
  PRICE,
  plan,
  planPath,
  poll,
  sendFirst,
  succeed,
  USERS,
  userPath,
  windowsOf,
} from './steps.ts'

test('a fill is limited by the reservation after it is rounded', async (t) => {
  const service = await startService(t)
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  for (const [usd, received] of [
    ['10.000000005000000001', '10.00000001'],
    ['10.00000001', '10.00000001'],
    ['10.01', '10.01'],
    ['999999999999999999.999999999999999999', '1000000000000000000.00'],
  ] as const) {
    const { status, body } = await service.call('POST', confirmPath(id), fill('o', usd))
    assert.equal(status, 400, usd)
    assert.match(body.detail, /10\.00\b/, usd)
    assert.ok(body.detail.includes(received), body.detail)
  }
  await succeed(service, 'POST', confirmPath(id), fill('o', '10.000000005'))
  await assertSound(service)
})

const IDS = [
  ['x', 'X', ' x', 'x ', '  ', '\u00a0', '0', '-1', 'null', 'constructor', '__proto__', 'hasOwnProperty'],
  ['a/b', 'a%2Fb', 'a%2fb', '100%', '%25', '%zz', 'a+b', 'a b', 'a?b#c', 'a;b', 'a:b', 'a\\b', '*', 'user-1'],
  ['"quoted"', "it's", "'; DELETE FROM users; --", '<b>', '$(x)', '{id}', ':partner_user_id', 'disabled'],
  ['...', 'x..', '/', '//', 'a/../b', '../../metrics', '..\\..\\metrics'],
  ['J\u00fcrgen', 'Ju\u0308rgen', '\u540d\u524d', '\ud83d\ude80', '\u202eabc', '\u2028', '\ufffd', '\ufeffx'],
  ['x'.repeat(255), '\ud83d\ude80'.repeat(255)],
].flat()

test('an id that no path has to carry may be what URL parsers take out of a path', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['p', 'q'])
  for (const [plan, order] of Object.entries({ p: '.', q: '..' })) {
    const path = confirmPath(sent.get(plan) ?? '')
    assert.equal((await succeed(service, 'POST', path, fill(order, '10.00'))).partner_order_id, order)
    assert.equal((await succeed(service, 'POST', path, fill(order, '10.00'))).replayed, true)
  }
  await link(service, 'u')
  for (const id of ['.', '..']) assert.equal((await plan(service, 'u', id)).partner_plan_id, id)
  await assertSound(service)
})

test('ids are any text of 1 to 255 characters, told apart exactly, also in a path', async (t) => {
  const service = await startService(t)
  const told = (id: string) => JSON.stringify(id.slice(0, 20))
  for (const id of IDS) {
    assert.equal((await link(service, id)).partner_user_id, id, told(id))
    assert.equal((await plan(service, id, id)).partner_plan_id, id, told(id))
    assert.equal((await succeed(service, 'GET', planPath(id))).partner_plan_id, id, told(id))
  }
  for (const id of IDS) {
    const { status, body } = await service.call('PATCH', userPath(id), { status: 'disabled' })
    assert.equal(status, 200, `${told(id)}: ${JSON.stringify(body)}`)
    assert.deepEqual([body.partner_user_id, body.plans_paused], [id, 1], told(id))
    const [stored, another] = await service.store.findPlans(id)
    assert.deepEqual([stored?.partnerPlanId, another], [id, undefined], told(id))
  }
  // A client that encodes more than it must is served too.
  const path = `${USERS}/%75ser%2D1`
  assert.equal((await succeed(service, 'PATCH', path, { status: 'linked' })).partner_user_id, 'user-1')
})

test('a path that is not an id of a user is an unknown user, and so is one that is too long', async (t) => {
  const service = await startService(t)
  await link(service, 'x')
  const segments = ['y', 'X', 'x%20', '%00', 'x%00', 'x'.repeat(256), 'x'.repeat(4000), '%F0%9F%9A%80']
  for (const segment of segments) {
    const { status, body } = await service.call('PATCH', `${USERS}/${segment}`, { status: 'disabled' })
    assert.deepEqual([status, body], [404, { detail: 'Partner user not found.' }], segment.slice(0, 20))
  }
})

// Failure reasons: a report without a purchase is recorded whatever its reason holds, so that no reservation waits for
// a better wording.

const ROCKET = '\u{1f680}'

const REASONS: readonly (readonly [what: string, sent: string | null, kept: string | null])[] = [
  ['none', null, null],
  ['an empty one', '', null],
  ['as long as may be', 'x'.repeat(2000), 'x'.repeat(2000)],
  ['as long as may be, in characters of two units', ROCKET.repeat(2000), ROCKET.repeat(2000)],
  ['one too long', 'x'.repeat(2001), `${'x'.repeat(1999)}…`],
  ['far too long', 'y'.repeat(60_000), `${'y'.repeat(1999)}…`],
  ['cut where half a character would be left', ROCKET.repeat(2001), `${ROCKET.repeat(1999)}…`],
  ['a null byte', 'a\u0000b', 'a b'],
  ['what a terminal obeys', '\u001b[31mred\u009b0m\u007f', ' [31mred 0m '],
  ['lines and tabs', 'first\r\n\tsecond', 'first\r\n\tsecond'],
  ['half a character', 'a\ud800b\udc00', 'a\ufffdb\ufffd'],
  ['other scripts', 'Jürgen ne peut pas; 資金不足', 'Jürgen ne peut pas; 資金不足'],
]

async function reasonOf(service: Service, id: string): Promise<string | null | undefined> {
  const report = (await service.store.findExecution(id))?.trade?.report
  return report && 'failureReason' in report ? report.failureReason : undefined
}

test('a reason too long is cut and marked, and what cannot be shown is replaced', async (t) => {
  const service = await startService(t)
  const names = REASONS.map(([what]) => what)
  const ids = await sendFirst(service, names)
  for (const [row, [what, sent, kept]] of REASONS.entries()) {
    const id = ids.get(what) ?? ''
    const status = row % 2 === 0 ? 'failed' : 'cancelled'
    const report = { partner_order_id: what, status, failure_reason: sent }
    assert.equal((await succeed(service, 'POST', confirmPath(id), report)).status, status, what)
    assert.equal(await reasonOf(service, id), kept, what)
    assert.deepEqual((await windowsOf(service, what)).map(ledgerOf), ['0.00 0.00 0.00 open'], what)
    for (const again of [sent, kept]) {
      const answer = await succeed(service, 'POST', confirmPath(id), { ...report, failure_reason: again })
      assert.equal(answer.replayed, true, what)
    }
  }
  await assertSound(service)
})

// Paths that a proxy and a URL parser read differently: a route is found under exactly its own name.

const ME = '/partner/v1/me'

test('no way round leads to the ops endpoints, or to a route', async (t) => {
  const { url, key } = await startMonitored(t, { isOpen: false })
  const status = async (target: string): Promise<number> =>
    (await exchange(url, [head('GET', target, key)])).status
  for (const target of ['/healthz', ME, `${ME}?x=..`, `http://127.0.0.1${ME}`])
    assert.equal(await status(target), 200, target)
  const detours = [
    ...['\\..\\..\\', '/../../', '/..\\../', '/%2e%2e/%2E%2E/', '/.%2e/%2e./', '/users/../../../'],
    ...['/..%2f..%2f', '/..%5c..%5c', '%2f..%2f..%2f', '/..;/..;/', '/./../../', '/..%252f..%252f'],
  ]
  const targets = [
    ...detours.flatMap((detour) => ['healthz', 'metrics'].map((name) => `/partner/v1${detour}${name}`)),
    ...['/./healthz', '//healthz', '/\\healthz', '\\healthz', '/healthz/', '/healthz/.', '/%68ealthz'],
    ...['/x/../healthz', '/x\\..\\healthz', '/%2e/healthz', 'http://127.0.0.1\\healthz', 'http:/\\x/healthz'],
    ...[`${ME}/`, `${ME}/.`, '/partner/v1/./me', '/partner\\v1\\me', '/partner%2fv1/me', '/partner/v1/m%65'],
    ...['/partner/v1/users/../me', `/x/..${DUE}`, '/partner/v1/executions\\due', '/healthz#x'],
  ]
  // A malformed request line is refused before anything else.
  for (const target of targets) assert.ok([404, 400].includes(await status(target)), target)
})

// The maximum length of a cursor: the API description states it, and none is longer.

const MONTHLY_USERS = '/partner/v1/billing/monthly/users?month=2026-01&'

test('the longest ids have cursors within the bound, and a longer cursor is refused', async (t) => {
  const service = await startService(t)
  const longest = '\u{1f680}'.repeat(ID_MAX)
  const next = `${longest.slice(0, -2)}\u{1f681}`
  for (const id of [longest, next]) {
    await link(service, id)
    await plan(service, id, id)
  }
  await service.tick(PRICE)
  for (const [id, [execution]] of await poll(service)) {
    const path = confirmPath(String(execution?.execution_id))
    await succeed(service, 'POST', path, fill(`o-${id.endsWith(next)}`, '10.00'))
  }
  for (const [path, rows, name] of [
    [`${PLANS}?`, 'plans', 'partner_plan_id'],
    [MONTHLY_USERS, 'users', 'partner_user_id'],
  ] as const) {
    const { next_cursor } = await succeed(service, 'GET', `${path}limit=1`)
    assert.ok(next_cursor.length > 1_360 && next_cursor.length <= CURSOR_MAX, `${next_cursor.length}`)
    const page = await succeed(service, 'GET', `${path}limit=1&cursor=${next_cursor}`)
    assert.deepEqual(each(page[rows], name), [next])
  }
  const beyond = wrap(`plan ${'x'.repeat(CURSOR_MAX)}`)
  const refused = await service.call('GET', `${PLANS}?cursor=${beyond}`)
  assert.deepEqual([refused.status, refused.body.detail[0].loc], [422, ['query', 'cursor']])
})
