// Webhooks over HTTP: their registration, the tests that a partner requests, and the list of deliveries.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { formatInstant, MINUTE_MS, SECOND_MS } from '../../src/core/time.ts'
import { TESTS_PER_MINUTE } from '../../src/core/webhook.ts'
import { createGuard } from '../../src/webhook/address-guard.ts'
import { isSignature } from '../../src/webhook/signature.ts'
import { type Json, succeed, tenantOf } from '../http/steps.ts'
import { allExecutions } from '../store/world.ts'
import { AUDIT, type CallOptions, type Service, startService, T0 } from '../support/service.ts'
import { freePort } from '../support/within.ts'
import { LOW_PRICE, startReceiver, startStage, WEBHOOKS } from './stage.ts'

const DELIVERIES = `${WEBHOOKS}/deliveries`
const TEST = `${WEBHOOKS}/test`
const NO_EXECUTION = `exec_${'0'.repeat(32)}`
const OWN = { partner_slug: 'acme', environment: 'test' }

const deliveriesOf = async (service: Service, options?: CallOptions): Promise<Json[]> =>
  (await succeed(service, 'GET', DELIVERIES, undefined, options)).deliveries

const sendTest = (service: Service, options?: CallOptions) => service.call('POST', TEST, {}, options)

/** A stage with a registered receiver, whose next answers the test sets. */
async function withReceiver(t: TestContext) {
  const stage = await startStage(t)
  const answer = { status: 204, held: Promise.resolve() as Promise<unknown> }
  const certificate = stage.authority.issue('IP:127.0.0.1')
  const receiver = await startReceiver(t, certificate, (response) => {
    answer.held.then(() => response.writeHead(answer.status).end())
  })
  const secret = await stage.register(receiver.port, '/hook?token=hidden')
  return { stage, receiver, secret, answer, origin: `https://127.0.0.1:${receiver.port}` }
}

test('every attempt is listed with how it ended, the newest first, and no other part of the address', async (t) => {
  const { stage, answer, origin } = await withReceiver(t)
  assert.deepEqual(await deliveriesOf(stage), [])
  await stage.addPlan('a')
  await stage.addPlan('b')
  await stage.pass()
  const first = formatInstant(stage.now())
  stage.advance(MINUTE_MS)
  answer.status = 503
  await stage.pass(LOW_PRICE)
  const sent = await deliveriesOf(stage)
  const [earliest] = await allExecutions(stage.store)
  const common = { event: 'executions.available', test: false, count: 2, origin }
  assert.deepEqual(
    sent.map(({ duration_ms, earliest_execution_id, ...rest }) => {
      assert.ok(Number(duration_ms) < 10_000)
      return rest
    }),
    [
      {
        ...{ ended_at: formatInstant(stage.now()), ...common },
        ...{ delivered: false, status_code: 503, failure_reason: 'HTTP 503' },
      },
      { ended_at: first, ...common, delivered: true, status_code: 204, failure_reason: null },
    ],
  )
  assert.equal(sent[1]?.earliest_execution_id, earliest?.executionId)
  const other = { key: await stage.issueKey('acme', 'live') }
  assert.deepEqual(await deliveriesOf(stage, other), [])
})

test('the list stays when the address is replaced or removed, and goes with the sandbox', async (t) => {
  const { stage } = await withReceiver(t)
  await stage.addPlan('a')
  await stage.pass()
  const before = await deliveriesOf(stage)
  assert.equal(before.length, 1)
  await stage.register(await freePort(), '/other')
  assert.deepEqual(await deliveriesOf(stage), before)
  await succeed(stage, 'DELETE', WEBHOOKS)
  assert.deepEqual(await deliveriesOf(stage), before)
  await stage.store.eraseUser(await stage.tenant(), 'a', AUDIT)
  assert.deepEqual(await deliveriesOf(stage), before, 'nothing personal is in it')
  await succeed(stage, 'POST', '/partner/v1/sandbox/reset', {})
  assert.deepEqual(await deliveriesOf(stage), [])
})

test('a test is signed like every other wake-up, announces nothing, and changes nothing of the webhook', async (t) => {
  const { stage, receiver, secret, answer, origin } = await withReceiver(t)
  const tenant = await stage.tenant()
  const paused = await stage.store.changeWebhook(tenant, (seen) => {
    assert.ok(seen)
    return { ...seen, status: 'paused', consecutiveFailures: 10 }
  })
  const tested = await succeed(stage, 'POST', TEST, {})
  const [received] = receiver.received
  assert.ok(received)
  assert.equal(received.path, '/hook?token=hidden')
  const signature = String(received.headers['x-service-signature'])
  assert.ok(isSignature(signature, secret, received.raw))
  const payload = { event: 'executions.available', ...OWN, count: 0, earliest_execution_id: NO_EXECUTION }
  assert.deepEqual(JSON.parse(received.raw.toString()), payload)
  assert.deepEqual(tested, {
    ...{ ...OWN, ended_at: formatInstant(stage.now()), event: 'executions.available', test: true },
    ...{ count: 0, earliest_execution_id: NO_EXECUTION, origin, delivered: true },
    ...{ status_code: 204, failure_reason: null, duration_ms: tested.duration_ms },
  })
  answer.status = 302
  const failed = await succeed(stage, 'POST', TEST, {})
  assert.deepEqual([failed.delivered, failed.status_code, failed.failure_reason], [false, 302, 'HTTP 302'])
  assert.deepEqual(await stage.webhook(), paused)
  const listed = (await deliveriesOf(stage)).map((sent) => ({ ...OWN, ...sent }))
  assert.deepEqual(listed, [failed, tested])
  assert.deepEqual(stage.warnings, [])
})

// A partner chooses the address, and the answer reveals it: too few tests for a scan, and one small request for each.

test('tests are few a minute, whatever is registered meanwhile and whichever key asks', async (t) => {
  const { stage, receiver } = await withReceiver(t)
  const other = { key: await stage.issueKey('acme', 'test') }
  const closed = await freePort()
  for (let n = 0; n < TESTS_PER_MINUTE; n++) {
    await stage.register(n % 2 === 0 ? receiver.port : closed)
    const { delivered } = await succeed(stage, 'POST', TEST, {}, n === 1 ? other : {})
    assert.equal(delivered, n % 2 === 0)
    stage.advance(SECOND_MS)
  }
  const sent = receiver.received.length
  await stage.register(receiver.port)
  for (const options of [{}, other]) {
    const { status, headers, body } = await sendTest(stage, options)
    assert.deepEqual([status, headers.get('x-error-code')], [429, 'rate_limited'])
    assert.equal(headers.get('retry-after'), String(60 - TESTS_PER_MINUTE))
    assert.match(body.detail, /At most 5 tests/)
  }
  // A wake-up does not count as a test.
  await stage.addPlan('a')
  assert.deepEqual(await stage.pass(), { sent: 1, failed: 0 })
  assert.equal((await sendTest(stage)).status, 429)
  const live = { key: await stage.issueKey('acme', 'live') }
  await stage.register(receiver.port, '/live', live.key)
  assert.equal((await sendTest(stage, live)).status, 200, 'another tenant has its own')
  assert.equal(receiver.received.length, sent + 2)
  stage.advance(MINUTE_MS - TESTS_PER_MINUTE * SECOND_MS)
  assert.equal((await sendTest(stage)).status, 200)
  assert.equal((await sendTest(stage)).status, 429)
})

test('a test that hangs is the only one of its tenant, and holds up nothing else', async (t) => {
  const { stage, receiver, answer } = await withReceiver(t)
  const { promise, resolve } = Promise.withResolvers<void>()
  answer.held = promise
  const hanging = sendTest(stage)
  await receiver.count(1)
  const second = await sendTest(stage)
  const told = ['x-error-code', 'retry-after'].map((name) => second.headers.get(name))
  assert.deepEqual([second.status, ...told], [429, 'too_many_calls', '1'])
  // Other calls that wait for receivers, and reads, continue.
  await succeed(stage, 'GET', '/partner/v1/billing/monthly?month=2026-01')
  await succeed(stage, 'POST', WEBHOOKS, { url: 'https://127.0.0.1/elsewhere' })
  assert.deepEqual(await deliveriesOf(stage), [], 'it is recorded when it has ended')
  resolve()
  const { status, body } = await hanging
  assert.deepEqual([status, body.delivered, receiver.received.length], [200, true, 1])
  assert.equal((await stage.webhook()).url, 'https://127.0.0.1/elsewhere')
  assert.equal((await deliveriesOf(stage)).length, 1)
})

// Webhook registration: one per partner and environment, the secret shown once.

const URL_A = 'https://127.0.0.1/a?x=1'
const URL_B = 'https://127.0.0.1:8443/b'
const AT_T0 = '2026-01-05T00:00:00.000Z'

const FIRST = {
  ...OWN,
  url: URL_A,
  status: 'active',
  created_at: AT_T0,
  updated_at: AT_T0,
  last_delivered_at: null,
  last_status_code: null,
  consecutive_failures: 0,
}

test('a registration is answered whole with its secret, read back without it, and null before it and after', async (t) => {
  const service = await startService(t)
  const nothing = { ...Object.fromEntries(Object.keys(FIRST).map((name) => [name, null])), ...OWN }
  const read = () => succeed(service, 'GET', WEBHOOKS)
  const remove = () => succeed(service, 'DELETE', WEBHOOKS)
  assert.deepEqual(await read(), nothing)
  assert.deepEqual(await remove(), { ok: true, ...OWN, deleted: false })
  const { secret, ...rest } = await succeed(service, 'POST', WEBHOOKS, { url: URL_A })
  assert.deepEqual(rest, FIRST)
  assert.match(secret, /^sse_whsec_[A-Za-z0-9_-]{32,}$/)
  assert.deepEqual(await read(), FIRST)
  assert.deepEqual(await remove(), { ok: true, ...OWN, deleted: true })
  assert.deepEqual(await read(), nothing)
})

test('registering again replaces the address and the secret, restarts the counters, keeps created_at', async (t) => {
  const service = await startService(t)
  const first = await succeed(service, 'POST', WEBHOOKS, { url: URL_A })
  const tenant = await tenantOf(service)
  for (const [status, url, before, updated_at] of [
    ['active', URL_A, AT_T0, '2026-01-05T00:01:00.000Z'],
    ['paused', URL_B, '2026-01-05T00:01:00.000Z', '2026-01-05T00:02:00.000Z'],
  ] as const) {
    await service.store.changeWebhook(tenant, (seen) => {
      assert.ok(seen)
      const counted = { consecutiveFailures: 10, lastStatusCode: 500, lastDeliveredAt: T0 }
      return { ...seen, ...counted, status, lastFailure: { at: T0, reason: 'HTTP 500' } }
    })
    assert.deepEqual(await succeed(service, 'GET', WEBHOOKS), {
      ...FIRST,
      url,
      status,
      updated_at: before,
      consecutive_failures: 10,
      last_status_code: 500,
      last_delivered_at: AT_T0,
      last_failed_at: AT_T0,
      last_failure_reason: 'HTTP 500',
    })
    service.advance(60_000)
    const { secret, ...rest } = await succeed(service, 'POST', WEBHOOKS, { url: URL_B })
    assert.notEqual(secret, first.secret)
    assert.equal((await service.store.findWebhook(tenant))?.secret, secret)
    assert.deepEqual(rest, { ...FIRST, url: URL_B, updated_at })
  }
})

test('public addresses and the longest URL there may be are taken', async (t) => {
  const service = await startService(t)
  const base = 'https://8.8.8.8/'
  const others = ['https://[2606:4700:4700::1111]:8443/x', 'HTTPS://1.1.1.1', 'https://8.8.8.8/ünï?a=b@c']
  for (const url of [base, base.padEnd(2083, 'x'), ...others])
    assert.equal((await succeed(service, 'POST', WEBHOOKS, { url })).url, url)
})

test('the names of a tenant are looked up one at a time, and a crowd of them is put off', async (t) => {
  let [running, most, looked] = [0, 0, 0]
  const refused = Promise.withResolvers<void>()
  const resolve = async () => {
    running += 1
    looked += 1
    most = Math.max(most, running)
    await refused.promise
    running -= 1
    return ['93.184.216.34']
  }
  const { call } = await startService(t, { more: () => ({ guard: createGuard({ allow: [], resolve }) }) })
  const register = async (n: number) => {
    const answer = await call('POST', WEBHOOKS, { url: `https://h${n}.example/` })
    if (answer.status === 429) refused.resolve()
    return answer
  }
  const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => register(n)))
  const put = answers.filter(({ status }) => status === 429)
  assert.ok(put.length > 0 && put.every(({ headers }) => headers.get('retry-after') === '1'))
  assert.equal(answers.filter(({ status }) => status === 200).length, looked)
  assert.equal(looked + put.length, answers.length)
  assert.equal(most, 1)
})
