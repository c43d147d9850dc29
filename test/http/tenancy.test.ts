// Another partner, and the other environment of the same one, see nothing and reach nothing: endpoint by endpoint.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acceptLate } from '../../src/core/late-fill.ts'
import { AUDIT, type CallOptions, fill, type Service, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  executionsOf,
  link,
  PRICE,
  plan,
  poll,
  succeed,
  userPath,
  WEBHOOKS,
} from './steps.ts'

type Stranger = { name: string; slug: string; environment: string; options: CallOptions }

async function strangers(service: Service): Promise<Stranger[]> {
  const make = async (slug: string, environment: 'test' | 'live') => ({
    name: `${slug} ${environment}`,
    slug,
    environment,
    options: { key: await service.issueKey(slug, environment) },
  })
  return [await make('acme', 'live'), await make('other', 'test'), await make('other', 'live')]
}

/** Everything the first tenant has, to be found as it was. */
const contentOf = async (service: Service) => {
  const tenant = await service.store.findTenant('acme', 'test')
  assert.ok(tenant)
  const plans = await service.store.listPlans(
    { slug: 'acme', environment: 'test' },
    { after: null, limit: 100 },
  )
  return {
    users: await service.store.listUsers(tenant, { after: null, limit: 100 }),
    plans,
    executions: await service.store.listExecutions(
      { slug: 'acme', environment: 'test', status: null, stuck: false },
      { after: null, limit: 100 },
    ),
    webhook: await service.store.findWebhook(tenant),
  }
}

async function owned(service: Service): Promise<string> {
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await succeed(service, 'POST', WEBHOOKS, { url: 'https://127.0.0.1/mine' })
  await service.tick(PRICE)
  return String((await executionsOf(service, 'p'))[0]?.executionId)
}

test('a stranger reads nothing', async (t) => {
  const service = await startService(t)
  await owned(service)
  for (const { name, slug, environment, options } of await strangers(service)) {
    const me = await succeed(service, 'GET', '/partner/v1/me', undefined, options)
    assert.deepEqual([me.partner_slug, me.environment], [slug, environment])
    const due = await service.call('GET', '/partner/v1/executions/due', undefined, options)
    assert.deepEqual([due.body, due.headers.get('x-due-remaining')], [[], '0'], name)
    const webhook = await succeed(service, 'GET', WEBHOOKS, undefined, options)
    assert.deepEqual([webhook.partner_slug, webhook.environment, webhook.url], [slug, environment, null])
  }
  assert.equal((await poll(service)).get('p')?.[0]?.delivered_count, 1)
})

test('a stranger changes nothing, and is told no more than of what does not exist', async (t) => {
  const service = await startService(t)
  const pending = await owned(service)
  const others = await strangers(service)
  for (const state of ['pending', 'sent', 'filled']) {
    if (state === 'sent') await poll(service)
    if (state === 'filled') await succeed(service, 'POST', confirmPath(pending), fill('o', '10.00'))
    const before = await contentOf(service)
    for (const { name, options } of others) {
      const told = `${name}, ${state}`
      for (const usd of ['10.00', '9.00', '999.00']) {
        const seen = await service.call('POST', confirmPath(pending), fill('o', usd), options)
        const unknown = await service.call('POST', confirmPath('exec_0'), fill('o', usd), options)
        assert.deepEqual([seen.status, seen.body], [404, { detail: 'Execution not found.' }], told)
        assert.deepEqual([seen.status, seen.body], [unknown.status, unknown.body], told)
      }
      const patched = await service.call('PATCH', userPath('u'), { status: 'disabled' }, options)
      assert.deepEqual([patched.status, patched.body], [404, { detail: 'Partner user not found.' }], told)
      const planned = await service.call(
        'POST',
        '/partner/v1/plans',
        {
          partner_user_id: 'u',
          partner_plan_id: 'p',
          amount_usd: '60.00',
          frequency: 'daily',
          status: 'cancelled',
        },
        options,
      )
      assert.equal(planned.status, 404, told)
      assert.equal((await succeed(service, 'DELETE', WEBHOOKS, undefined, options)).deleted, false, told)
    }
    assert.deepEqual(await contentOf(service), before, state)
  }
  await assertSound(service)
})

test('the same ids in four tenants are four users, plans, executions and orders', async (t) => {
  const service = await startService(t)
  const tenants = [
    { name: 'acme test', slug: 'acme', environment: 'test', options: {} },
    ...(await strangers(service)),
  ]
  for (const [i, { options, slug, environment }] of tenants.entries()) {
    await link(service, 'u', options)
    // Another user than the one the plan id belongs to elsewhere.
    await link(service, `u${i}`, options)
    await plan(service, `u${i}`, 'p', { amount_usd: `${60 + 6 * i}.00` }, options)
    const url = `https://127.0.0.1/${slug}/${environment}`
    await succeed(service, 'POST', WEBHOOKS, { url }, options)
  }
  await service.tick(PRICE)
  for (const [i, { name, slug, options, environment }] of tenants.entries()) {
    const due = (await poll(service, options)).get('p') ?? []
    assert.equal(due.length, 1, name)
    assert.deepEqual(
      [due[0]?.partner_slug, due[0]?.partner_user_id, due[0]?.amount_usd],
      [slug, `u${i}`, `${10 + i}.00`],
    )
    const id = String(due[0]?.execution_id)
    const confirmed = await succeed(service, 'POST', confirmPath(id), fill('the same order', '5.00'), options)
    assert.equal(confirmed.replayed, undefined, name)
    const webhook = await succeed(service, 'GET', WEBHOOKS, undefined, options)
    assert.equal(webhook.url, `https://127.0.0.1/${slug}/${environment}`)
  }
  // One tenant's end is not another's.
  await succeed(service, 'PATCH', userPath('u0'), { status: 'disabled' })
  await succeed(service, 'DELETE', WEBHOOKS)
  for (const { options } of tenants.slice(1)) {
    assert.notEqual((await succeed(service, 'GET', WEBHOOKS, undefined, options)).url, null)
  }
  const statuses = (await service.store.findPlans('p')).map(({ status }) => status)
  assert.deepEqual(statuses.sort(), ['active', 'active', 'active', 'paused'])
  await assertSound(service)
})

test("a late fill is its own tenant's, to report and to have answered", async (t) => {
  const service = await startService(t)
  const id = await owned(service)
  await poll(service)
  await plan(service, 'u', 'p', { status: 'cancelled' })
  const others = await strangers(service)
  const report = fill('late', '10.00')
  const refusedToAll = async () => {
    for (const { name, options } of others) {
      assert.equal((await service.call('POST', confirmPath(id), report, options)).status, 404, name)
    }
  }
  await refusedToAll()
  assert.deepEqual(await service.store.listLateFills({ after: null, limit: 10 }), [])
  assert.equal((await service.call('POST', confirmPath(id), report)).status, 409)
  await service.store.acceptLateFill({ executionId: id, reportId: null }, acceptLate, () => AUDIT)
  await refusedToAll()
  assert.equal((await succeed(service, 'POST', confirmPath(id), report)).replayed, true)
  await assertSound(service)
})
