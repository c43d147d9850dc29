// The sandbox over HTTP: a test key's power over the time and the data of its own environment, and of no other.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createSandboxDesk } from '../../src/cli/service/sandbox-desk.ts'
import { price } from '../../src/core/money.ts'
import { EXECUTIONS_MAX } from '../../src/core/sandbox.ts'
import { DAY_MS, formatInstant, HOUR_MS, plus } from '../../src/core/time.ts'
import { register } from '../../src/core/webhook.ts'
import { Refusal } from '../../src/http/error-codes.ts'
import { keyHash } from '../../src/keys.ts'
import { silentLog } from '../../src/log.ts'
import { type Machine, machineAt } from '../../src/machine.ts'
import { link, plan, poll, succeed, tenantOf } from '../http/steps.ts'
import { multiplyExecutions } from '../store/damage.ts'
import { allExecutions } from '../store/world.ts'
import { AUDIT, type Service, startService, T0 } from '../support/service.ts'

const SANDBOX = '/partner/v1/sandbox'
const DAY = { by: '1d', price_usd: '64000' }

async function withPlan(service: Service): Promise<Service> {
  await link(service, 'u1')
  await plan(service, 'u1', 'p1')
  return service
}

const lookAt = async (service: Service) => succeed(service, 'GET', SANDBOX)

test('a partner takes its test environment through a day, and buys what fired', async (t) => {
  const service = await withPlan(await startService(t))
  assert.deepEqual(await lookAt(service), {
    partner_slug: 'acme',
    environment: 'test',
    now: formatInstant(T0),
    offset_ms: 0,
    offset: '0 s',
    advancing_to: null,
  })
  const moved = await succeed(service, 'POST', `${SANDBOX}/advance`, DAY)
  const { from, to, done, executions_created, windows_rolled, price_usd } = moved
  assert.deepEqual([from, to, done], [formatInstant(T0), formatInstant(plus(T0, DAY_MS)), true])
  assert.ok(executions_created > 0 && windows_rolled > 0, JSON.stringify(moved))
  assert.equal(price_usd, '64000.00')
  assert.equal((await lookAt(service)).offset, '1 d')
  assert.ok((await poll(service)).size > 0)
})

test('each is in the audit log, under the key that asked', async (t) => {
  const service = await withPlan(await startService(t))
  await succeed(service, 'POST', `${SANDBOX}/advance`, DAY)
  await succeed(service, 'POST', `${SANDBOX}/fire`, { partner_plan_id: 'p1' })
  await succeed(service, 'POST', `${SANDBOX}/reset`, {})
  const keyId = (await service.store.findKey(keyHash(service.key)))?.key.keyId
  const entries = (await service.store.listAudit({ after: null, limit: 100 })).filter(({ action }) =>
    action.startsWith('sandbox.'),
  )
  assert.deepEqual(
    entries.map(({ action, osUser, partnerSlug }) => [action, osUser, partnerSlug]),
    ['advance', 'fire', 'reset'].map((word) => [`sandbox.${word}`, `key ${keyId}`, 'acme']),
  )
})

test('in a frozen database nothing fires, and the answer says why', async (t) => {
  const service = await withPlan(await startService(t))
  await service.store.freeze({ by: 'ops', reason: 'the venue is wrong' }, AUDIT)
  for (const [path, body] of [
    ['/advance', DAY],
    ['/fire', { partner_plan_id: 'p1' }],
  ] as const) {
    const answer = await service.call('POST', `${SANDBOX}${path}`, body)
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '60'], path)
    assert.equal(answer.body.detail, 'The service is frozen: the venue is wrong. Send the call again later.')
  }
})

const ACCEPTED = { statusCode: 204, reason: null, durationMs: 1 }

/** A desk whose wake-ups all arrive, beside the store of a service at T0 unless there is a machine. */
const deskOf = (
  store: Service['store'],
  limits: Partial<Parameters<typeof createSandboxDesk>[0]> = {},
  machine: Machine = machineAt(T0).machine,
) => createSandboxDesk({ store, machine, send: async () => ACCEPTED, log: silentLog, ...limits })

/** A service with a plan, whose sandboxes are moved within limits. */
const withLimits = async (t: TestContext, limits: Parameters<typeof deskOf>[1]) => {
  const desks: ReturnType<typeof deskOf>[] = []
  const more = (store: Service['store'], machine: Machine) => {
    const sandbox = deskOf(store, limits, machine)
    desks.push(sandbox)
    return { sandbox }
  }
  return { desks, service: await withPlan(await startService(t, { more })) }
}

/** How many executions there are. */
const madeIn = async ({ store }: Service) => (await allExecutions(store)).length

/** The test tenant, with a webhook. */
async function withWebhook({ store }: Service) {
  const tenant = await tenantOf({ store })
  await store.changeWebhook(tenant, (seen, now) => register(seen, 'https://a.example/', 's', now))
  return tenant
}

test('what is not a span of time, and what is too far, is refused', async (t) => {
  const service = await startService(t)
  for (const by of ['', '7', '1w', '-1d', '1.5h', '0s', 7, null, '9999999999d'])
    assert.equal((await service.call('POST', `${SANDBOX}/advance`, { by })).status, 422, String(by))
  assert.equal((await lookAt(service)).offset_ms, 0)
})

test('a long advance answers in time, goes on, and no other begins meanwhile', async (t) => {
  const { service } = await withLimits(t, { answerAfterMs: 0 })
  const begun = await succeed(service, 'POST', `${SANDBOX}/advance`, { by: '20d', price_usd: '64000' })
  assert.equal(begun.done, false)
  assert.equal('executions_created' in begun, false)
  const second = await service.call('POST', `${SANDBOX}/advance`, DAY)
  assert.deepEqual([second.status, second.headers.get('x-error-code')], [409, 'sandbox_busy'])
  for (;;) {
    const { advancing_to, now } = await lookAt(service)
    if (advancing_to === null) {
      assert.equal(now, begun.to)
      return
    }
    assert.equal(advancing_to, begun.to)
  }
})

test('a service that stops ends an advance at a step, in its first seconds too, and the clock says how far it came', async (t) => {
  for (const limits of [{ answerAfterMs: 0 }, {}]) {
    const service = await withPlan(await startService(t))
    const desk = deskOf(service.store, limits)
    const advancing = desk.advance(await tenantOf(service), 3_000 * DAY_MS, null)
    if (limits.answerAfterMs === 0) assert.equal((await advancing).done, false)
    await desk.stop()
    assert.equal((await advancing).done, false)
    const { offset_ms, advancing_to } = await lookAt(service)
    assert.equal(advancing_to, null)
    assert.ok(offset_ms < 3_000 * DAY_MS, String(offset_ms))
    assert.equal((await succeed(service, 'POST', `${SANDBOX}/advance`, { by: '1h' })).done, true)
  }
})

test('an advance that ends early wakes its partner for what it has fired', async (t) => {
  const service = await withPlan(await startService(t))
  const tenant = await withWebhook(service)
  const sent: number[] = []
  const desk = deskOf(service.store, {
    advanceMaxMs: 0,
    send: async ({ count }) => {
      sent.push(count)
      return ACCEPTED
    },
  })
  assert.equal((await desk.advance(tenant, 20 * DAY_MS, price('64000'))).done, false)
  assert.deepEqual(sent, [await madeIn(service)])
})

/** A desk on which a tenant's webhook may be woken twice a minute. */
async function withFewWakeUps(t: TestContext) {
  const service = await withPlan(await startService(t))
  const tenant = await tenantOf(service)
  const desk = deskOf(service.store, { wakeUpsPerMinute: 2 })
  return {
    service,
    tenant,
    fire: () => desk.fire(tenant, 'p1', price('64000')),
    advance: (byMs: number) => desk.advance(tenant, byMs, price('64000')),
  }
}

const isTooMany = (error: unknown): boolean =>
  error instanceof Refusal &&
  error.status === 429 &&
  /^([1-9]|[1-5]\d|60)$/.test(error.headers['retry-after'] ?? '')

test('only so many fires and advances within a minute wake an address', async (t) => {
  const { service, advance, fire } = await withFewWakeUps(t)
  // Without a webhook nobody is woken.
  for (let i = 0; i < 3; i += 1) assert.equal((await fire()).webhooks_sent, 0)
  await withWebhook(service)
  assert.equal((await advance(DAY_MS)).webhooks_sent, 1)
  // Advances that fire nothing wake nobody.
  for (let i = 0; i < 3; i += 1) assert.equal((await advance(1)).executions_created, 0)
  assert.equal((await fire()).webhooks_sent, 1)
  const before = [await lookAt(service), await madeIn(service)]
  await assert.rejects(advance(DAY_MS), isTooMany)
  await assert.rejects(fire(), isTooMany)
  assert.deepEqual([await lookAt(service), await madeIn(service)], before, 'nothing was fired or moved')
})

test('a webhook that is registered during the calls does not get round the limit', async (t) => {
  const { service, tenant, advance, fire } = await withFewWakeUps(t)
  const { store } = service
  /** How often an address was woken. A call that finds the webhook at once counts, and may be one too many. */
  const wokenBy = async (
    works: (() => Promise<{ webhooks_sent?: number | undefined }>)[],
  ): Promise<number> => {
    const [settled] = await Promise.all([
      Promise.allSettled(works.map((work) => work())),
      withWebhook(service),
    ])
    await store.deleteWebhook(tenant)
    for (const one of settled) assert.ok(one.status === 'fulfilled' || isTooMany(one.reason))
    return settled.reduce(
      (sum, one) => sum + (one.status === 'fulfilled' ? (one.value.webhooks_sent ?? 0) : 0),
      0,
    )
  }
  let woken = await wokenBy([fire, fire, fire, fire])
  for (let i = 0; i < 2; i += 1) woken += await wokenBy([() => advance(DAY_MS)])
  assert.ok(woken <= 2, `woken ${woken} times`)
})

test('two partners advance at the same time, and neither waits for the other', async (t) => {
  const { desks, service } = await withLimits(t, { answerAfterMs: 0 })
  const key = await service.issueKey('bolt', 'test')
  const long = await succeed(service, 'POST', `${SANDBOX}/advance`, { by: '3000d', price_usd: '64000' })
  const short = await service.call('POST', `${SANDBOX}/advance`, { by: '1d' }, { key })
  assert.deepEqual([short.status, short.body.done], [200, false])
  for (;;) {
    const { body } = await service.call('GET', SANDBOX, undefined, { key })
    if (body.advancing_to !== null) continue
    assert.equal(body.now, short.body.to)
    break
  }
  assert.equal((await lookAt(service)).advancing_to, long.to)
  await Promise.all(desks.map((desk) => desk.stop()))
})

test('an advance stops after so many executions, says where, and the next one goes on from there', async (t) => {
  const most = 5
  const { service } = await withLimits(t, { executionsMax: most })
  for (const id of ['p2', 'p3', 'p4']) await plan(service, 'u1', id)
  const made: number[] = []
  for (let now = T0; now < plus(T0, 48 * HOUR_MS); ) {
    const moved = await succeed(service, 'POST', `${SANDBOX}/advance`, { by: '3d', price_usd: '64000' })
    assert.equal(moved.done, true)
    assert.deepEqual(moved.from, formatInstant(now))
    now = T0 + moved.offset_ms
    assert.deepEqual([moved.to, (await lookAt(service)).now], [formatInstant(now), formatInstant(now)])
    made.push(moved.executions_created)
  }
  assert.ok(made.length > 3 && made.every((one) => one <= most), made.join())
  assert.deepEqual(made.slice(0, 2), [most, most])
  assert.equal(
    await madeIn(service),
    made.reduce((sum, one) => sum + one, 0),
  )
  assert.deepEqual(await service.store.findFaults(), [])
})

test('an environment that is nearly full goes to its bound', async (t) => {
  const service = await withPlan(await startService(t))
  await succeed(service, 'POST', `${SANDBOX}/fire`, { partner_plan_id: 'p1' })
  await multiplyExecutions(service.file, EXECUTIONS_MAX - 2)
  const moved = await succeed(service, 'POST', `${SANDBOX}/advance`, { by: '3d', price_usd: '64000' })
  assert.deepEqual([moved.executions_created, moved.to < formatInstant(plus(T0, 72 * HOUR_MS))], [1, true])
})
