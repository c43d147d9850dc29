// Sandboxes: advances exclude each other, and nothing of them reaches live business or another tenant.

import assert from 'node:assert/strict'
import { LEASE_MS } from '../../../src/core/execution.ts'
import { usd } from '../../../src/core/money.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { SANDBOX_OFFSET_MAX_MS } from '../../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { decisions } from '../../../src/engine/pass.ts'
import { advanceSandbox, fireInSandbox } from '../../../src/engine/sandbox.ts'
import {
  AUDIT,
  allExecutions,
  allPlans,
  type Contract,
  filled,
  keyFor,
  link,
  openWorld,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'

/** Every tenant with a user, a plan, a trade, an adjustable window and a late fill. */
async function inBusiness(world: World): Promise<Tenant[]> {
  const { store, acme, acmeLive, bolt } = world
  const tenants = [acme, acmeLive, bolt]
  for (const tenant of tenants) {
    for (const user of ['u1', 'u2']) {
      await link(store, tenant, user)
      await sendPlan(store, tenant, { partnerUserId: user, partnerPlanId: `p-${user}` })
    }
  }
  await tick(world, '60000')
  for (const tenant of tenants) {
    const [first, second] = await poll(store, tenant)
    await report(store, tenant, first?.executionId ?? '', filled(usd('10'), 'o1'))
    await setUser(store, tenant, 'u2', 'disabled')
    await report(store, tenant, second?.executionId ?? '', filled(usd('10'), 'o2'))
  }
  return tenants
}

/** All that the store has of a tenant. */
const allOf = async ({ store }: World, tenant: Tenant) => {
  const { partnerSlug: slug, environment } = tenant
  const page = { after: null, limit: 100 }
  return {
    users: [await store.findUser(tenant, 'u1'), await store.findUser(tenant, 'u2')],
    plans: await store.listPlans({ slug, environment }, page),
    windows: (await store.findPlans('p-u1')).filter((plan) => plan.tenant.tenantId === tenant.tenantId),
    executions: await store.listExecutions({ slug, environment, status: null, stuck: false }, page),
    late: (await store.listLateFills(page)).filter(
      ({ execution }) => execution.tenant.tenantId === tenant.tenantId,
    ),
    webhook: await store.findWebhook(tenant),
  }
}

const quietly = ({ store, machine }: World, tenant: Tenant) => ({
  store,
  machine,
  tenant,
  price: null,
  audit: AUDIT,
  onProgress: () => {},
})

export const sandboxContract: Contract = {
  'one advance at a time: the next one begins when the last has ended, or was refused': async (t, open) => {
    const { store, acme, acmeLive, bolt } = await openWorld(t, open)
    const begin = (tenant: Tenant, byMs = HOUR_MS) => store.beginAdvance(tenant, byMs, AUDIT)
    await assert.rejects(begin(acmeLive), problem('sandbox_refused'))
    await assert.rejects(begin(acme, SANDBOX_OFFSET_MAX_MS + 1), problem('sandbox_refused'))
    const { end } = await begin(acme)
    for (const tenant of [acme, bolt]) await assert.rejects(begin(tenant), problem('database_in_use'))
    await end()
    await end()
    const again = await begin(bolt)
    await again.end()
  },

  'stops are found one by one, or together when they are near each other': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, setClock } = world
    const next = (after: Instant, togetherMs = 0) =>
      store.findNextStop(acme, { after, leadMs: 15 * MINUTE_MS, togetherMs })
    assert.equal(await next(T0), null)
    await link(store, acme, 'u1')
    for (const [i, at] of [0, 20, 40, 30_000].entries()) {
      setClock(plus(T0, at))
      await sendPlan(store, acme, { partnerPlanId: `p${i}` })
    }
    const { plans, end } = await store.beginAdvance(acme, HOUR_MS, AUDIT)
    await end()
    assert.equal(plans, 4)
    // Their windows are a day long, and their failsafe begins a quarter of an hour before the end.
    const first = plus(T0, DAY_MS - 15 * MINUTE_MS)
    const since = async (after: Instant, togetherMs?: number) => {
      const stop = await next(after, togetherMs)
      return stop === null ? null : stop - first
    }
    const before = plus(first, -1)
    assert.equal(await since(before), 0)
    assert.equal(await since(first), 20)
    assert.equal(await since(before, 19), 0)
    assert.equal(await since(before, 20), 20)
    assert.equal(await since(before, 29_999), 40)
    assert.equal(await since(before, MINUTE_MS), 30_000)
    assert.equal(await since(plus(first, 40), MINUTE_MS), 30_000)
    assert.equal(await next(plus(T0, DAY_MS + 30_000)), null)
  },

  'an advance lets the next one begin however it ends': async (t, open) => {
    const { store, machine, acme } = await openWorld(t, open)
    const options = { store, machine, tenant: acme, byMs: HOUR_MS, price: null, audit: AUDIT }
    const fall = () => {
      throw new Error('the screen is gone')
    }
    await assert.rejects(advanceSandbox({ ...options, onProgress: fall }), /the screen is gone/)
    const { after } = await advanceSandbox({ ...options, onProgress: () => {} })
    assert.equal(after.offsetMs, HOUR_MS)
  },

  'nothing of a sandbox is done to a live environment': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, machine, acmeLive } = world
    await link(store, acmeLive)
    await sendPlan(store, acmeLive)
    const before = await allOf(world, acmeLive)
    const pass = decisions(await store.peekPass(), HOUR_MS, machine)
    const refused = [
      store.moveSandbox(acmeLive, DAY_MS, { wakeUpId: -1, planIds: [], decisions: pass }),
      store.fireInSandbox(acmeLive, 'p1', pass, AUDIT),
      store.resetSandbox(acmeLive, AUDIT),
      advanceSandbox({ ...quietly(world, acmeLive), byMs: DAY_MS }),
    ]
    await Promise.all(refused.map((one) => assert.rejects(one, problem('sandbox_refused'))))
    assert.deepEqual(await allOf(world, acmeLive), before)
    assert.deepEqual(await store.listSandboxes(), [])
    assert.equal((await link(store, acmeLive)).user.updatedAt, world.now())
  },

  'a sandbox is dated by its own time, and everybody else by the real one': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, acmeLive, bolt, now } = world
    for (const tenant of [acme, acmeLive, bolt]) {
      await link(store, tenant)
      await sendPlan(store, tenant)
    }
    await tick(world, '60000')
    const { executionsCreated } = await advanceSandbox({ ...quietly(world, acme), byMs: 40 * DAY_MS })
    assert.ok(executionsCreated >= 40)
    const own = plus(now(), 40 * DAY_MS)
    assert.deepEqual(
      (await store.listSandboxes()).map(({ tenant, now }) => [tenant.tenantId, now]),
      [[acme.tenantId, own]],
    )
    const [mine] = await poll(store, acme, 1)
    assert.equal(mine?.leaseExpiresAt, plus(own, 5 * 60_000))
    const recorded = async (tenant: Tenant, executionId = '') => {
      const made = await report(store, tenant, executionId, filled(usd('1')))
      return made.kind === 'recorded' ? made.trade.recordedAt : null
    }
    assert.equal(await recorded(acme, mine?.executionId), own)
    for (const tenant of [acmeLive, bolt]) {
      const due = await poll(store, tenant)
      assert.equal(due.length, 1, 'nothing fired for others')
      assert.equal(await recorded(tenant, due[0]?.executionId), now())
    }
    assert.deepEqual(await store.findFaults(), [])
  },

  'a tranche fired by hand leaves one execution, and is refused for a plan that is not there': async (
    t,
    open,
  ) => {
    const world = await openWorld(t, open)
    const { store, acme, bolt } = world
    for (const tenant of [acme, bolt]) {
      await link(store, tenant)
      await sendPlan(store, tenant)
    }
    await assert.rejects(fireInSandbox('p9', quietly(world, acme)), problem('plan_not_found'))
    const { fired } = await fireInSandbox('p1', quietly(world, acme))
    assert.deepEqual(
      (await allExecutions(store)).map(({ executionId, tenant }) => [executionId, tenant.tenantId]),
      [[fired.executionId, acme.tenantId]],
    )
    await sendPlan(store, acme, { status: 'paused' })
    await assert.rejects(fireInSandbox('p1', quietly(world, acme)), problem('sandbox_refused'))
    assert.deepEqual(await store.findFaults(), [])
  },

  'a reset empties one test environment, and leaves its keys and everybody else': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, acmeLive, bolt } = world
    const key = keyFor(acme)
    await store.addKey(key, AUDIT)
    const tenants = await inBusiness(world)
    const others = tenants.filter(({ tenantId }) => tenantId !== acme.tenantId)
    const before = await Promise.all(others.map((tenant) => allOf(world, tenant)))
    const audited = (await store.listAudit({ after: null, limit: 100 })).length
    assert.deepEqual(await store.resetSandbox(acme, AUDIT), {
      users: 2,
      plans: 2,
      windows: 2,
      executions: 2,
      trades: 1,
    })
    assert.deepEqual(await Promise.all(others.map((tenant) => allOf(world, tenant))), before)
    const left = await allOf(world, acme)
    assert.deepEqual([left.users, left.plans, left.executions, left.late], [[null, null], [], [], []])
    assert.equal((await store.findKey(key.sha256))?.key.revokedAt, null)
    assert.equal((await store.listAudit({ after: null, limit: 100 })).length, audited + 1)
    assert.equal((await allPlans(store)).length, 4)
    assert.deepEqual(await store.findFaults(), [])
    await link(store, acme)
    await sendPlan(store, acme)
    assert.equal((await tick(world, '60000')).executionsCreated, 1)
    assert.deepEqual([acmeLive.environment, bolt.environment], ['live', 'test'])
  },

  'an advance counts the leases that end on its way, the last instant included': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, bolt } = world
    for (const tenant of [acme, bolt]) {
      await link(store, tenant)
      await sendPlan(store, tenant)
    }
    await tick(world, '60000')
    for (const tenant of [acme, bolt]) await poll(store, tenant)
    const expired = async (byMs: number) =>
      (await advanceSandbox({ ...quietly(world, acme), byMs })).leasesExpired
    assert.deepEqual([await expired(LEASE_MS - 1), await expired(1), await expired(1)], [0, 1, 0])
  },
}
