// Sandboxes: advances exclude each other, none of them affects anybody else, and no idempotency key is issued twice.

import assert from 'node:assert/strict'
import { type Execution, idempotencyKey, LEASE_MS } from '../../../src/core/execution.ts'
import { price, type Usd, usd } from '../../../src/core/money.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { SANDBOX_UNTIL, WIPE_ROWS_MAX } from '../../../src/core/sandbox.ts'
import {
  DAY_MS,
  formatInstant,
  HOUR_MS,
  type Instant,
  MINUTE_MS,
  plus,
  SECOND_MS,
} from '../../../src/core/time.ts'
import { register } from '../../../src/core/webhook.ts'
import { decisions } from '../../../src/engine/pass.ts'
import { advanceSandbox, fireInSandbox } from '../../../src/engine/sandbox.ts'
import { damage } from '../damage.ts'
import {
  AUDIT,
  allExecutions,
  allPlans,
  audited,
  type Contract,
  enrol,
  enrolAll,
  filled,
  keyFor,
  link,
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
    for (const user of ['u1', 'u2'])
      await enrol(store, tenant, { partnerUserId: user, partnerPlanId: `p-${user}` })
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

/** All data of a tenant in the store. */
const allOf = async ({ store }: World, tenant: Tenant) => {
  const { partnerSlug: slug, environment } = tenant
  const page = { after: null, limit: 100 }
  return {
    users: [await store.findUser(tenant, 'u1'), await store.findUser(tenant, 'u2')],
    plans: await store.listPlans({ slug, environment }, page),
    windows: (await store.findPlans('p-u1')).filter((plan) => plan.tenant.tenantId === tenant.tenantId),
    executions: await store.listExecutions({ slug, environment, status: null, stuck: false }, page),
    late: (await store.listLateFills(page)).filter((late) => late.tenant.tenantId === tenant.tenantId),
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

export const sandboxContract: Contract = (test) => {
  test('one advance of a sandbox at a time, whatever others do: the next begins when it has ended', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    const begin = (tenant: Tenant, byMs = HOUR_MS) => store.beginAdvance(tenant, byMs, AUDIT)
    await assert.rejects(begin(acmeLive), problem('sandbox_refused'))
    await assert.rejects(begin(acme, SANDBOX_UNTIL), problem('sandbox_refused'))
    const { end } = await begin(acme)
    await assert.rejects(begin(acme), problem('database_in_use'))
    const other = await begin(bolt)
    await end()
    const again = await begin(acme)
    // A failed advance ends twice, and the next one has perhaps begun in between.
    await end()
    await assert.rejects(begin(bolt), problem('database_in_use'))
    await other.end()
    await assert.rejects(begin(acme), problem('database_in_use'))
    await again.end()
    await (await begin(acme)).end()
  })

  test('more advances at once than there are connections leave some to the others', async ({ store }) => {
    const slugs = Array.from({ length: 12 }, (_, n) => `partner-${n}`)
    for (const partnerSlug of slugs) await store.addPartner({ partnerSlug, name: partnerSlug }, AUDIT)
    const advances = await Promise.all(
      slugs.map(async (slug) => {
        const tenant = await store.findTenant(slug, 'test')
        assert.ok(tenant)
        return { tenant, ...(await store.beginAdvance(tenant, HOUR_MS, AUDIT)) }
      }),
    )
    await Promise.all(advances.map(({ tenant }) => store.readSandbox(tenant)))
    await store.readScheduler()
    await Promise.all(advances.map(({ end }) => end()))
  })

  test('stops are found one by one, or together when they are near each other', async (world) => {
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
  })

  test('a tranche that is fired during an advance takes nothing from its wake-up', async (world) => {
    const { store, machine, acme, bolt } = world
    for (const tenant of [acme, bolt]) {
      await enrolAll(store, tenant, ['p1', 'p2'])
      await store.changeWebhook(tenant, (seen, now) => register(seen, 'https://a.example/', 's', now))
    }
    const advance = await store.beginAdvance(acme, HOUR_MS, AUDIT)
    const claimed = async (wakeUpId: number) =>
      (await store.claimWakeUps(wakeUpId)).map(({ tenant, count }) => [tenant.partnerSlug, count])
    for (const tenant of [acme, bolt]) {
      const { wakeUpId } = await fireInSandbox('p1', { store, machine, tenant, price: null, audit: AUDIT })
      assert.deepEqual(await claimed(wakeUpId), [[tenant.partnerSlug, 1]])
    }
    const known = { ...(await store.peekPass()), price: { price: price('60000'), at: T0 } }
    const planIds = await store.listSandboxDue(acme, { now: T0, livePrice: known.price.price, leadMs: 0 })
    const page = { wakeUpId: advance.wakeUpId, planIds, decisions: decisions(known, 0, machine) }
    const { executionsCreated } = await store.moveSandbox(acme, HOUR_MS, page)
    assert.ok(executionsCreated > 0)
    // Nor does a pass of the scheduler, which deletes old rows.
    await tick(world, '60000')
    await advance.end()
    assert.deepEqual(await claimed(advance.wakeUpId), [['acme', executionsCreated]])
  })

  test('an advance lets the next one begin however it ends', async ({ store, machine, acme }) => {
    const options = { store, machine, tenant: acme, byMs: HOUR_MS, price: null, audit: AUDIT }
    const fall = () => {
      throw new Error('the screen is gone')
    }
    await assert.rejects(advanceSandbox({ ...options, onProgress: fall }), /the screen is gone/)
    const { after } = await advanceSandbox({ ...options, onProgress: () => {} })
    assert.equal(after.offsetMs, HOUR_MS)
  })

  test('nothing of a sandbox is done to a live environment', async (world) => {
    const { store, machine, acmeLive } = world
    await enrol(store, acmeLive)
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
  })

  test('a sandbox is dated by its own time, and everybody else by the real one', async (world) => {
    const { store, acme, acmeLive, bolt, now } = world
    for (const tenant of [acme, acmeLive, bolt]) await enrol(store, tenant)
    await tick(world, '60000')
    const { executionsCreated } = await advanceSandbox({ ...quietly(world, acme), byMs: 40 * DAY_MS })
    assert.ok(executionsCreated >= 40)
    const own = plus(now(), 40 * DAY_MS)
    const times = (await store.listSandboxes()).map(({ tenant, now }) => [tenant.tenantId, now])
    assert.deepEqual(times, [[acme.tenantId, own]])
    const readAt = async (tenant: Tenant) => (await store.readPlan(tenant, 'p1'))?.now
    assert.deepEqual([await readAt(acme), await readAt(acmeLive), await readAt(bolt)], [own, now(), now()])
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
  })

  test('a tranche fired by hand leaves one execution, and is refused for a plan that is not there', async (world) => {
    const { store, acme, bolt } = world
    for (const tenant of [acme, bolt]) await enrol(store, tenant)
    await assert.rejects(fireInSandbox('p9', quietly(world, acme)), problem('plan_not_found'))
    const { fired } = await fireInSandbox('p1', quietly(world, acme))
    const all = (await allExecutions(store)).map(({ executionId, tenant }) => [executionId, tenant.tenantId])
    assert.deepEqual(all, [[fired.executionId, acme.tenantId]])
    await sendPlan(store, acme, { status: 'paused' })
    await assert.rejects(fireInSandbox('p1', quietly(world, acme)), problem('sandbox_refused'))
  })

  test('a reset empties one test environment, and leaves its keys and everybody else', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    const key = keyFor(acme)
    await store.addKey(key, AUDIT)
    const others = (await inBusiness(world)).filter(({ tenantId }) => tenantId !== acme.tenantId)
    const before = await Promise.all(others.map((tenant) => allOf(world, tenant)))
    const entries = await audited(world)
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
    assert.equal(await audited(world), entries + 1)
    assert.equal((await allPlans(store)).length, 4)
    assert.deepEqual(await store.findFaults(), [])
    await enrol(store, acme)
    assert.equal((await tick(world, '60000')).executionsCreated, 1)
    assert.deepEqual([acmeLive.environment, bolt.environment], ['live', 'test'])
  })

  test('a reset ends the count of reports that were not kept, with those that were', async (world) => {
    const { store, acme, bolt } = world
    const unknown = 'exec_0199a7d0c0007000800000000000beef' as Execution['executionId']
    for (const tenant of [acme, bolt]) {
      // More dollars than the ledger's integers hold: it is only counted.
      for (const amount of [(2n ** 63n) as Usd, usd('12')])
        await store.keepUnknownFill(tenant, unknown, filled(amount, `o${amount}`))
    }
    await store.resetSandbox(acme, AUDIT)
    const warned = (await store.findWarnings('test')).map(({ kind, tenant }) => [kind, tenant?.partnerSlug])
    assert.deepEqual(warned, [['late_fills', 'bolt']])
  })

  test('a key wipes a bounded number of rows, an operator any number', async (world) => {
    const { store, acme, bolt, place } = world
    const key = keyFor(acme)
    await store.addKey(key, AUDIT)
    const caller = { ...acme, keyId: key.keyId }
    for (const tenant of [acme, bolt]) await link(store, tenant)
    // With the user and its first consent, one row too many. Those of others do not count.
    const manyConsents = (slug: string, rows: number): Promise<void> =>
      damage(
        place,
        `insert into consents (user_id, consent_version, consent_timestamp, received_at)
         with recursive n(i) as (select 1 union all select i + 1 from n where i < ${rows})
         select user_id, 'v1', ${T0} + i, ${T0} from n, users join tenants using (tenant_id)
         where partner_slug = '${slug}' and environment = 'test'`,
      )
    await manyConsents('bolt', WIPE_ROWS_MAX)
    await store.resetSandbox(caller, AUDIT)
    await link(store, acme)
    await manyConsents('acme', WIPE_ROWS_MAX - 1)
    const entries = await audited(world)
    await assert.rejects(store.resetSandbox(caller, AUDIT), problem('sandbox_refused'))
    assert.notEqual(await store.findUser(acme, 'u1'), null)
    assert.equal(await audited(world), entries)
    for (const tenant of [acme, bolt]) assert.equal((await store.resetSandbox(tenant, AUDIT)).users, 1)
  })

  test('an advance counts the leases that end on its way, the last instant included', async (world) => {
    const { store, acme, bolt } = world
    for (const tenant of [acme, bolt]) await enrol(store, tenant)
    await tick(world, '60000')
    for (const tenant of [acme, bolt]) await poll(store, tenant)
    const expired = async (byMs: number) =>
      (await advanceSandbox({ ...quietly(world, acme), byMs })).leasesExpired
    assert.deepEqual([await expired(LEASE_MS - 1), await expired(1), await expired(1)], [0, 1, 0])
  })
}

// The idempotency keys of a sandbox: none is issued twice, however often its environment is wiped.

const keyOf = (execution: Execution): string => idempotencyKey(execution, formatInstant)

const goAhead = (world: World, tenant: Tenant, byMs: number) =>
  advanceSandbox({ ...quietly(world, tenant), byMs })

export const sandboxKeyContract: Contract = (test) => {
  test('after a reset no idempotency key comes again: a plan that would, begins a millisecond after its last window', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    const tenants = [acme, acmeLive, bolt]
    world.setClock(plus(T0, 10 * HOUR_MS))
    for (const tenant of tenants) await link(store, tenant)
    const keys: string[] = []
    const starts: number[] = []
    // The window of the day, and one that a change of the plan opens.
    for (const round of [0, 1, 2]) {
      if (round > 0) await store.resetSandbox(acme, AUDIT)
      await link(store, acme)
      for (const amount of ['60', '90'].map(usd)) {
        world.setClock(plus(T0, 10 * HOUR_MS))
        await sendPlan(store, acme, { startDate: T0, amount })
        world.advance(SECOND_MS)
        await tick(world, '60000')
      }
      const [seen] = await store.findPlans('p1')
      starts.push(...(seen?.windows ?? []).map(({ start }) => start - T0))
      keys.push(...(await poll(store, acme)).map(keyOf))
    }
    const ten = 10 * HOUR_MS
    assert.deepEqual(starts, [0, ten, ten + 1, ten + 2, ten + 3, ten + 4])
    assert.deepEqual([keys.length, new Set(keys).size], [6, 6])
    // Its grid is that of its start_date, or of the change, as usual.
    await store.resetSandbox(acme, AUDIT)
    await link(store, acme)
    for (const id of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId: id, startDate: T0 })
    for (const tenant of [acmeLive, bolt]) await sendPlan(store, tenant, { startDate: T0 })
    await goAhead(world, acme, 3 * DAY_MS)
    const windows = async (tenant: Tenant, id: string) =>
      (await store.findPlans(id))
        .filter((plan) => plan.tenant.tenantId === tenant.tenantId)
        .flatMap((plan) => plan.windows.map(({ start, end }) => [start - T0, end - T0]))
    const grid = [1, 2, 3].map((day) => [day * DAY_MS, (day + 1) * DAY_MS])
    assert.equal((await allPlans(store)).length, 4)
    assert.deepEqual(await windows(acme, 'p1'), [[ten + 5, DAY_MS], ...grid])
    assert.deepEqual(await windows(acme, 'p2'), [[0, DAY_MS], ...grid])
    for (const tenant of [acmeLive, bolt]) assert.deepEqual(await windows(tenant, 'p1'), [[0, DAY_MS]])
    const fired = (await poll(store, acme)).map(keyOf)
    assert.ok(fired.length > 6)
    const again = fired.filter((key) => keys.includes(key))
    assert.deepEqual(again, [])
  })

  test('keys are remembered over any number of resets, also of plans that were not sent again, and a month later', async (world) => {
    const { store, acme } = world
    const keys = new Map<string, string>()
    const round = async (ids: readonly string[]) => {
      await link(store, acme)
      for (const partnerPlanId of ids) await sendPlan(store, acme, { partnerPlanId, startDate: T0 })
      world.advance(SECOND_MS)
      await tick(world, '60000')
      for (const execution of await poll(store, acme)) {
        assert.equal(keys.get(keyOf(execution)), undefined, keyOf(execution))
        keys.set(keyOf(execution), execution.executionId)
      }
      await store.resetSandbox(acme, AUDIT)
    }
    await round(['p1', 'p2'])
    await round(['p2'])
    await round([])
    await round(['p1', 'p2'])
    assert.equal(keys.size, 5)
    // Beginnings older than any present window are deleted plan by plan, and remembered as one instant for all.
    await goAhead(world, acme, 30 * DAY_MS)
    await store.resetSandbox(acme, AUDIT)
    await store.resetSandbox(acme, AUDIT)
    world.setClock(plus(T0, SECOND_MS - 30 * DAY_MS))
    await round(['p1', 'p2'])
    assert.equal(keys.size, 7)
  })
}
