// Events: one for each tenant and pass, written with the executions it announces and claimed once.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSignature } from '../../src/webhook/signature.ts'
import { allExecutions } from '../store/world.ts'
import { type Received, type Stage, startReceiver, startStage, WEBHOOKS } from './stage.ts'

const executionsOf = async (stage: Stage, slug: string, environment: string) =>
  (await allExecutions(stage.store)).filter(
    ({ tenant }) => tenant.partnerSlug === slug && tenant.environment === environment,
  )
const bodyOf = ({ raw }: Received) => JSON.parse(raw.toString())

test('each tenant gets one event of its own, signed with its own secret', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  const tenants = [
    { slug: 'acme', environment: 'test', plans: 3 },
    { slug: 'acme', environment: 'live', plans: 1 },
    { slug: 'zeta', environment: 'live', plans: 2 },
  ] as const
  const secrets = new Map<string, string>()
  for (const { slug, environment, plans } of tenants) {
    const key = await stage.issueKey(slug, environment)
    secrets.set(
      `/${slug}/${environment}`,
      await stage.register(receiver.port, `/${slug}/${environment}`, key),
    )
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
    const [earliest] = (await executionsOf(stage, slug, environment))
      .map(({ executionId }) => executionId)
      .sort()
    assert.deepEqual(bodyOf(seen), {
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
  assert.deepEqual((await executionsOf(stage, 'mute', 'test')).length, 1)
})

test('a partner is told of nothing while it is disabled', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('u1')
  const audit = { osUser: 'test', action: 'test', subject: 'acme', detail: {} }
  await stage.store.changePartner('acme', (seen) => ({ ...seen, status: 'disabled' }), audit)
  assert.deepEqual(await stage.pass(), { sent: 0, failed: 0 })
  assert.equal(receiver.connections(), 0)
})

test('playing a payload back to the service changes nothing', async (t) => {
  const stage = await startStage(t)
  const receiver = await startReceiver(t, stage.authority.issue('IP:127.0.0.1'))
  await stage.register(receiver.port)
  await stage.addPlan('u1')
  await stage.pass()
  const { raw, headers } = receiver.received[0] ?? assert.fail('nothing came')
  const signature = { 'x-service-signature': String(headers['x-service-signature']) }
  const before = [await executionsOf(stage, 'acme', 'test'), await stage.webhook()]
  const answer = await stage.call('POST', WEBHOOKS, raw, { headers: signature })
  assert.equal(answer.status, 422)
  assert.deepEqual([await executionsOf(stage, 'acme', 'test'), await stage.webhook()], before)
})
