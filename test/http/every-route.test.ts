// Every route of the table against every caller it is not for: other partners, the other environment, callers with no
// key or a dead one. A new route without a row here fails.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ROUTES } from '../../src/http/routes.ts'
import { allExecutions } from '../store/world.ts'
import { fill, PLAN, type Service, startService, USER } from '../support/service.ts'
import {
  confirmPath,
  executionsOf,
  PRICE,
  plan,
  planPath,
  poll,
  revokeKey,
  succeed,
  TRADES,
  tenantOf,
  USERS,
  userPath,
  WEBHOOKS,
} from './steps.ts'

/** Data of the owner that nobody else may see. A stranger knows the ids, and uses them. */
const MARKS = {
  email: 'mark-email@example.org',
  consent: 'mark-consent',
  order: 'mark-order',
  hook: 'https://127.0.0.1/mark-hook',
  amount: '7777.77',
}
const KNOWN = { user: 'user-of-acme', plan: 'plan-of-acme' }
const MONTHLY = '/partner/v1/billing/monthly?month=2026-01'

/** `live` is the status with a live key, where it differs. */
type Row = { path?: (executionId: string) => string; body?: object; status?: number; live?: number }

/**
 * Calls of a stranger who knows all ids to each route, and the expected status: 200 unless said otherwise, at the path
 * of the route.
 */
const ROWS: Record<string, Row> = {
  'GET /partner/v1/me': {},
  'POST /partner/v1/users': { body: { ...USER, partner_user_id: 'user-of-a-stranger' } },
  'GET /partner/v1/users': {},
  'GET /partner/v1/users/:partner_user_id': { path: () => userPath(KNOWN.user), status: 404 },
  'PATCH /partner/v1/users/:partner_user_id': {
    path: () => userPath(KNOWN.user),
    body: { status: 'disabled' },
    status: 404,
  },
  'POST /partner/v1/plans': {
    body: { ...PLAN, partner_user_id: KNOWN.user, partner_plan_id: KNOWN.plan, status: 'cancelled' },
    status: 404,
  },
  'GET /partner/v1/plans': {},
  'GET /partner/v1/plans/:partner_plan_id': { path: () => planPath(KNOWN.plan), status: 404 },
  'GET /partner/v1/executions/due': {},
  'POST /partner/v1/executions/:execution_id/confirm': {
    path: confirmPath,
    body: fill(MARKS.order, '1.00'),
    status: 404,
  },
  'GET /partner/v1/executions': {},
  'GET /partner/v1/trades': { path: () => `${TRADES}?month=2026-01` },
  'POST /partner/v1/webhooks': { body: { url: 'https://127.0.0.1/of-a-stranger' } },
  'GET /partner/v1/webhooks': {},
  'DELETE /partner/v1/webhooks': {},
  'GET /partner/v1/webhooks/deliveries': {},
  'POST /partner/v1/webhooks/test': { body: {}, status: 404 },
  'GET /partner/v1/billing/monthly': { path: () => MONTHLY },
  'GET /partner/v1/billing/monthly/users': { path: () => MONTHLY.replace('?', '/users?') },
  'GET /partner/v1/sandbox': { live: 403 },
  'POST /partner/v1/sandbox/advance': { body: { by: '8h' }, live: 403 },
  'POST /partner/v1/sandbox/fire': { body: { partner_plan_id: KNOWN.plan }, status: 404, live: 403 },
  'POST /partner/v1/sandbox/reset': { body: {}, live: 403 },
}

/** Makes the call of each row, with a key, and answers the routes with their answers. */
async function callAll(service: Service, executionId: string, key: string | null) {
  const answers = []
  for (const [route, row] of Object.entries(ROWS)) {
    const [method = '', template = ''] = route.split(' ')
    const path = row.path?.(executionId) ?? template
    answers.push({ route, row, answer: await service.call(method, path, row.body, { key }) })
  }
  return answers
}

test('every route has a row', () => {
  const routes = ROUTES.map(({ method, path }) => `${method} ${path}`)
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
    const key = await service.issueKey(slug, environment)
    for (const { route, row, answer } of await callAll(service, executionId, key)) {
      const { status = 200, live = status } = row
      const who = `${slug} ${environment}: ${route}`
      assert.equal(answer.status, environment === 'live' ? live : status, who)
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
  await revokeKey(service, dead)
  const nearly = `${service.key.slice(0, -1)}${service.key.endsWith('0') ? '1' : '0'}`
  for (const key of [null, 'x', dead, nearly, `${service.key}0`]) {
    for (const { route, answer } of await callAll(service, executionId, key)) {
      assert.equal(answer.status, 401, `${route} with ${key}`)
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer', route)
      assert.deepEqual(Object.keys(answer.body), ['detail'], route)
    }
  }
  assert.deepEqual(await contentOf(service), before)
})

/** Sets up every kind of data, with an instruction not yet delivered. */
async function own(service: Service): Promise<string> {
  const user = { email: MARKS.email, consent_version: MARKS.consent }
  await succeed(service, 'POST', USERS, { ...USER, partner_user_id: KNOWN.user, ...user })
  await plan(service, KNOWN.user, `${KNOWN.plan}-filled`)
  await plan(service, KNOWN.user, KNOWN.plan, { amount_usd: MARKS.amount })
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
  const tenant = await tenantOf({ store })
  const page = { after: null, limit: 100 }
  return {
    users: await store.listUsers(tenant, page),
    plans: await store.listPlans({ slug: 'acme', environment: 'test' }, page),
    executions: await allExecutions(store),
    webhook: await store.findWebhook(tenant),
    deliveries: await store.listDeliveries(tenant),
    month: (await service.call('GET', MONTHLY)).body,
  }
}
