// Pages of a pass: at which instant and price a plan is due, what its ids follow, and that a cell of the grid is spent
// once.

import assert from 'node:assert/strict'
import type { ExecutionId } from '../../../src/core/execution.ts'
import { type Price, price, usd } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { decisions } from '../../../src/engine/pass.ts'
import type { PlanDecisions } from '../../../src/store/store.ts'
import {
  AUDIT,
  allExecutions,
  allPlans,
  type Contract,
  filled,
  firstTranche,
  link,
  openWorld,
  poll,
  report,
  sendPlan,
  T0,
  tick,
  type World,
} from '../world.ts'

const LEAD_MS = 15 * MINUTE_MS

async function withPlans(world: World, n: number): Promise<number[]> {
  const { store, acme } = world
  await link(store, acme)
  for (let i = 1; i <= n; i++) await sendPlan(store, acme, { partnerPlanId: `p${i}` })
  return (await allPlans(store)).map(({ planId }) => planId)
}

async function decisionsNow({ store, machine }: World): Promise<PlanDecisions> {
  const known = await store.peekPass()
  return decisions({ ...known, price: { price: price('60000'), at: known.at } }, LEAD_MS, machine)
}

export const planPageContract: Contract = {
  'a plan is due at the very price it waits for, and at no higher one': async (t, open) => {
    const world = await openWorld(t, open)
    const { store } = world
    await firstTranche(world)
    const [plan] = await store.findPlans('p1')
    const limit = plan?.schedule?.limitPrice
    assert.ok(limit)
    const due = (livePrice: bigint) =>
      store.listDuePlans({ now: plus(T0, MINUTE_MS), livePrice: livePrice as Price, leadMs: LEAD_MS })
    assert.deepEqual(await due(limit), [plan.planId])
    assert.deepEqual(await due(limit - 1n), [plan.planId])
    assert.deepEqual(await due(limit + 1n), [])
  },

  'a plan is due at the very instant its failsafe begins, if it has money left': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await firstTranche(world)
    world.advance(16 * HOUR_MS)
    await tick(world, '60000')
    const [plan] = await allPlans(store)
    assert.ok(plan)
    const due = (ms: number) =>
      store.listDuePlans({ now: plus(T0, DAY_MS - LEAD_MS + ms), livePrice: price('90000'), leadMs: LEAD_MS })
    assert.deepEqual(await due(-1), [])
    assert.deepEqual(await due(0), [plan.planId])
    world.advance(8 * HOUR_MS - MINUTE_MS)
    await tick(world, '60000')
    for (const one of await poll(store, acme)) await report(store, acme, one.executionId, filled(one.amount))
    assert.deepEqual(await due(LEAD_MS - 1), [])
    assert.deepEqual(await due(LEAD_MS), [plan.planId], 'and at the end, to be rolled')
  },

  'a preview says what a page would fire, and stores nothing': async (t, open) => {
    const world = await openWorld(t, open)
    const { store } = world
    const planIds = await withPlans(world, 3)
    const before = [await store.findPlans('p1'), await allExecutions(store), await store.readMarks()]
    const fired = await store.previewDuePlans(planIds, await decisionsNow(world))
    assert.deepEqual(
      fired.map(({ partnerPlanId, tranche }) => [partnerPlanId, tranche.amount]),
      ['p1', 'p2', 'p3'].map((id) => [id, usd('10')]),
    )
    assert.deepEqual(
      [await store.findPlans('p1'), await allExecutions(store), await store.readMarks()],
      before,
    )
    assert.equal((await store.changeDuePlans(1, planIds, await decisionsNow(world))).executionsCreated, 3)
  },

  'a rehearsal knows what a pass at that instant would know': async (t, open) => {
    const { store, advance } = await openWorld(t, open)
    for (let i = 1; i <= 12; i++) {
      await store.beginPass({ price: price(`${60_000 + i}`), source: 'test' })
      advance(i * MINUTE_MS)
    }
    const peeked = await store.peekPass()
    const { passId, ...known } = await store.beginPass(null)
    assert.deepEqual(peeked, known)
    assert.deepEqual([passId, known.passGapsMs.length], [13, 8])
  },

  'each execution id is made of the one before it, over pages and connections': async (t, open) => {
    const world = await openWorld(t, open)
    const planIds = await withPlans(world, 4)
    const other = await world.connect()
    const given: (ExecutionId | null)[] = []
    const real = await decisionsNow(world)
    const watched: PlanDecisions = {
      ...real,
      newExecutionId: (previous, at) => {
        given.push(previous)
        return real.newExecutionId(previous, at)
      },
    }
    await world.store.changeDuePlans(1, planIds.slice(0, 2), watched)
    await other.changeDuePlans(1, planIds.slice(2), watched)
    const ids = (await allExecutions(world.store)).map(({ executionId }) => executionId)
    assert.deepEqual(given, [null, ...ids.slice(0, -1)])
  },

  'a page passes over a plan that was put to sleep since it was found due': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const planIds = await withPlans(world, 2)
    await sendPlan(store, acme, { partnerPlanId: 'p1', status: 'paused' })
    const counts = await store.changeDuePlans(1, planIds, await decisionsNow(world))
    assert.deepEqual(counts, { plansEvaluated: 1, executionsCreated: 1, windowsRolled: 0 })
  },

  'a cell that a clock ahead has spent from opens with what is left of it': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, acmeLive, bolt } = world
    await link(store, acmeLive)
    await sendPlan(store, acmeLive)
    world.advance(DAY_MS)
    await tick(world, '60000')
    const [early] = await poll(store, acmeLive)
    await report(store, acmeLive, early?.executionId ?? '', filled(usd('10')))
    world.advance(-DAY_MS)
    const filter = { slug: null, environment: null }
    const { plans } = await store.listAhead(filter, { after: null, limit: 10 })
    assert.deepEqual(
      plans.map(({ tenant, window, place }) => [tenant.tenantId, window.start, place.start, place.budget]),
      [[acmeLive.tenantId, plus(T0, DAY_MS), T0, usd('60')]],
    )
    const planId = plans[0]?.planId ?? 0
    const audited = async () => (await store.listAudit({ after: null, limit: 100 })).length
    const before = await audited()
    assert.equal((await store.bringBack(planId, () => AUDIT))?.place.start, T0)
    assert.equal(await store.bringBack(planId, () => AUDIT), null)
    assert.equal(await audited(), before + 1)
    await tick(world, '60000')
    world.advance(DAY_MS)
    await tick(world, '60000')
    const [plan] = await store.findPlans('p1')
    assert.deepEqual([plan?.window?.start, plan?.window?.budget], [plus(T0, DAY_MS + 1), usd('50')])
    for (const tenant of [acme, bolt]) assert.deepEqual(await poll(store, tenant), [])
    assert.deepEqual(await store.findFaults(), [])
  },
}
