// Metrics: their values, and that reading them changes nothing.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { PARTNERS_NAMED } from '../../src/http/ops/metrics.ts'
import { shell } from '../levers/steps.ts'
import { each } from '../store/world.ts'
import { isOnServer } from '../support/database.ts'
import { AUDIT, fill } from '../support/service.ts'
import { startMonitored } from './monitored.ts'
import { confirmPath, link, PRICE, plan, poll, sendFirst, succeed, tenantOf, WEBHOOKS } from './steps.ts'

test('metrics: what happened is counted, a replay is not', async (t) => {
  const service = await startMonitored(t)
  const ids = await sendFirst(service, ['p1', 'p2', 'p3'])
  for (const body of [fill('o1', '10.00'), fill('o1', '10.00')])
    await succeed(service, 'POST', confirmPath(ids.get('p1') ?? ''), body)
  const failure = { partner_order_id: 'o2', status: 'failed', failure_reason: 'venue closed' }
  await succeed(service, 'POST', confirmPath(ids.get('p2') ?? ''), failure)
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
  // A server does not expose its log.
  assert.ok(isOnServer || value('tranche_wal_bytes') > 0)
  assert.ok(value('nodejs_eventloop_lag_p99_seconds') >= 0)
  assert.ok(value('process_resident_memory_bytes') > 0)
  assert.ok(!has('tranche_http_requests_total{method="GET",route="/metrics",status="200"}'))
  assert.equal(types.get('tranche_executions_created_total'), 'counter')
  for (const le of [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300])
    assert.ok(has(`tranche_tick_duration_seconds_bucket{le="${le}"}`), `alert rules name the bound ${le}`)
  for (const le of [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10])
    assert.ok(has(`tranche_http_request_duration_seconds_bucket{le="${le}",method="POST",${route}}`), `${le}`)
  const again = await service.samples()
  assert.equal(again.value('tranche_executions_created_total{environment="test"}'), 3, 'asked once more')
  assert.equal(again.value('tranche_ticks_total{result="finished"}'), 1)
})

test('metrics: webhooks by status and by their last result', async (t) => {
  const service = await startMonitored(t)
  await succeed(service, 'POST', WEBHOOKS, { url: 'https://127.0.0.1/hook' })
  const series = 'tranche_webhooks{environment="test",last_result="none",status="active"}'
  assert.equal((await service.samples()).value(series), 1)
  const tenant = await tenantOf(service)
  await service.store.changeWebhook(tenant, (webhook) => {
    assert.ok(webhook)
    return { ...webhook, status: 'paused', consecutiveFailures: 10 }
  })
  const { value, has } = await service.samples()
  assert.equal(value('tranche_webhooks{environment="test",last_result="failed",status="paused"}'), 1)
  assert.equal(value('tranche_webhooks_paused'), 0, 'a test environment sets off no alarm')
  assert.ok(!has(series), 'what is gone is not shown')
})

test('a hold shows in status and in the metrics until it is released', async (t) => {
  const service = await startMonitored(t)
  await service.issueKey('bolt', 'test')
  const seen = async () => {
    const { partners, by_partner } = JSON.parse(await shell(service, ['status', '--json']))
    const words = (await shell(service, ['status'])).match(/^partners +(.*)$/m)?.[1]
    const { value } = await service.samples()
    const held = (slug: string) => value(`tranche_partner_held{partner="${slug}"}`)
    return [partners.held, each(by_partner, 'held'), words, held('acme'), held('bolt')]
  }
  assert.deepEqual(await seen(), [0, [false, false], '2 active, 0 disabled', 0, 0])
  await shell(service, ['partner', 'hold', 'acme'])
  assert.deepEqual(await seen(), [1, [true, false], '2 active, 0 disabled, 1 held (acme)', 1, 0])
  await shell(service, ['partner', 'release', 'acme'])
  assert.deepEqual(await seen(), [0, [false, false], '2 active, 0 disabled', 0, 0])
})

test('a partner that fails every order is found by status, by check and in the metrics', async (t) => {
  const service = await startMonitored(t)
  const options = { key: await service.issueKey('acme', 'live') }
  await link(service, 'u', options)
  for (const id of ['p1', 'p2', 'p3']) await plan(service, 'u', id, {}, options)
  await service.tick(PRICE)
  for (const [n, { execution_id }] of [...(await poll(service, options)).values()].flat().entries()) {
    const report = { partner_order_id: `o${n}`, status: 'failed', failure_reason: 'venue closed' }
    await succeed(service, 'POST', confirmPath(String(execution_id)), report, options)
  }
  const findings = async (command: string) => JSON.parse(await shell(service, [command, '--json'])).findings
  const [finding] = await findings('status')
  assert.deepEqual(await findings('check'), await findings('status'))
  assert.equal(finding.kind, 'partner_failing')
  const mend = finding.mend.replaceAll("'", '').split(' ').slice(3)
  assert.equal((await shell(service, mend)).match(/^exec_/gm)?.length, 3)
  const { value } = await service.samples()
  assert.equal(value('tranche_partner_orders{partner="acme",result="failed"}'), 3)
  assert.equal(value('tranche_findings{kind="partner_failing",severity="page"}'), 1)
  assert.equal(value('tranche_partner_finding{kind="partner_failing",partner="acme",severity="page"}'), 1)
  assert.equal(value('tranche_partner_last_poll_age_seconds{partner="acme"}'), 0)
})

test('of a feed that is down, status has its host and no more: the rest of an address may hold a key', async (t) => {
  const service = await startMonitored(t)
  await shell(service, ['tick', '--price', '64250.50'])
  await shell(service, ['tick', '--price-feed', 'http://127.0.0.1:9/secret-key#/price'])
  const words = await shell(service, ['status'])
  assert.match(words, /^price +64,250\.50 USD, 0 s old, from manual; feed http:\/\/127\.0\.0\.1:9 is down$/m)
  assert.ok(!words.includes('secret-key'))
  assert.equal((await service.samples()).value('tranche_feed_down'), 1)
})

test('of many partners the metrics name those with a finding first, and say how many they leave out', async (t) => {
  const service = await startMonitored(t)
  const last = `many-${100 + PARTNERS_NAMED}`
  for (let i = 100; i <= 100 + PARTNERS_NAMED; i++)
    await service.store.addPartner({ partnerSlug: `many-${i}`, name: 'one of many' }, AUDIT)
  const seen = async () => {
    const { value, has } = await service.samples()
    return [value('tranche_partners_unnamed'), has(`tranche_partner_held{partner="${last}"}`)]
  }
  assert.deepEqual(await seen(), [2, false])
  const options = { key: await service.issueKey(last, 'live') }
  await link(service, 'u', options)
  await plan(service, 'u', 'p', {}, options)
  await service.tick(PRICE)
  service.advance(HOUR_MS)
  assert.deepEqual(await seen(), [2, true])
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
