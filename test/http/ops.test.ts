// Health, readiness and metrics: who may see them, what they say, and that asking changes nothing.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { H3Event } from 'h3'
import { MINUTE_MS } from '../../src/core/instant.ts'
import { createMetrics, EXPOSITION_TYPE } from '../../src/http/metrics.ts'
import { createOps, OPS_PATHS } from '../../src/http/ops-endpoints.ts'
import { connect, openFile } from '../../src/store/sqlite/file/connection.ts'
import { createMonitoringStore } from '../../src/store/sqlite/health/monitoring.ts'
import { fill, type Service, startService, T0 } from '../support/service.ts'
import { startMonitored } from './monitored.ts'
import { confirmPath, sendFirst, succeed, WEBHOOKS } from './steps.ts'

/** What a caller sees of an answer, all that differs from call to call left out. */
async function seen(url: string, headers: Record<string, string>): Promise<object> {
  const answer = await fetch(url, { headers })
  const fixed = [...answer.headers].filter(([name]) => !['date', 'x-request-id'].includes(name))
  assert.ok(answer.headers.has('x-request-id'))
  return { status: answer.status, headers: Object.fromEntries(fixed), text: await answer.text() }
}

/** Asserts that the ops paths cannot be told from one that does not exist, with and without a key. */
async function assertHidden({ url, key }: Service, headers: Record<string, string>): Promise<void> {
  for (const path of OPS_PATHS) {
    assert.deepEqual(await seen(url + path, headers), await seen(`${url}/nothing`, headers), path)
    const known = { ...headers, authorization: `Bearer ${key}` }
    const answer = await seen(url + path, known)
    assert.deepEqual(answer, await seen(`${url}/nothing`, known), path)
    assert.equal('status' in answer && answer.status, 404)
  }
}

test('this machine sees them without a key, and nobody who came through a proxy', async (t) => {
  const service = await startMonitored(t)
  for (const path of OPS_PATHS) assert.equal((await fetch(service.url + path)).status, 200)
  const posted = await fetch(`${service.url}/healthz`, { method: 'POST' })
  assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET'])
  await assertHidden(service, { 'x-forwarded-for': '127.0.0.1' })
  await assertHidden(service, { forwarded: 'for=192.0.2.1' })
})

test('their answers have the id of the call, like all others', async (t) => {
  const service = await startMonitored(t)
  const made = new Set<string | null>()
  for (const path of OPS_PATHS) {
    for (const method of ['GET', 'POST', 'HEAD']) {
      const call = (id: string) => fetch(service.url + path, { method, headers: { 'x-request-id': id } })
      assert.equal((await call('mine')).headers.get('x-request-id'), 'mine', `${method} ${path}`)
      const { headers } = await call('a b')
      assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/, `${method} ${path}`)
      made.add(headers.get('x-request-id'))
    }
  }
  assert.equal(made.size, 3 * OPS_PATHS.length)
})

test('which peers are this machine', () => {
  const fixed = { clock: () => T0, metrics: createMetrics(), exposition: EXPOSITION_TYPE }
  const { admits } = createOps({ ...fixed, token: null })
  const from = (remoteAddress: string | undefined, headers = {}): boolean => {
    const node = { req: { socket: { remoteAddress } } }
    return admits({ req: { headers: new Headers(headers), runtime: { node } } } as unknown as H3Event)
  }
  for (const peer of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1']) assert.ok(from(peer), peer)
  for (const peer of ['10.0.0.1', '192.0.2.1', '::ffff:192.0.2.1', 'fe80::1%eth0', '::', '', undefined])
    assert.ok(!from(peer), String(peer))
  for (const name of ['x-forwarded-for', 'Forwarded', 'x-real-ip', 'via'])
    assert.ok(!from('127.0.0.1', { [name]: '127.0.0.1' }), name)
})

test('with a token they are seen by its bearer alone, from wherever', async (t) => {
  const token = 'correct-horse-battery'
  const service = await startMonitored(t, { token })
  await assertHidden(service, {})
  for (const wrong of [`Bearer ${token}x`, 'Bearer x', token, `Basic ${token}`])
    assert.equal((await fetch(`${service.url}/metrics`, { headers: { authorization: wrong } })).status, 401)
  const headers = { authorization: `Bearer ${token}`, 'x-forwarded-for': '192.0.2.1' }
  for (const path of OPS_PATHS) assert.equal((await fetch(service.url + path, { headers })).status, 200)
})

test('without ops there is nothing there at all', async (t) => {
  await assertHidden(await startService(t), {})
})

test('metrics: what happened is counted, a replay is not', async (t) => {
  const service = await startMonitored(t)
  const ids = await sendFirst(service, ['p1', 'p2', 'p3'])
  for (const body of [fill('o1', '10.00'), fill('o1', '10.00')])
    await succeed(service, 'POST', confirmPath(ids.get('p1') ?? ''), body)
  await succeed(service, 'POST', confirmPath(ids.get('p2') ?? ''), {
    partner_order_id: 'o2',
    status: 'failed',
    failure_reason: 'venue closed',
  })
  await service.call('PROPFIND', '/partner/v1/me')
  service.advance(6 * MINUTE_MS)
  const { value, has, types } = await service.samples()
  const route = 'route="/partner/v1/executions/:execution_id/confirm"'
  assert.equal(value(`tranche_http_requests_total{method="POST",${route},status="200"}`), 3)
  assert.equal(value(`tranche_http_request_duration_seconds_count{method="POST",${route}}`), 3)
  assert.equal(value('tranche_http_requests_total{method="other",route="/partner/v1/me",status="405"}'), 1)
  assert.equal(value('tranche_executions_created_total{environment="test"}'), 3)
  assert.equal(value('tranche_executions_created_total{environment="live"}'), 0)
  assert.equal(value('tranche_executions_confirmed_total{environment="test",status="filled"}'), 1)
  assert.equal(value('tranche_executions_confirmed_total{environment="test",status="failed"}'), 1)
  assert.equal(value('tranche_ticks_total{result="finished"}'), 1)
  assert.equal(value('tranche_tick_duration_seconds_count'), 1)
  assert.equal(value('tranche_last_tick_age_seconds'), 360)
  // The third one's lease of five minutes is over.
  assert.equal(value('tranche_executions_open{environment="test"}'), 1)
  assert.equal(value('tranche_executions_due{environment="test"}'), 1)
  assert.equal(value('tranche_executions_due{environment="live"}'), 0)
  assert.equal(value('tranche_executions_due_oldest_age_seconds'), 0, 'a test environment sets off no alarm')
  assert.equal(value('tranche_plans{environment="test",status="active"}'), 3)
  assert.ok(value('tranche_wal_bytes') > 0)
  assert.ok(value('nodejs_eventloop_lag_p99_seconds') >= 0)
  assert.ok(value('process_resident_memory_bytes') > 0)
  assert.ok(!has('tranche_http_requests_total{method="GET",route="/metrics",status="200"}'))
  assert.equal(types.get('tranche_executions_created_total'), 'counter')
})

test('metrics: the plans are read once a minute', async (t) => {
  let read = 0
  const service = await startMonitored(t, {
    watched: (store) => ({
      ...store,
      takeStock: (now) => {
        read += 1
        return store.takeStock(now)
      },
    }),
  })
  await service.samples()
  await service.samples()
  assert.equal(read, 1)
  service.advance(MINUTE_MS)
  await service.samples()
  assert.equal(read, 2)
})

test('metrics: webhooks by status and by their last result', async (t) => {
  const service = await startMonitored(t)
  await succeed(service, 'POST', WEBHOOKS, { url: 'https://127.0.0.1/hook' })
  const series = 'tranche_webhooks{environment="test",last_result="none",status="active"}'
  assert.equal((await service.samples()).value(series), 1)
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  await service.store.changeWebhook(tenant, (webhook) => {
    assert.ok(webhook)
    return { ...webhook, status: 'paused', consecutiveFailures: 10 }
  })
  const { value, has } = await service.samples()
  assert.equal(value('tranche_webhooks{environment="test",last_result="failed",status="paused"}'), 1)
  assert.equal(value('tranche_webhooks_paused'), 0, 'a test environment sets off no alarm')
  assert.ok(!has(series), 'what is no more is not shown')
})

test('metrics: a database that cannot be read leaves out what it alone knows', async (t) => {
  const service = await startMonitored(t, {
    watched: (store) => ({ ...store, readBacklog: () => Promise.reject(new Error('disk I/O error')) }),
  })
  const { value, has } = await service.samples()
  assert.equal(value('tranche_database_up'), 0)
  assert.ok(!has('tranche_wal_bytes'))
  assert.ok(value('process_cpu_seconds_total') > 0)
})

test('no question of monitoring reads a whole table of plans, executions or trades', async (t) => {
  const { file } = await startMonitored(t)
  const db = openFile(file)
  t.after(() => db.close())
  // The statements as the store prepares them.
  const prepared: string[] = []
  const prepare = db.prepare.bind(db)
  db.prepare = ((text: string) => {
    prepared.push(text)
    return prepare(text)
  }) as typeof db.prepare
  createMonitoringStore(connect(db, () => T0))
  db.prepare = prepare
  const texts = prepared.filter((text) => text.startsWith('select '))
  assert.ok(texts.length > 15)
  for (const text of texts) {
    const names = Object.fromEntries([...text.matchAll(/:(\w+)/g)].map(([, name]) => [name, 1]))
    const steps = db
      .prepare<object, { detail: string }>(`explain query plan ${text}`)
      .all(text.includes('?') ? [1] : names)
    // An index that holds only what waits for an operator may be read from end to end.
    const scans = steps.filter(
      ({ detail }) =>
        /SCAN (plans|executions|trades|schedules|windows|outcomes|[depow])\b/.test(detail) &&
        !detail.endsWith('USING INDEX executions_unkept'),
    )
    // The newest of an ordered table is found at its end.
    if (!text.startsWith('select max(')) assert.deepEqual(scans, [], text)
    if (text.includes('awake')) assert.match(steps[0]?.detail ?? '', /^SEARCH s USING INTEGER PRIMARY KEY/)
  }
})
