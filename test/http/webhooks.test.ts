// Webhook registration: one per partner and environment, the secret shown once.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGuard } from '../../src/webhook/address-guard.ts'
import { startService, T0 } from '../support/service.ts'
import { succeed, WEBHOOKS } from './steps.ts'

const URL_A = 'https://127.0.0.1/a?x=1'
const URL_B = 'https://127.0.0.1:8443/b'
const AT_T0 = '2026-01-05T00:00:00.000Z'

const FIRST = {
  partner_slug: 'acme',
  environment: 'test',
  url: URL_A,
  status: 'active',
  created_at: AT_T0,
  updated_at: AT_T0,
  last_delivered_at: null,
  last_status_code: null,
  consecutive_failures: 0,
}

test('a registration is answered whole with its secret, and read back without it', async (t) => {
  const service = await startService(t)
  const answer = await succeed(service, 'POST', WEBHOOKS, { url: URL_A })
  const { secret, ...rest } = answer
  assert.deepEqual(rest, FIRST)
  assert.match(secret, /^sse_whsec_[A-Za-z0-9_-]{32,}$/)
  assert.deepEqual(await succeed(service, 'GET', WEBHOOKS), FIRST)
})

test('before a registration and after its end the fields are null', async (t) => {
  const service = await startService(t)
  const tenant = { partner_slug: 'acme', environment: 'test' }
  const nothing = {
    ...Object.fromEntries(Object.keys(FIRST).map((name) => [name, null])),
    ...tenant,
  }
  const remove = () => succeed(service, 'DELETE', WEBHOOKS)
  assert.deepEqual(await succeed(service, 'GET', WEBHOOKS), nothing)
  assert.deepEqual(await remove(), { ok: true, ...tenant, deleted: false })
  await succeed(service, 'POST', WEBHOOKS, { url: URL_A })
  assert.deepEqual(await remove(), { ok: true, ...tenant, deleted: true })
  assert.deepEqual(await remove(), { ok: true, ...tenant, deleted: false })
  assert.deepEqual(await succeed(service, 'GET', WEBHOOKS), nothing)
})

test('registering again replaces the address and the secret, restarts the counters, keeps created_at', async (t) => {
  const service = await startService(t)
  const first = await succeed(service, 'POST', WEBHOOKS, { url: URL_A })
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  for (const status of ['active', 'paused'] as const) {
    await service.store.changeWebhook(tenant, (seen) => {
      assert.ok(seen)
      return {
        ...seen,
        status,
        consecutiveFailures: 10,
        lastStatusCode: 500,
        lastDeliveredAt: T0,
        lastFailure: { at: T0, reason: 'HTTP 500' },
      }
    })
    assert.deepEqual(await succeed(service, 'GET', WEBHOOKS), {
      ...FIRST,
      url: status === 'active' ? URL_A : URL_B,
      updated_at: status === 'active' ? AT_T0 : '2026-01-05T00:01:00.000Z',
      status,
      consecutive_failures: 10,
      last_status_code: 500,
      last_delivered_at: AT_T0,
      last_failed_at: AT_T0,
      last_failure_reason: 'HTTP 500',
    })
    service.advance(60_000)
    const again = await succeed(service, 'POST', WEBHOOKS, { url: URL_B })
    assert.notEqual(again.secret, first.secret)
    const { secret, ...rest } = again
    assert.equal((await service.store.findWebhook(tenant))?.secret, secret)
    const updated_at = status === 'active' ? '2026-01-05T00:01:00.000Z' : '2026-01-05T00:02:00.000Z'
    assert.deepEqual(rest, { ...FIRST, url: URL_B, updated_at })
  }
})

test('the same address again is a new registration too: a new secret', async (t) => {
  const service = await startService(t)
  const secrets = await Promise.all(
    Array.from({ length: 5 }, async () => (await succeed(service, 'POST', WEBHOOKS, { url: URL_A })).secret),
  )
  assert.equal(new Set(secrets).size, secrets.length)
})

/** In two of the spellings that a URL has for one; all of them are in test/webhook/guard.test.ts. */
const REFUSED = ['169.254.169.254', '0xa000001', '[::ffff:10.0.0.1]']

test('an address that is not public is refused with the reason and registers nothing', async (t) => {
  const service = await startService(t)
  await succeed(service, 'POST', WEBHOOKS, { url: URL_A })
  for (const host of REFUSED) {
    const { status, body } = await service.call('POST', WEBHOOKS, { url: `https://${host}/hook` })
    assert.equal(status, 400, `${host}: ${JSON.stringify(body)}`)
    assert.match(body.detail, /^Webhook URL is refused: /, host)
  }
  assert.deepEqual(await succeed(service, 'GET', WEBHOOKS), FIRST)
})

test('public addresses and the longest URL there may be are taken', async (t) => {
  const service = await startService(t)
  const base = 'https://8.8.8.8/'
  const urls = [base, 'https://[2606:4700:4700::1111]:8443/x', 'HTTPS://1.1.1.1', base.padEnd(2083, 'x')]
  for (const url of urls) assert.equal((await succeed(service, 'POST', WEBHOOKS, { url })).url, url)
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

// A webhook's URL is shown on an operator's terminal: it may hold nothing that a terminal obeys.

test('a URL with characters that are not seen is refused', async (t) => {
  const service = await startService(t)
  const hidden = ['\u0000', '\u001b[31m', '\u009b2J', '\u202e', '\u2066', '\u200b', '\t', '\n', ' ', '\u00a0']
  for (const mark of hidden) {
    for (const url of [
      `https://127.0.0.1:9/a${mark}b`,
      `${mark}https://127.0.0.1:9/`,
      `https://127.0.0.1:9/${mark}`,
    ]) {
      const { status, body } = await service.call('POST', '/partner/v1/webhooks', { url })
      assert.equal(status, 422, JSON.stringify(url))
      assert.deepEqual([body.detail[0].type, body.detail[0].loc], ['url_parsing', ['body', 'url']])
    }
  }
  for (const url of ['https://@127.0.0.1:9/', 'https://:@127.0.0.1:9/']) {
    assert.equal((await service.call('POST', '/partner/v1/webhooks', { url })).status, 422, url)
  }
  const fine = await service.call('POST', '/partner/v1/webhooks', { url: 'https://127.0.0.1:9/ünï?a=b@c' })
  assert.equal(fine.status, 200)
})
