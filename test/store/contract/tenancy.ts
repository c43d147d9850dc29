// No method lets a tenant see or change data of another.

import assert from 'node:assert/strict'
import { usd } from '../../../src/core/money.ts'
import { periodOf } from '../../../src/core/month.ts'
import { type Instant, MINUTE_MS } from '../../../src/core/time.ts'
import { register } from '../../../src/core/webhook.ts'
import {
  afterFirst,
  allExecutions,
  allPlans,
  type Contract,
  each,
  enrol,
  failed,
  filled,
  link,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  tick,
  type World,
} from '../world.ts'

/** The two strangers that every method must keep out: the partner's other environment, and another partner. */
const strangers = ({ acmeLive, bolt }: World) => [acmeLive, bolt]

export const tenancyContract: Contract = (test) => {
  test('changeUser sees and changes the user of its own tenant only', async (world) => {
    const { store, acme } = world
    await link(store, acme, 'u1', 'v1')
    for (const stranger of strangers(world)) {
      const looking = store.changeUser(stranger, 'u1', (seen) => {
        assert.equal(seen, null)
        throw new Error('only looked')
      })
      await assert.rejects(looking, { message: 'only looked' })
      await link(store, stranger, 'u1', 'v2')
      await setUser(store, stranger, 'u1', 'disabled')
      assert.equal((await link(store, stranger, 'u1', 'v3')).user.status, 'disabled')
    }
    const users = await store.listUsers(acme, { after: null, limit: 10 })
    assert.deepEqual(each(users, 'status', 'consentVersion'), [['linked', 'v1']])
  })

  test('a user is found and read in its own tenant only, with its own consents and plans', async (world) => {
    const { store, acme } = world
    await link(store, acme, 'u1', 'v1')
    for (const stranger of strangers(world)) {
      assert.equal(await store.findUser(stranger, 'u1'), null)
      assert.equal(await store.readUser(stranger, 'u1'), null)
      assert.deepEqual(await store.readUsers(stranger, { after: null, limit: 10 }), [])
    }
    for (const [at, stranger] of strangers(world).entries()) {
      await link(store, stranger, 'u1', `v${at + 2}`)
      await sendPlan(store, stranger)
    }
    for (const [at, tenant] of [acme, ...strangers(world)].entries()) {
      const [only, ...others] = await store.readUsers(tenant, { after: null, limit: 10 })
      assert.deepEqual([only?.consentVersion, others], [`v${at + 1}`, []])
      const found = await store.findUser(tenant, 'u1')
      for (const one of [found, await store.readUser(tenant, 'u1')])
        assert.deepEqual(each(one?.consents, 'version'), [`v${at + 1}`])
      assert.equal(found?.plans.length, tenant === acme ? 0 : 1)
    }
    await link(store, acme, 'u2', 'v9')
    assert.deepEqual(each((await store.findUser(acme, 'u1'))?.consents, 'version'), ['v1'])
  })

  test('changePlan finds neither the user nor the plan of a stranger', async (world) => {
    const { store, acme } = world
    await enrol(store, acme)
    for (const stranger of strangers(world)) {
      await assert.rejects(sendPlan(store, stranger), problem('user_never_linked'))
      await enrol(store, stranger, { amount: usd('999.00') })
      await sendPlan(store, stranger, { status: 'cancelled' })
    }
    assert.deepEqual(each(await allPlans(store), 'tenant', 'amount', 'status'), [
      [acme, usd('60'), 'active'],
      ...strangers(world).map((stranger) => [stranger, usd('999'), 'cancelled']),
    ])
  })

  test('disabling a user stops the plans and executions of that user alone', async (world) => {
    const { store, acme } = world
    for (const tenant of [acme, ...strangers(world)]) {
      for (const user of ['u1', 'u2'])
        await enrol(store, tenant, { partnerUserId: user, partnerPlanId: `p-${user}` })
    }
    await tick(world, '60000')
    const { plansPaused, executionsCancelled } = await setUser(store, acme, 'u1', 'disabled')
    assert.deepEqual([plansPaused, executionsCancelled], [1, 1])
    const mine = (row: { tenant: { tenantId: number }; partnerUserId: string }) =>
      row.tenant.tenantId === acme.tenantId && row.partnerUserId === 'u1'
    for (const plan of await allPlans(store)) assert.equal(plan.status, mine(plan) ? 'paused' : 'active')
    for (const one of await allExecutions(store))
      assert.equal(one.status, mine(one) ? 'cancelled' : 'pending')
  })

  test('deliverDue hands a tenant its own executions only', async (world) => {
    const { store, acme } = await afterFirst(world, { delivered: false })
    for (const stranger of strangers(world)) assert.deepEqual(await poll(store, stranger), [])
    assert.deepEqual(each(await poll(store, acme), 'deliveredCount'), [1])
  })

  test('confirmExecution shows a stranger nothing, and changes nothing for it', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world)
    for (const stranger of strangers(world)) {
      for (const said of [filled(amount), failed()])
        await assert.rejects(report(store, stranger, executionId, said), problem('execution_not_found'))
      const looking = store.confirmExecution(stranger, { executionId, partnerOrderId: 'o' }, (seen) => {
        const { execution, window, trade, orderHeldBy } = seen
        assert.deepEqual([execution, window, trade, orderHeldBy], [null, null, null, null])
        throw new Error('only looked')
      })
      await assert.rejects(looking, { message: 'only looked' })
    }
    assert.equal((await store.findExecution(executionId))?.execution.status, 'sent')
    assert.equal((await report(store, acme, executionId, filled(amount))).kind, 'recorded')
    const isUnknown = problem('execution_not_found')
    for (const stranger of strangers(world))
      await assert.rejects(report(store, stranger, executionId, filled(amount)), isUnknown)
  })

  test('an order id is taken within its tenant only', async (world) => {
    const { store, acme } = world
    for (const tenant of [acme, ...strangers(world)]) await enrol(store, tenant)
    await tick(world, '60000')
    const [first] = await poll(store, acme)
    if (!first) throw new Error('nothing fired')
    await report(store, acme, first.executionId, filled(usd('10'), 'o1'))
    for (const stranger of strangers(world)) {
      const [theirs] = await poll(store, stranger)
      const answer = await report(store, stranger, theirs?.executionId ?? '', filled(usd('10'), 'o1'))
      assert.equal(answer.kind, 'recorded')
    }
    world.advance(8 * 60 * MINUTE_MS)
    await tick(world, '60000')
    const [second] = await poll(store, acme)
    const isTaken = (error: Error) =>
      problem('order_id_taken')(error) && error.message.includes(first.executionId)
    await assert.rejects(report(store, acme, second?.executionId ?? '', failed('o1')), isTaken)
    const refused = await report(store, acme, second?.executionId ?? '', filled(usd('10'), 'o1'))
    assert.ok(refused.kind === 'refused' && isTaken(refused.problem))
  })

  test('webhooks, keys and listings belong to one tenant', async (world) => {
    const { store, acme } = world
    await store.changeWebhook(acme, (seen, now) => register(seen, 'https://a.example/', 's', now))
    await link(store, acme)
    for (const stranger of strangers(world)) {
      assert.equal(await store.findWebhook(stranger), null)
      assert.equal(await store.deleteWebhook(stranger), false)
      await store.changeWebhook(stranger, (seen, now) => {
        assert.equal(seen, null)
        return register(seen, 'https://b.example/', 's', now)
      })
      assert.equal(await store.deleteWebhook(stranger), true)
      assert.deepEqual(await store.listUsers(stranger, { after: null, limit: 10 }), [])
    }
    assert.equal((await store.findWebhook(acme))?.url, 'https://a.example/')
    assert.equal(await store.deleteWebhook(acme), true)
    assert.equal(await store.deleteWebhook(acme), false)
  })

  test('a tenant reads its own plans, executions and trades', async (world) => {
    const { store, acme } = world
    const tenants = [acme, ...strangers(world)]
    for (const [at, tenant] of tenants.entries()) await enrol(store, tenant, { amount: usd(`${60 + at}`) })
    await sendPlan(store, acme, { partnerPlanId: 'p2' })
    await tick(world, '60000')
    for (const tenant of tenants)
      for (const { executionId } of await poll(store, tenant))
        await report(store, tenant, executionId, filled(usd('10')))
    const period = { ...periodOf('2026-01'), final: true }
    const after = { createdAt: 0 as Instant, executionId: '' }
    const seen = new Set<string>()
    for (const [at, tenant] of tenants.entries()) {
      const rows = tenant === acme ? 2 : 1
      const plans = await store.readPlans(tenant, { after: null, limit: 10 })
      const { executions } = await store.readExecutions(tenant, { after, limit: 10 })
      const lines = await store.readTenantLines(tenant, period, { after: null, limit: 10 })
      assert.deepEqual([plans.length, executions.length, lines.length], [rows, rows, rows])
      assert.ok(lines.every((line) => line.tenant.tenantId === tenant.tenantId))
      for (const { executionId } of executions) seen.add(executionId)
      assert.equal((await store.readPlan(tenant, 'p2')) === null, tenant !== acme)
      const plan = await store.readPlan(tenant, 'p1')
      assert.deepEqual([plan?.amount, plans[0]?.amount], [usd(`${60 + at}`), usd(`${60 + at}`)])
    }
    assert.equal(seen.size, 4, 'nobody sees what another sees')
  })

  test('the listings of operators filter by partner and environment', async (world) => {
    const { store } = world
    const tenants = [world.acme, world.acmeLive, world.bolt]
    for (const tenant of tenants) await enrol(store, tenant)
    await tick(world, '60000')
    const filters: [slug: string | null, environment: 'test' | 'live' | null, found: number[]][] = [
      [null, null, [0, 1, 2]],
      ['acme', null, [0, 1]],
      ['acme', 'live', [1]],
      [null, 'test', [0, 2]],
      ['bolt', 'live', []],
      ['nobody', null, []],
    ]
    for (const [slug, environment, found] of filters) {
      const expected = found.map((i) => tenants[i]?.tenantId)
      const page = { after: null, limit: 10 }
      const ids = (rows: { tenant: { tenantId: number } }[]) => rows.map(({ tenant }) => tenant.tenantId)
      assert.deepEqual(ids(await store.listPlans({ slug, environment }, page)), expected)
      const all = { slug, environment, status: null, stuck: false }
      assert.deepEqual(ids(await store.listExecutions(all, page)), expected)
    }
    assert.equal((await store.findPlans('p1')).length, 3)
  })
}
