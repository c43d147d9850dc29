// Every route over real HTTP, and every refusal that the description has an example of. The harness validates each
// answer against its schema.

import assert from 'node:assert/strict'
import { after, suite, test } from 'node:test'
import { EXECUTIONS_MAX, sandboxFull, WAKE_UPS_PER_MINUTE, WIPE_ROWS_MAX } from '../../src/core/sandbox.ts'
import { DAY_MS, SPAN_MAX_DAYS } from '../../src/core/time.ts'
import { register, TESTS_PER_MINUTE } from '../../src/core/webhook.ts'
import { BODY_BYTES_MAX } from '../../src/http/request.ts'
import {
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
} from '../http/steps.ts'
import { damageAt, multiplyExecutions } from '../store/damage.ts'
import { AUDIT, fill, PLAN, type Service, startService, T0, USER } from '../support/service.ts'
import { DESCRIPTION, operationAt } from './described.ts'

/** Provoked refusals: operation, code and body, ids of executions made equal. */
const answered = new Set<string>()
const entry = (operationId: string, code: string | null, body: unknown): string =>
  `${operationId} ${code} ${JSON.stringify(body).replace(/exec_[0-9a-f]{32}/g, 'exec')}`

const TEMPLATES = Object.entries(DESCRIPTION.paths).flatMap(([path, operations]) =>
  Object.entries(operations).map(([method, { operationId }]) => ({
    operationId,
    method: method.toUpperCase(),
    path: path
      .replace('{partner_user_id}', 'u1')
      .replace('{partner_plan_id}', 'p1')
      .replace('{execution_id}', 'exec_1'),
  })),
)
const WITH_BODY = TEMPLATES.filter(({ method }) => ['POST', 'PATCH'].includes(method))

suite('the contract', () => {
  after(() => {
    const documented = Object.values(DESCRIPTION.paths)
      .flatMap((operations) => Object.values(operations))
      .flatMap(({ operationId, responses }) =>
        Object.entries(responses).flatMap(([status, { content }]) =>
          status === '200'
            ? []
            : Object.entries(content['application/json'].examples ?? {}).map(([code, { value }]) =>
                entry(operationId, code, value),
              ),
        ),
      )
    assert.ok(documented.length > 70, `there are ${documented.length} examples`)
    const missing = documented.filter((example) => !answered.has(example))
    assert.deepEqual(missing, [])
  })

  test('every route, with an answer as it is described', async (t) => {
    const service = await startService(t)
    const taken = new Set<string>()
    const take = async (method: string, path: string, body?: object) => {
      taken.add(operationAt(method, path)?.operationId ?? path)
      return succeed(service, method, path, body)
    }
    await take('GET', '/partner/v1/me')
    await take('POST', USERS, USER)
    for (const id of ['p1', 'p2']) await take('POST', PLANS, { ...PLAN, partner_plan_id: id })
    await service.tick(PRICE)
    const [one, two] = await take('GET', DUE)
    await take('POST', confirmPath(one.execution_id), fill('order-1', '10.00'))
    await take('POST', confirmPath(two.execution_id), { partner_order_id: 'order-2', status: 'failed' })
    for (const path of [USERS, userPath('u1'), PLANS, planPath('p1'), EXECUTIONS]) await take('GET', path)
    await take('GET', `${TRADES}?month=2026-01`)
    for (const report of ['monthly', 'monthly/users'])
      await take('GET', `/partner/v1/billing/${report}?month=2026-01`)
    await take('POST', WEBHOOKS, { url: 'https://127.0.0.1/tranche' })
    await take('POST', `${WEBHOOKS}/test`, {})
    for (const path of [WEBHOOKS, `${WEBHOOKS}/deliveries`]) await take('GET', path)
    await take('DELETE', WEBHOOKS)
    const sandbox = '/partner/v1/sandbox'
    await take('POST', `${sandbox}/advance`, { by: '1d', price_usd: '64000' })
    await take('GET', sandbox)
    await take('POST', `${sandbox}/fire`, { partner_plan_id: 'p1' })
    await take('PATCH', userPath('u1'), { status: 'disabled' })
    await take('POST', `${sandbox}/reset`, {})
    assert.deepEqual([...taken].sort(), TEMPLATES.map(({ operationId }) => operationId).sort())
  })

  test('what any call may be refused with', async (t) => {
    const service = await startService(t)
    const throttled = await startService(t, { rateLimit: 1 })
    const broken = await startService(t, {
      wrap: (store) => ({ ...store, findKey: () => Promise.reject(new Error('disk I/O error')) }),
    })
    const disabled = await service.issueKey('beta', 'test')
    await service.store.changePartner('beta', (seen) => ({ ...seen, status: 'disabled' as const }), AUDIT)
    await throttled.call('GET', '/partner/v1/me')
    const starting = await startService(t, { more: () => ({ store: null }) })
    for (const { method, path } of TEMPLATES) {
      await refuse(service, 401, method, path, undefined, { key: null })
      await refuse(service, 401, method, path, undefined, { key: 'sse_test_nothing' })
      await refuse(service, 403, method, path, undefined, { key: disabled })
      await refuse(throttled, 429, method, path)
      await refuse(broken, 500, method, path)
      await refuse(starting, 503, method, path)
    }
  })

  test('what any body may be refused with', async (t) => {
    const service = await startService(t)
    for (const { method, path } of WITH_BODY) {
      await refuse(service, 400, method, path, new Uint8Array([0xff]))
      await refuse(service, 413, method, path, ' '.repeat(BODY_BYTES_MAX + 1))
      await refuse(service, 415, method, path, '{}', { headers: { 'content-encoding': 'gzip' } })
      for (const body of ['{', '', '[]']) await refuse(service, 422, method, path, body)
    }
  })

  test('users, plans, webhooks and queries', async (t) => {
    const service = await startService(t)
    const { partner_user_id: _, ...nobody } = USER
    await refuse(service, 400, 'POST', USERS, { ...USER, consent_accepted: false })
    await refuse(service, 422, 'POST', USERS, { ...nobody, consent_accepted: 'yes' })
    await refuse(service, 404, 'PATCH', userPath('stranger'), { status: 'disabled' })
    await refuse(service, 422, 'PATCH', userPath('stranger'), { status: 'gone' })
    await refuse(service, 404, 'GET', userPath('stranger'))

    const wanted = { ...PLAN, partner_plan_id: 'plan-1' }
    await refuse(service, 404, 'POST', PLANS, wanted)
    await link(service, 'u1')
    await link(service, 'u2')
    await plan(service, 'u1', 'plan-1')
    await refuse(service, 409, 'POST', PLANS, { ...wanted, partner_user_id: 'u2' })
    await refuse(service, 422, 'POST', PLANS, { ...wanted, amount_usd: '0.99', frequency: 'hourly' })
    await plan(service, 'u1', 'plan-1', { status: 'cancelled' })
    await refuse(service, 409, 'POST', PLANS, { ...wanted, status: 'active' })
    await service.call('PATCH', userPath('u2'), { status: 'disabled' })
    await refuse(service, 403, 'POST', PLANS, { ...wanted, partner_user_id: 'u2', partner_plan_id: 'plan-2' })

    await refuse(service, 400, 'POST', WEBHOOKS, { url: 'https://10.0.0.1/' })
    await refuse(service, 422, 'POST', WEBHOOKS, { url: 'http://partner.example/' })
    for (const report of ['billing/monthly', 'billing/monthly/users', 'trades'])
      await refuse(service, 422, 'GET', `/partner/v1/${report}?month=January`)
    const ofMonth = ['billing/monthly/users?month=2026-01&', 'trades?month=2026-01&']
    for (const list of [...ofMonth, 'plans?', 'users?', 'executions?']) {
      await refuse(service, 422, 'GET', `/partner/v1/${list}limit=1001`)
      await refuse(service, 422, 'GET', `/partner/v1/${list}cursor=!`)
    }
    await refuse(service, 422, 'GET', `${EXECUTIONS}?since=2026-01-05T00:00:00`)
    await refuse(service, 404, 'GET', planPath('stranger'))
  })

  test('tests of a webhook', async (t) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const held = async () => {
      begun.resolve()
      await promise
      return { statusCode: 204, reason: null, durationMs: 5 }
    }
    const service = await startService(t, { more: () => ({ send: held }) })
    const at = `${WEBHOOKS}/test`
    await refuse(service, 404, 'POST', at, {})
    await service.call('POST', WEBHOOKS, { url: 'https://127.0.0.1/' })
    const first = service.call('POST', at, {})
    await begun.promise
    await refuse(service, 429, 'POST', at, {})
    resolve()
    await first
    for (let n = 1; n < TESTS_PER_MINUTE; n++) await service.call('POST', at, {})
    const tooMany = { detail: `At most ${TESTS_PER_MINUTE} tests of a webhook a minute.` }
    assert.deepEqual(await refuse(service, 429, 'POST', at, {}), tooMany)
  })

  test('the sandbox', async (t) => {
    const service = await startService(t)
    const live = { key: await service.issueKey('acme', 'live') }
    const at = (word: string) => `/partner/v1/sandbox${word}`
    await refuse(service, 403, 'GET', at(''), undefined, live)
    await refuse(service, 403, 'POST', at('/advance'), { by: '1d' }, live)
    await refuse(service, 403, 'POST', at('/fire'), { partner_plan_id: 'plan-1' }, live)
    await refuse(service, 403, 'POST', at('/reset'), {}, live)
    const without = await startService(t, { more: () => ({ sandbox: null }) })
    for (const word of ['/advance', '/fire', '/reset']) await refuse(without, 404, 'POST', at(word), {})
    await refuse(without, 404, 'GET', at(''))
    const far = await startService(t)
    const days = (Date.UTC(8999, 11, 20) - T0) / DAY_MS
    for (let gone = 0; gone < days; gone += SPAN_MAX_DAYS)
      await far.call('POST', at('/advance'), { by: `${Math.min(SPAN_MAX_DAYS, days - gone)}d` })
    await refuse(far, 409, 'POST', at('/advance'), { by: '30d' })
    await refuse(service, 422, 'POST', at('/advance'), { by: 'a week' })
    await refuse(service, 404, 'POST', at('/fire'), { partner_plan_id: 'plan-2' })
    await link(service, 'u1')
    await plan(service, 'u1', 'plan-1', { status: 'paused' })
    await refuse(service, 409, 'POST', at('/fire'), { partner_plan_id: 'plan-1' })
    await damageAt(
      service.file,
      `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${WIPE_ROWS_MAX})
       insert into consents (user_id, consent_version, consent_timestamp, received_at)
       select user_id, 'v1', i, ${T0} from n, (select user_id from users limit 1) first`,
    )
    await refuse(service, 409, 'POST', at('/reset'), {})
    const tenant = await service.store.findTenant('acme', 'test')
    assert.ok(tenant)
    const { end } = await service.store.beginAdvance(tenant, 1_000, AUDIT)
    await refuse(service, 409, 'POST', at('/advance'), { by: '1d' })
    await end()
    await service.store.resetSandbox(tenant, AUDIT)
    await link(service, 'u1')
    await plan(service, 'u1', 'plan-2')
    await service.call('POST', at('/fire'), { partner_plan_id: 'plan-2' })
    await multiplyExecutions(service.file, EXECUTIONS_MAX)
    const full = { detail: sandboxFull().message }
    assert.deepEqual(await refuse(service, 409, 'POST', at('/fire'), { partner_plan_id: 'plan-2' }), full)
    assert.deepEqual(await refuse(service, 409, 'POST', at('/advance'), { by: '1d' }), full)
    // Its partner can resolve that itself.
    const { body } = await service.call('POST', at('/reset'), {})
    assert.ok((body as { executions: number }).executions > EXECUTIONS_MAX)
    await service.store.changeWebhook(tenant, (seen, now) => register(seen, 'https://a.example/', 's', now))
    for (let n = 0; n < WAKE_UPS_PER_MINUTE; n++)
      await service.call('POST', at('/fire'), { partner_plan_id: 'x' })
    const tooMany = { detail: 'At most 60 calls a minute fire tranches where a webhook is active.' }
    assert.deepEqual(await refuse(service, 429, 'POST', at('/fire'), { partner_plan_id: 'x' }), tooMany)
    assert.deepEqual(await refuse(service, 429, 'POST', at('/advance'), { by: '1d' }), tooMany)
  })

  test('confirmations', async (t) => {
    const service = await startService(t)
    const sent = await sendFirst(service, ['a', 'b', 'c'])
    const [a = '', b = '', c = ''] = ['a', 'b', 'c'].map((id) => confirmPath(sent.get(id) ?? ''))
    await refuse(service, 404, 'POST', confirmPath('exec_1'), fill('order-1', '10.00'))
    await refuse(service, 422, 'POST', a, { partner_order_id: 'order-1', status: 'filled' })
    await refuse(service, 400, 'POST', a, fill('order-1', '10.01'))
    await service.call('POST', a, fill('order-1', '10.00'))
    await refuse(service, 409, 'POST', a, fill('order-1', '9.00'))
    await refuse(service, 409, 'POST', b, fill('order-1', '10.00'))
    await plan(service, 'c', 'c', { status: 'cancelled' })
    await refuse(service, 409, 'POST', c, fill('order-3', '10.00'))
    await link(service, 'd')
    await plan(service, 'd', 'd')
    await service.tick(PRICE)
    const page = { after: null, limit: 10 }
    const scope = { slug: null, environment: null, status: 'pending' as const, stuck: false }
    const [pending] = await service.store.listExecutions(scope, page)
    await refuse(service, 409, 'POST', confirmPath(pending?.executionId ?? ''), fill('order-4', '10.00'))
    assert.deepEqual([...(await poll(service)).keys()], ['d'], `${DUE} is as it was`)
  })
})

/** Makes a call that must be refused with this status, records the answer, and resolves with its body. */
async function refuse(
  service: Service,
  status: number,
  ...[method, path, body, options]: Parameters<Service['call']>
): Promise<unknown> {
  const answer = await service.call(method, path, body, options)
  assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`)
  const { operationId = '' } = operationAt(method, path) ?? {}
  answered.add(entry(operationId, answer.headers.get('x-error-code'), answer.body))
  return answer.body
}
