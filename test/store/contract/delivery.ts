// What a poll is handed, in which order, and how an operator ends what nobody confirms.

import assert from 'node:assert/strict'
import { cancelByHand } from '../../../src/core/confirmation.ts'
import { deliver, LEASE_AHEAD_MAX_MS, LEASE_MS } from '../../../src/core/execution.ts'
import { usd } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/time.ts'
import {
  AUDIT,
  allExecutions,
  type Contract,
  failed,
  firstTranche,
  link,
  openWorld,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  tick,
  type World,
} from '../world.ts'

const idsOf = (rows: { executionId: string }[]) => rows.map(({ executionId }) => executionId)

/** Plans p1 to pN, each with a tranche out at an instant of its own, a minute apart. */
async function tranches(world: World, n: number): Promise<string[]> {
  const { store, acme } = world
  await link(store, acme)
  for (let i = 1; i <= n; i++) {
    await sendPlan(store, acme, { partnerPlanId: `p${i}` })
    await tick(world, '60000')
    world.advance(MINUTE_MS)
  }
  return idsOf(await allExecutions(store))
}

export const deliveryContract: Contract = {
  'a poll is handed the oldest, whether they were delivered before or not': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const ids = await tranches(world, 6)
    assert.deepEqual(idsOf(await poll(store, acme, 2)), ids.slice(0, 2))
    world.advance(MINUTE_MS)
    assert.deepEqual(idsOf(await poll(store, acme, 1)), ids.slice(2, 3))
    world.advance(LEASE_MS)
    const page = await store.deliverDue(acme, 4, deliver)
    assert.deepEqual([idsOf(page.executions), page.remaining], [ids.slice(0, 4), 2])
    assert.deepEqual(
      page.executions.map(({ deliveredCount }) => deliveredCount),
      [2, 2, 2, 1],
    )
    const rest = await store.deliverDue(acme, 4, deliver)
    assert.deepEqual([idsOf(rest.executions), rest.remaining], [ids.slice(4), 0])
  },

  'what a poll leaves is counted through all that begins and ends an execution': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const ids = await tranches(world, 7)
    const left = async () => (await store.deliverDue(acme, 0, deliver)).remaining
    assert.equal(await left(), 7)
    const handed = idsOf(await poll(store, acme, 4))
    assert.deepEqual([handed, await left()], [ids.slice(0, 4), 3])
    await report(store, acme, ids[0] ?? '', failed())
    await store.cancelExecution(ids[1] ?? '', (seen, at) => cancelByHand(seen, 'lost', at), AUDIT)
    await sendPlan(store, acme, { partnerPlanId: 'p7', status: 'cancelled' })
    assert.equal(await left(), 2)
    world.advance(LEASE_MS)
    assert.equal(await left(), 4)
    await setUser(store, acme, 'u1', 'disabled')
    assert.equal(await left(), 0)
    assert.deepEqual(await store.findFaults(), [])
  },

  'a lease taken under a clock that was ahead does not hold when it was set back': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await firstTranche(world, { delivered: false })
    world.advance(20 * HOUR_MS)
    const [first] = await poll(store, acme)
    world.advance(LEASE_MS - LEASE_AHEAD_MAX_MS)
    assert.deepEqual(await poll(store, acme), [], 'an hour ahead may still be a lease')
    world.advance(-1)
    assert.deepEqual(idsOf(await poll(store, acme)), [first?.executionId])
    world.advance(-DAY_MS)
    assert.equal((await poll(store, acme))[0]?.deliveredCount, 3)
  },

  'what has an outcome is not handed out again': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    await report(store, acme, executionId, failed())
    world.advance(LEASE_MS)
    assert.deepEqual(await store.deliverDue(acme, 9, deliver), { executions: [], remaining: 0 })
  },

  'a cancelled plan takes back what was delivered and what was not': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await firstTranche(world)
    world.advance(8 * HOUR_MS)
    await tick(world, '60000')
    assert.deepEqual(
      (await allExecutions(store)).map(({ status }) => status),
      ['sent', 'pending'],
    )
    await sendPlan(store, acme, { status: 'cancelled' })
    world.advance(LEASE_MS)
    assert.deepEqual(await poll(store, acme), [])
    for (const { status, cancelledAt } of await allExecutions(store)) {
      assert.deepEqual([status, cancelledAt], ['cancelled', world.now() - LEASE_MS])
    }
    const [plan] = await store.findPlans('p1')
    const [window] = plan?.windows ?? []
    assert.deepEqual([window?.reserved, window?.released, plan?.schedule], [0n, usd('60'), null])
    assert.deepEqual(await store.findFaults(), [])
  },

  'an execution that an operator ends gives its reservation back, once': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, now } = world
    const { executionId } = await firstTranche(world)
    const before = (await store.listAudit({ after: null, limit: 100 })).length
    const end = (id: string) =>
      store.cancelExecution(id, (seen, at) => cancelByHand(seen, 'lost at the venue', at), AUDIT)
    await assert.rejects(end('exec_none'), problem('execution_not_found'))
    world.advance(HOUR_MS)
    await end(executionId)
    await assert.rejects(end(executionId), problem('execution_cancelled'))
    const found = await store.findExecution(executionId)
    assert.deepEqual(
      [found?.execution.status, found?.execution.cancelledAt, found?.execution.cancelReason],
      ['cancelled', now(), 'lost at the venue'],
    )
    assert.deepEqual([found?.window.reserved, found?.window.spent], [0n, 0n])
    assert.equal((await store.findPlans('p1'))[0]?.schedule?.fireable, usd('60'))
    assert.equal((await store.listAudit({ after: null, limit: 100 })).length, before + 1)
    assert.deepEqual(await poll(store, acme), [])
    assert.deepEqual(await store.findFaults(), [])
  },
}
