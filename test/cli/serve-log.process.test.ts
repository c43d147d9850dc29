// What serve logs of a whole session with its own scheduler, and above all what it does not.

import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { startQuietServe, startServe } from '../support/process.ts'
import { withKey } from '../support/service.ts'

/** Values that nothing else could bring into a log by accident. */
const MARKS = {
  user: 'mark-user-7261',
  email: 'mark-email-1182@example.org',
  provider: 'mark-provider-9923',
  consent: 'mark-consent-4410',
  plan: 'mark-plan-5527',
  amount: '7351.17',
  order: 'mark-order-6634',
  reason: 'mark-reason-8845',
  hook: 'https://127.0.0.1:9/mark-hook-2290',
  cursor: 'mark-cursor-3371',
  broken: 'mark-broken-7718',
  stranger: 'mark-stranger-token-0042',
}

suite('the log of serve', { concurrency: 2 }, () => {
  test('one JSON line a request, and in none a key, a secret, or anything of a body or a query', async (t) => {
    const { cwd, key } = await withKey(t)
    const argv = ['--tick-every', '1s', '--price-feed', 'static:60000', '--webhook-allow-cidr', '127.0.0.0/8']
    const served = await startServe(t, [...argv, '--log-level', 'debug'], { cwd })
    const calls: number[] = []
    const call = async (method: string, path: string, body?: unknown, bearer = key) => {
      const headers = { authorization: `Bearer ${bearer}` }
      const sent = typeof body === 'string' ? body : JSON.stringify(body)
      const answer = await fetch(`${served.url}/partner/v1${path}`, {
        method,
        headers,
        ...(sent && { body: sent }),
      })
      calls.push(answer.status)
      return answer.json()
    }

    await call('POST', '/users', {
      partner_user_id: MARKS.user,
      email: MARKS.email,
      auth_provider: MARKS.provider,
      consent_accepted: true,
      consent_version: MARKS.consent,
      consent_timestamp: '2026-01-01T00:00:00Z',
    })
    const { secret } = (await call('POST', '/webhooks', { url: MARKS.hook })) as { secret: string }
    assert.match(secret, /^sse_whsec_/)
    const plan = { partner_user_id: MARKS.user, partner_plan_id: MARKS.plan, amount_usd: MARKS.amount }
    await call('POST', '/plans', { ...plan, frequency: 'daily' })
    const tick = JSON.parse(await served.line('"executions_created":1'))
    assert.deepEqual([tick.msg, tick.price_usd], ['tick', '60000.00'])
    const [due] = (await call('GET', '/executions/due')) as { execution_id: string }[]
    const report = { partner_order_id: MARKS.order, status: 'failed', failure_reason: MARKS.reason }
    await call('POST', `/executions/${due?.execution_id}/confirm`, report)
    await call('PATCH', `/users/${MARKS.user}`, { status: 'disabled' })
    await call('GET', `/billing/monthly/users?month=2026-01&cursor=${MARKS.cursor}`)
    await call('POST', '/plans', `{"${MARKS.broken}`)
    await call('POST', '/plans', { ...plan, frequency: MARKS.broken })
    await call('GET', `/${MARKS.broken}`)
    await call('GET', '/me', undefined, MARKS.stranger)
    assert.equal((await fetch(`${served.url}/healthz`)).status, 200)
    await served.line('"route":"/healthz"')
    served.child.kill('SIGTERM')
    assert.equal(await served.ended, 0)

    const log = served.err()
    const values = [...Object.values(MARKS), new URL(MARKS.hook).pathname, key, secret]
    for (const value of [...values, key.slice(9, -6), secret.slice(10)])
      assert.ok(!log.includes(value), `${value} is in the log`)
    const lines = log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const requests = lines.filter(({ msg }) => msg === 'request')
    assert.deepEqual(
      requests.map(({ status }) => status),
      calls,
    )
    const fields = 'level time request_id method route partner_slug environment status duration_ms msg'
    for (const { content_type, error_code, ...line } of requests) {
      assert.equal(error_code === undefined, line.status === 200, line.route)
      assert.equal(Object.keys(line).join(' '), fields)
      assert.ok(content_type === undefined || line.status === 422, content_type)
    }
    const ops = lines.filter(({ msg }) => msg === 'ops request')
    assert.deepEqual(
      ops.map(({ level, route, status }) => [level, route, status]),
      [['debug', '/healthz', 200]],
    )
  })

  test('--log-level: ops calls are not logged by default, and info is not at warn', async (t) => {
    const { cwd, key } = await withKey(t)
    const usual = await startServe(t, [], { cwd })
    assert.equal((await fetch(`${usual.url}/readyz`)).status, 200)
    assert.equal((await fetch(`${usual.url}/partner/v1/me`, { headers: { authorization: key } })).status, 401)
    await usual.line('"msg":"request"')
    assert.ok(!usual.err().includes('/readyz'))
    // The calls answered just before a stop are in it as well.
    const headers = { authorization: `Bearer ${key}` }
    const last = Array.from({ length: 60 }, () => fetch(`${usual.url}/partner/v1/me`, { headers }))
    await Promise.all(last)
    usual.child.kill('SIGTERM')
    assert.equal(await usual.ended, 0)
    assert.equal(usual.err().match(/"msg":"request"/g)?.length, 1 + last.length)
    assert.match(usual.err(), /"msg":"stopped"\}\n$/)
    const silent = await startQuietServe(t, ['--log-level', 'warn'], { cwd })
    assert.equal((await fetch(`${silent.url}/partner/v1/me`)).status, 401)
    silent.child.kill('SIGTERM')
    assert.equal(await silent.ended, 0)
    assert.equal(silent.err(), '')
  })
})
