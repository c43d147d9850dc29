// A refused or broken write leaves nothing behind, and takes nobody else's with it.

import assert from 'node:assert/strict'
import { usd } from '../../../src/core/money.ts'
import { linkUser } from '../../../src/core/user.ts'
import type { Store } from '../../../src/store/store.ts'
import {
  AUDIT,
  allExecutions,
  allPlans,
  type Contract,
  filled,
  firstTranche,
  keyFor,
  link,
  openWorld,
  sendPlan,
  T0,
  type World,
} from '../world.ts'

const STOP = new Error('the decision changed its mind')
const stop = () => {
  throw STOP
}

/** Everything a partner, an operator or the scheduler could see. */
const everything = async (store: Store, { acme }: World) => ({
  executions: await allExecutions(store),
  plans: await allPlans(store),
  schedules: await store.findPlans('p1'),
  users: await store.listUsers(acme, { after: null, limit: 100 }),
  partners: await store.listPartners(),
  keys: await store.listKeys('acme'),
  late: await store.listLateFills({ after: null, limit: 100 }),
  audit: await store.listAudit({ after: null, limit: 100 }),
  webhook: await store.findWebhook(acme),
})

export const atomicityContract: Contract = {
  'a decision that throws changes nothing, whichever method asked for it': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const { executionId, planId } = await firstTranche(world)
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    await sendPlan(store, acme, { partnerPlanId: 'p2' })
    const before = await everything(store, world)
    const ids = { executionId, partnerOrderId: 'o1' }
    world.advance(10 * 60_000)
    // By itself: a poll may pass over what another write has in hand.
    const polling = store.deliverDue(acme, 10, stop)
    await Promise.allSettled([polling])
    const methods: [name: string, call: Promise<unknown>][] = [
      ['changePartner', store.changePartner('acme', stop, AUDIT)],
      ['changeKey', store.changeKey(keyId, stop, AUDIT)],
      ['changeUser', store.changeUser(acme, 'u1', stop)],
      ['changeUser, a new one', store.changeUser(acme, 'u9', stop)],
      ['changePlan', store.changePlan(acme, { partnerUserId: 'u1', partnerPlanId: 'p1' }, stop)],
      ['deliverDue', polling],
      ['confirmExecution', store.confirmExecution(acme, ids, stop)],
      ['changeWebhook', store.changeWebhook(acme, stop)],
      ['cancelExecution', store.cancelExecution(executionId, stop, AUDIT)],
      ['adjustTrade', store.adjustTrade(executionId, stop, () => AUDIT)],
      [
        'changeDuePlans',
        store.changeDuePlans(1, [planId], { roll: () => null, decide: stop, newExecutionId: stop }),
      ],
    ]
    const outcomes = await Promise.allSettled(methods.map(([, call]) => call))
    assert.deepEqual(
      methods.map(([name], i) => [name, outcomes[i]]),
      methods.map(([name]) => [name, { status: 'rejected', reason: STOP }]),
    )
    assert.deepEqual(await everything(store, world), before)
  },

  'a plan that fails halfway through a page undoes the page': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await link(store, acme)
    for (const id of ['p1', 'p2', 'p3']) await sendPlan(store, acme, { partnerPlanId: id })
    const before = await everything(store, world)
    let decided = 0
    const page = store.changeDuePlans(
      1,
      (await allPlans(store)).map(({ planId }) => planId),
      {
        roll: () => null,
        decide: (schedule) => {
          if (++decided === 3) throw STOP
          return { schedule: { ...schedule, slot: 2 }, tranche: null }
        },
        newExecutionId: stop,
      },
    )
    await assert.rejects(page, STOP)
    assert.equal(decided, 3)
    assert.deepEqual(await everything(store, world), before)
  },

  'a page that fails halfway takes nothing with it that shares its commit': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await link(store, acme)
    for (const id of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId: id })
    const planIds = (await allPlans(store)).map(({ planId }) => planId)
    const before = await store.findPlans('p1')
    let decided = 0
    const page = () =>
      store.changeDuePlans(1, planIds, {
        roll: () => null,
        decide: (schedule) => {
          if (++decided % 2 === 0) throw STOP
          return { schedule: { ...schedule, slot: 2 }, tranche: null }
        },
        newExecutionId: stop,
      })
    const user = (id: string) => link(store, acme, id)
    const outcomes = await Promise.allSettled([page(), user('u7'), page(), user('u8'), page(), user('u9')])
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      outcomes.map((_, i) => (i % 2 === 0 ? 'rejected' : 'fulfilled')),
    )
    const users = await store.listUsers(acme, { after: null, limit: 100 })
    assert.deepEqual(users.map(({ partnerUserId }) => partnerUserId).sort(), ['u1', 'u7', 'u8', 'u9'])
    assert.deepEqual([await store.findPlans('p1'), decided], [before, 6])
  },

  'writes that share a commit are undone one by one': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const request = (partnerUserId: string) => ({
      partnerUserId,
      consentAccepted: true,
      consentVersion: 'v1',
      consentTimestamp: T0,
    })
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, (_, i) =>
        store.changeUser(acme, `u${i}`, (seen, now) => {
          if (i % 3 === 0) throw STOP
          return linkUser(seen, request(`u${i}`), now)
        }),
      ),
    )
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      outcomes.map((_, i) => (i % 3 === 0 ? 'rejected' : 'fulfilled')),
    )
    const users = await store.listUsers(acme, { after: null, limit: 500 })
    assert.deepEqual(
      new Set(users.map(({ partnerUserId }) => partnerUserId)),
      new Set(Array.from({ length: 200 }, (_, i) => `u${i}`).filter((_, i) => i % 3 !== 0)),
    )
  },

  'writes of one turn see each other, in the order they were made': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    const said = filled(usd('4'), 'o1', 'partial')
    const seen: (string | undefined)[] = []
    await Promise.all(
      Array.from({ length: 5 }, () =>
        store.confirmExecution(acme, { executionId, partnerOrderId: 'o1' }, (now) => {
          seen.push(now.execution?.status)
          const { execution, window } = now
          if (!execution || !window || now.trade) return { kind: 'replayed', report: said }
          return {
            kind: 'recorded',
            execution: { ...execution, status: 'partial' },
            window: { ...window, reserved: usd('0'), spent: usd('4') },
            trade: { executionId: execution.executionId, recordedAt: T0, receivedAt: null, report: said },
            settles: null,
          }
        }),
      ),
    )
    assert.deepEqual(seen, ['sent', 'partial', 'partial', 'partial', 'partial'])
    assert.deepEqual(await store.findFaults(), [])
  },
}
