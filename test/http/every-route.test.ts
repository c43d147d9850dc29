// Every route of the table against every caller it is not for: other partners, the other environment, callers with no
// key or a dead one. A new route without a row here fails.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { revoke } from '../../src/core/key.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { keyHash } from '../../src/keys.ts'
import { AUDIT, fill, PLAN, type Service, startService, USER } from '../support/service.ts'
import { confirmPath, executionsOf, PRICE, planPath, poll, succeed, userPath, WEBHOOKS } from './steps.ts'

/** Data of the owner that nobody else may see. A stranger knows the ids, and uses them. */
const MARKS = {
  email: 'mark-email@example.org',
  consent: 'mark-consent',
  order: 'mark-order',
  hook: 'https://127.0.0.1/mark-hook',
  amount: '7777.77',
}
const KNOWN = { user: 'user-of-acme', plan: 'plan-of-acme' }
const OWN_HOOK = 'https://127.0.0.1/of-a-stranger'

/** `live` is the status with a live key, where it differs. */
type Row = { path: (executionId: string) => string; body?: object; status: number; live?: number }

/** Calls of a stranger who knows all ids to each route, and the expected status. */
const ROWS: Record<string, Row> = {
  'GET /partner/v1/me': { path: () => '/partner/v1/me', status: 200 },
  'POST /partner/v1/users': {
    path: () => '/partner/v1/users',
    body: { ...USER, partner_user_id: 'user-of-a-stranger' },
    status: 200,
  },
  'GET /partner/v1/users': { path: () => '/partner/v1/users', status: 200 },
  'GET /partner/v1/users/:partner_user_id': { path: () => userPath(KNOWN.user), status: 404 },
  'PATCH /partner/v1/users/:partner_user_id': {
    path: () => userPath(KNOWN.user),
    body: { status: 'disabled' },
    status: 404,
  },
  'POST /partner/v1/plans': {
    path: () => '/partner/v1/plans',
    body: {
      ...PLAN,
      partner_user_id: KNOWN.user,
      partner_plan_id: KNOWN.plan,
      amount_usd: '1.00',
      status: 'cancelled',
    },
    status: 404,
  },
  'GET /partner/v1/plans': { path: () => '/partner/v1/plans', status: 200 },
  'GET /partner/v1/plans/:partner_plan_id': { path: () => planPath(KNOWN.plan), status: 404 },
  'GET /partner/v1/executions/due': { path: () => '/partner/v1/executions/due', status: 200 },
  'POST /partner/v1/executions/:execution_id/confirm': {
    path: confirmPath,
    body: fill(MARKS.order, '1.00'),
    status: 404,
  },
  'GET /partner/v1/executions': { path: () => '/partner/v1/executions', status: 200 },
  'GET /partner/v1/trades': { path: () => '/partner/v1/trades?month=2026-01', status: 200 },
  'POST /partner/v1/webhooks': { path: () => WEBHOOKS, body: { url: OWN_HOOK }, status: 200 },
  'GET /partner/v1/webhooks': { path: () => WEBHOOKS, status: 200 },
  'DELETE /partner/v1/webhooks': { path: () => WEBHOOKS, status: 200 },
  'GET /partner/v1/webhooks/deliveries': { path: () => `${WEBHOOKS}/deliveries`, status: 200 },
  'POST /partner/v1/webhooks/test': { path: () => `${WEBHOOKS}/test`, body: {}, status: 404 },
  'GET /partner/v1/billing/monthly': {
    path: () => '/partner/v1/billing/monthly?month=2026-01',
    status: 200,
  },
  'GET /partner/v1/billing/monthly/users': {
    path: () => '/partner/v1/billing/monthly/users?month=2026-01',
    status: 200,
  },
  'GET /partner/v1/sandbox': { path: () => '/partner/v1/sandbox', status: 200, live: 403 },
  'POST /partner/v1/sandbox/advance': {
    path: () => '/partner/v1/sandbox/advance',
    body: { by: '8h' },
    status: 200,
    live: 403,
  },
  'POST /partner/v1/sandbox/fire': {
    path: () => '/partner/v1/sandbox/fire',
    body: { partner_plan_id: KNOWN.plan },
    status: 404,
    live: 403,
  },
  'POST /partner/v1/sandbox/reset': {
    path: () => '/partner/v1/sandbox/reset',
    body: {},
    status: 200,
    live: 403,
  },
}

const routes = ROUTES.map(({ method, path }) => `${method} ${path}`)

test('every route has a row', () => {
  assert.deepEqual(Object.keys(ROWS), routes)
})

test('every route tells a stranger who knows all ids nothing, and changes nothing of the owner', async (t) => {
  const service = await startService(t)
  const executionId = await own(service)
  const before = await contentOf(service)
  for (const [slug, environment] of [
    ['acme', 'live'],
    ['other', 'test'],
    ['other', 'live'],
  ] as const) {
    const options = { key: await service.issueKey(slug, environment) }
    for (const [route, { path, body, status: usual, live = usual }] of Object.entries(ROWS)) {
      const status = environment === 'live' ? live : usual
      const who = `${slug} ${environment}: ${route}`
      const answer = await service.call(route.split(' ')[0] ?? '', path(executionId), body, options)
      assert.equal(answer.status, status, `${who}: ${JSON.stringify(answer.body)}`)
      const told = JSON.stringify([answer.body, ...answer.headers])
      for (const mark of [...Object.values(MARKS), ...Object.values(KNOWN), executionId])
        assert.ok(!told.includes(mark), `${who} tells ${mark}`)
    }
  }
  assert.deepEqual(await contentOf(service), before)
  assert.deepEqual([...(await poll(service)).keys()], [KNOWN.plan])
})

test('every route asks for a key that lives, before anything else', async (t) => {
  const service = await startService(t)
  const executionId = await own(service)
  const before = await contentOf(service)
  const dead = await service.issueKey('acme', 'test')
  const record = await service.store.findKey(keyHash(dead))
  assert.ok(record)
  const { keyId } = record.key
  await service.store.changeKey(keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT)
  const nearly = `${service.key.slice(0, -1)}${service.key.endsWith('0') ? '1' : '0'}`
  for (const key of [null, 'x', dead, nearly, `${service.key}0`]) {
    for (const [route, { path, body }] of Object.entries(ROWS)) {
      const answer = await service.call(route.split(' ')[0] ?? '', path(executionId), body, { key })
      assert.equal(answer.status, 401, `${route} with ${key}`)
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer', route)
      assert.deepEqual(Object.keys(answer.body), ['detail'], route)
    }
  }
  assert.deepEqual(await contentOf(service), before)
})

/** Sets up every kind of data, with an instruction not yet delivered. */
async function own(service: Service): Promise<string> {
  const user = {
    ...USER,
    partner_user_id: KNOWN.user,
    email: MARKS.email,
    consent_version: MARKS.consent,
  }
  await succeed(service, 'POST', '/partner/v1/users', user)
  for (const [id, amount] of [
    [`${KNOWN.plan}-filled`, '60.00'],
    [KNOWN.plan, MARKS.amount],
  ])
    await succeed(service, 'POST', '/partner/v1/plans', {
      ...PLAN,
      partner_user_id: KNOWN.user,
      partner_plan_id: id,
      amount_usd: amount,
    })
  await succeed(service, 'POST', WEBHOOKS, { url: MARKS.hook })
  await succeed(service, 'POST', `${WEBHOOKS}/test`, {})
  await service.tick(PRICE)
  const [filled] = await executionsOf(service, `${KNOWN.plan}-filled`)
  await poll(service)
  await succeed(service, 'POST', confirmPath(String(filled?.executionId)), fill(MARKS.order, '10.00'))
  service.advance(6 * 60_000)
  return String((await executionsOf(service, KNOWN.plan))[0]?.executionId)
}

/** All data of the owner, to be compared later. */
async function contentOf(service: Service) {
  const { store } = service
  const tenant = await store.findTenant('acme', 'test')
  assert.ok(tenant)
  const page = { after: null, limit: 100 }
  return {
    users: await store.listUsers(tenant, page),
    plans: await store.listPlans({ slug: 'acme', environment: 'test' }, page),
    executions: await store.listExecutions(
      { slug: 'acme', environment: 'test', status: null, stuck: false },
      page,
    ),
    webhook: await store.findWebhook(tenant),
    deliveries: await store.listDeliveries(tenant),
    month: (await service.call('GET', '/partner/v1/billing/monthly?month=2026-01')).body,
  }
}
