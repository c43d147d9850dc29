// What there is once stays so whatever a decision returns: the store does not lean on the decisions being right.

import assert from 'node:assert/strict'
import { confirm } from '../../../src/core/confirmation.ts'
import { type Usd, usd } from '../../../src/core/money.ts'
import { writePlan } from '../../../src/core/plan.ts'
import { linkUser } from '../../../src/core/user.ts'
import {
  type Contract,
  filled,
  firstTranche,
  keyFor,
  link,
  openWorld,
  PLAN,
  poll,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
} from '../world.ts'

const PAGE = { after: null, limit: 100 }

export const uniquenessContract: Contract = {
  'an order id is recorded once in a tenant': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await link(store, acme)
    for (const id of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId: id })
    await tick(world, '60000')
    const [first, second] = await poll(store, acme)
    assert.ok(first && second)
    await report(store, acme, first.executionId, filled(first.amount, 'o1'))
    const again = store.confirmExecution(
      acme,
      { executionId: second.executionId, partnerOrderId: 'o1' },
      (seen, now) => confirm({ ...seen, orderHeldBy: null }, filled(second.amount, 'o1'), now),
    )
    await assert.rejects(again)
    const { execution, trade, window } = (await store.findExecution(second.executionId)) ?? {}
    assert.deepEqual([execution?.status, trade, window?.spent], ['sent', null, 0n])
  },

  'a plan exists once in a tenant': async (t, open) => {
    const { store, acme } = await openWorld(t, open)
    await link(store, acme)
    await sendPlan(store, acme)
    const unseen = { plan: null, window: null, usedStarts: [], usedBeforeReset: null }
    const again = store.changePlan(acme, { ...PLAN, partnerPlanId: 'p2' }, (seen, now) =>
      writePlan({ ...seen, ...unseen }, PLAN, now),
    )
    await assert.rejects(again)
    const [plan, another] = await store.findPlans('p1')
    assert.deepEqual([plan?.windows.length, another], [1, undefined])
  },

  'a plan has one current window': async (t, open) => {
    const { store, acme } = await openWorld(t, open)
    await link(store, acme)
    await sendPlan(store, acme)
    const opening = store.changePlan(acme, PLAN, (seen, now) => ({
      ...writePlan(seen, { ...PLAN, amount: usd('70') }, now),
      close: null,
    }))
    await assert.rejects(opening)
    const [plan] = await store.findPlans('p1')
    assert.deepEqual([plan?.amount, plan?.windows.map(({ budget }) => budget)], [usd('60'), [usd('60')]])
  },

  'a user exists once in a tenant': async (t, open) => {
    const { store, acme, advance } = await openWorld(t, open)
    await link(store, acme)
    advance(1)
    const request = {
      partnerUserId: 'u1',
      consentAccepted: true,
      consentVersion: 'v1',
      consentTimestamp: T0,
    }
    // Overwritten or refused: either will do.
    await Promise.allSettled([store.changeUser(acme, 'u1', (_, now) => linkUser(null, request, now))])
    assert.equal((await store.listUsers(acme, PAGE)).length, 1)
  },

  'a secret opens one door': async (t, open) => {
    const { store, acme, bolt } = await openWorld(t, open)
    const key = keyFor(acme)
    const audit = { osUser: 'test', action: 'key create', subject: 'acme', detail: {} }
    await store.addKey(key, audit)
    await assert.rejects(store.addKey(keyFor(bolt, { sha256: key.sha256 }), audit))
    assert.deepEqual(await store.listKeys('bolt'), [])
  },

  'a refused report is kept once': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const { executionId, amount } = await firstTranche(world)
    await setUser(store, acme, 'u1', 'disabled')
    const said = filled(amount, 'o1')
    const unseen = () =>
      store.confirmExecution(acme, { executionId, partnerOrderId: 'o1' }, (seen, now) =>
        confirm({ ...seen, lateFills: [] }, said, now),
      )
    await Promise.allSettled([unseen(), unseen()])
    assert.equal((await store.listLateFills(PAGE)).length, 1)
  },

  'a window never holds more than its budget': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const { executionId, amount } = await firstTranche(world)
    const spend = (spent: Usd, released: Usd) =>
      store.confirmExecution(acme, { executionId, partnerOrderId: 'o1' }, (seen, now) => {
        const made = confirm(seen, filled(amount, 'o1'), now)
        assert.ok(made.kind === 'recorded')
        return { ...made, window: { ...made.window, spent, released } }
      })
    await assert.rejects(spend(usd('60.01'), usd('0')))
    await assert.rejects(spend(amount, usd('1')), 'nothing is released while a window is current')
    const found = await store.findExecution(executionId)
    assert.deepEqual([found?.trade, found?.window.reserved, found?.window.spent], [null, amount, 0n])
  },
}
