// Events: one for each tenant and pass, with the executions it announces.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSignature } from '../../src/webhook/signature.ts'
import { allExecutions } from '../store/world.ts'
import { startReceiver, startStage, WEBHOOKS } from './stage.ts'

test('each tenant gets one event of its own, signed with its own secret', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  const idsOf = async (slug: string, environment: string) =>
    (await allExecutions(stage.store))
      .filter(({ tenant }) => tenant.partnerSlug === slug && tenant.environment === environment)
      .map(({ executionId }) => executionId)
      .sort()
  const tenants = [
    { slug: 'acme', environment: 'test', plans: 3 },
    { slug: 'acme', environment: 'live', plans: 1 },
    { slug: 'zeta', environment: 'live', plans: 2 },
  ] as const
  const secrets = new Map<string, string>()
  for (const { slug, environment, plans } of tenants) {
    const key = await stage.issueKey(slug, environment)
    const path = `/${slug}/${environment}`
    secrets.set(path, await stage.register(receiver.port, path, key))
    for (let plan = 0; plan < plans; plan += 1) await stage.addPlan(`u${plan}`, key)
  }
  // A tenant without a webhook, and one whose plans do not fire.
  await stage.addPlan('u1', await stage.issueKey('mute', 'test'))
  await stage.register(receiver.port, '/idle', await stage.issueKey('idle', 'test'))

  assert.deepEqual(await stage.pass(), { sent: 3, failed: 0 })
  assert.equal(receiver.received.length, 3)
  for (const { slug, environment, plans } of tenants) {
    const path = `/${slug}/${environment}`
    const seen = receiver.received.find((one) => one.path === path) ?? assert.fail(path)
    const [earliest] = await idsOf(slug, environment)
    assert.deepEqual(JSON.parse(seen.raw.toString()), {
      event: 'executions.available',
      partner_slug: slug,
      environment,
      count: plans,
      earliest_execution_id: earliest,
    })
    const signature = String(seen.headers['x-service-signature'])
    for (const [owner, secret] of secrets)
      assert.equal(isSignature(signature, secret, seen.raw), owner === path)
  }
  assert.equal((await idsOf('mute', 'test')).length, 1)
})

test('playing a payload back to the service changes nothing', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('u1')
  await stage.pass()
  const { raw, headers } = receiver.received[0] ?? assert.fail('nothing came')
  const signature = { 'x-service-signature': String(headers['x-service-signature']) }
  const before = [await allExecutions(stage.store), await stage.webhook()]
  assert.equal((await stage.call('POST', WEBHOOKS, raw, { headers: signature })).status, 422)
  assert.deepEqual([await allExecutions(stage.store), await stage.webhook()], before)
})
