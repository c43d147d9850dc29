// Wake-ups: one for each tenant and pass, claimed once, with their results entered where they belong.

import assert from 'node:assert/strict'
import { price } from '../../../src/core/money.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { DAY_MS, MINUTE_MS } from '../../../src/core/time.ts'
import { type Attempt, DELIVERIES_KEPT, noteAttempt, register, testOf } from '../../../src/core/webhook.ts'
import { decisions } from '../../../src/engine/pass.ts'
import type { Store } from '../../../src/store/store.ts'
import { damage } from '../damage.ts'
import {
  AUDIT,
  allExecutions,
  allPlans,
  announced,
  type Contract,
  each,
  enrol,
  enrolAll,
  UNDELIVERED,
  type World,
} from '../world.ts'

const TAKEN: Attempt = { statusCode: 204, reason: null, durationMs: 7 }

const webhook = (store: Store, tenant: Tenant, secret = 's') =>
  store.changeWebhook(tenant, (seen, now) => register(seen, 'https://a.example/', secret, now))

/** A pass in pages of two plans, without the sending. */
async function passInPages({ store, machine }: World): Promise<number> {
  const pass = await store.beginPass({ price: price('60000'), source: 'test' })
  const planIds = (await allPlans(store)).map(({ planId }) => planId)
  for (let from = 0; from < planIds.length; from += 2) {
    const page = planIds.slice(from, from + 2)
    await store.changeDuePlans(pass.passId, page, decisions(pass, 15 * MINUTE_MS, machine))
  }
  return pass.passId
}

export const wakeUpContract: Contract = (test) => {
  test('a pass leaves one wake-up for each tenant with a webhook, which is claimed once', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    for (const tenant of [acme, acmeLive, bolt]) await enrolAll(store, tenant, ['p1', 'p2', 'p3'])
    for (const tenant of [acme, bolt]) await webhook(store, tenant)
    const passId = await passInPages(world)
    assert.deepEqual(await store.claimWakeUps(passId - 1), [])
    const firstOf = async ({ tenantId }: Tenant) =>
      (await allExecutions(store)).find(({ tenant }) => tenant.tenantId === tenantId)?.executionId
    const claimed = await store.claimWakeUps(passId)
    assert.deepEqual(
      claimed.map(({ tenant, count, earliest, webhook }) => [tenant, count, earliest, webhook.url]),
      [
        [acme, 3, await firstOf(acme), 'https://a.example/'],
        [bolt, 3, await firstOf(bolt), 'https://a.example/'],
      ],
    )
    assert.deepEqual(await store.claimWakeUps(passId), [])
    assert.deepEqual(await (await world.connect()).claimWakeUps(passId), [])
  })

  test('of two who claim the wake-ups of a pass each is handed out to one', async (world) => {
    const { store, machine } = world
    const other = await world.connect()
    const tenants = [world.acme, world.acmeLive, world.bolt]
    for (const tenant of tenants) {
      await enrol(store, tenant)
      await webhook(store, tenant)
    }
    for (let round = 0; round < 5; round++) {
      const passId = await passInPages({ ...world, machine })
      const claimed = await Promise.all([store.claimWakeUps(passId), other.claimWakeUps(passId)])
      const claimers = claimed.flat().map(({ tenant }) => tenant.tenantId)
      assert.deepEqual(claimers.sort(), each(tenants, 'tenantId')?.sort())
      world.advance(DAY_MS)
    }
  })

  test('a page that is undone leaves no wake-up, and one without news none either', async (world) => {
    const { store, acme, machine } = world
    await enrolAll(store, acme, ['p1', 'p2'])
    await webhook(store, acme)
    const pass = await store.beginPass({ price: price('60000'), source: 'test' })
    const planIds = (await allPlans(store)).map(({ planId }) => planId)
    const known = decisions(pass, 15 * MINUTE_MS, machine)
    const twice = () =>
      store.changeDuePlans(pass.passId, planIds, {
        ...known,
        newExecutionId: () => `exec_${'f'.repeat(32)}` as never,
      })
    await assert.rejects(twice())
    await store.changeDuePlans(pass.passId, [], known)
    assert.deepEqual(await store.claimWakeUps(pass.passId), [])
    assert.deepEqual(await allExecutions(store), [])
  })

  test('a webhook that is paused or gone is not woken', async (world) => {
    const { store, acme, bolt } = world
    for (const tenant of [acme, bolt]) {
      await enrol(store, tenant)
      await webhook(store, tenant)
    }
    const passId = await passInPages(world)
    await store.changeWebhook(acme, (seen) => {
      assert.ok(seen)
      return { ...seen, status: 'paused' }
    })
    await store.deleteWebhook(bolt)
    assert.deepEqual(await store.claimWakeUps(passId), [])
    assert.deepEqual(each(await store.countWebhooks(), 'status', 'count'), [['paused', 1]])
  })

  test('the outcome of an attempt is entered, unless the webhook was replaced meanwhile', async (world) => {
    const { store, acme, bolt } = world
    const first = await webhook(store, acme, 'first')
    const enter = () =>
      store.noteAttempt(announced(acme, first), UNDELIVERED, (seen, now) =>
        noteAttempt(seen, UNDELIVERED, now),
      )
    assert.equal((await enter())?.consecutiveFailures, 1)
    assert.deepEqual(await store.findWebhook(acme), await store.findWebhook(acme))
    assert.equal((await store.findWebhook(acme))?.lastStatusCode, 500)
    assert.deepEqual(each(await store.countWebhooks(), 'last', 'count'), [['failed', 1]])
    const second = await webhook(store, acme, 'second')
    assert.deepEqual(await enter(), second)
    assert.equal((await store.findWebhook(acme))?.consecutiveFailures, 0)
    await store.deleteWebhook(acme)
    assert.equal(await enter(), null)
    assert.equal(await store.findWebhook(bolt), null)
    // Deliveries to an earlier registration remain listed.
    assert.equal((await store.listDeliveries(acme)).length, 3)
  })

  test('what was sent is listed newest first, whoever sent it, and the newest are kept of each tenant', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    const hosts = [store, await world.connect()]
    const hook = await webhook(store, acme)
    await store.noteTest(bolt, announced(bolt, await webhook(store, bolt), 0), TAKEN)
    assert.deepEqual(await store.listDeliveries(acme), [])
    for (let count = 1; count <= DELIVERIES_KEPT + 3; count++) {
      world.advance(1)
      const host = hosts[count % 2] ?? store
      await host.noteAttempt(announced(acme, hook, count), TAKEN, (seen, now) =>
        noteAttempt(seen, TAKEN, now),
      )
    }
    const sent = await store.listDeliveries(acme)
    const counts = Array.from({ length: DELIVERIES_KEPT }, (_, i) => DELIVERIES_KEPT + 3 - i)
    assert.deepEqual(each(sent, 'count'), counts)
    assert.deepEqual(sent[0], {
      ...TAKEN,
      count: DELIVERIES_KEPT + 3,
      earliest: testOf(acme).earliest,
      endedAt: world.now(),
      origin: 'https://a.example',
    })
    assert.equal((await store.listDeliveries(bolt)).length, 1, 'nobody pushes out what another has')
    assert.deepEqual(await store.listDeliveries(acmeLive), [])
    // Deliveries too old to be listed are deleted.
    await damage(world.place, 'delete from webhook_deliveries where number > 50')
    assert.equal((await store.listDeliveries(acme)).length, 50 - 3)
  })

  test('a test is recorded, and changes nothing of the webhook', async (world) => {
    const { store, acme, acmeLive, now } = world
    assert.deepEqual(await store.readyToTest(acme), { webhook: null, tests: [], now: now() })
    const hook = await webhook(store, acme)
    await webhook(store, acmeLive)
    const test = { ...testOf(acme), webhook: { ...hook, url: 'https://a.example:8443/secret?token=1' } }
    const noted = await store.noteTest(acme, test, { ...UNDELIVERED, reason: 'x'.repeat(600) })
    assert.deepEqual(noted, {
      ...{ count: 0, earliest: `exec_${'0'.repeat(32)}`, endedAt: now(), origin: 'https://a.example:8443' },
      ...{ statusCode: 500, reason: 'x'.repeat(500), durationMs: 5 },
    })
    assert.deepEqual(await store.listDeliveries(acme), [noted])
    assert.deepEqual(await store.findWebhook(acme), hook)
    const first = now()
    world.advance(MINUTE_MS)
    await store.noteAttempt(announced(acme, hook), TAKEN, (seen) => seen)
    await store.noteTest(acme, test, TAKEN)
    assert.deepEqual(await store.readyToTest(acme), { webhook: hook, tests: [now(), first], now: now() })
    assert.deepEqual((await store.readyToTest(acmeLive)).tests, [])
  })

  test('a reset of a sandbox takes what was sent, of its own tenant', async ({ store, acme, acmeLive }) => {
    for (const tenant of [acme, acmeLive])
      await store.noteTest(tenant, announced(tenant, await webhook(store, tenant), 0), TAKEN)
    await store.resetSandbox(acme, AUDIT)
    assert.deepEqual(await store.listDeliveries(acme), [])
    assert.equal((await store.listDeliveries(acmeLive)).length, 1)
    assert.notEqual(await store.findWebhook(acme), null)
    const late = announced(acme, (await store.findWebhook(acme)) ?? assert.fail('gone'), 0)
    await store.noteTest(acme, late, TAKEN)
    assert.equal((await store.listDeliveries(acme)).length, 1)
  })
}
