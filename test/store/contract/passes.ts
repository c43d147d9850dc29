// Passes: one at a time, what each of them knows, and what a page of one leaves behind.

import assert from 'node:assert/strict'
import type { ExecutionId } from '../../../src/core/execution.ts'
import { formatUsd, price, usd } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { runPass } from '../../../src/engine/pass.ts'
import {
  allExecutions,
  allPlans,
  type Contract,
  filled,
  firstTranche,
  link,
  openWorld,
  poll,
  problem,
  report,
  sendPlan,
  T0,
  tick,
} from '../world.ts'

export const passContract: Contract = {
  'one pass at a time: a second hand is refused until the first has left': async (t, open) => {
    const { store, machine } = await openWorld(t, open)
    const hand = await store.joinPass()
    assert.ok(hand)
    assert.equal(await store.joinPass(), null)
    assert.equal(
      await runPass({ store, machine, observe: async () => ({ price: null, testimony: 'none' }) }),
      null,
    )
    await hand.leave()
    await hand.leave()
    const again = await store.joinPass()
    assert.ok(again)
    await again.leave()
  },

  'a pass knows its own price, else the newest stored, and the gaps between the last passes': async (
    t,
    open,
  ) => {
    const { store, advance, now } = await openWorld(t, open)
    const first = await store.beginPass({ price: price('60000'), source: 'test' })
    assert.deepEqual([first.price, first.passGapsMs], [{ price: price('60000'), at: T0 }, []])
    advance(5 * MINUTE_MS)
    const second = await store.beginPass(null)
    assert.deepEqual([second.price, second.passGapsMs], [{ price: price('60000'), at: T0 }, [5 * MINUTE_MS]])
    advance(-HOUR_MS)
    const third = await store.beginPass({ price: price('59000'), source: 'test' })
    assert.deepEqual(third.price, { price: price('59000'), at: now() })
    assert.deepEqual(third.passGapsMs, [5 * MINUTE_MS, 0])
    for (let i = 1; i <= 12; i++) {
      advance(i * MINUTE_MS)
      await store.beginPass(null)
    }
    advance(MINUTE_MS)
    const last = await store.beginPass(null)
    assert.deepEqual(
      last.passGapsMs,
      [6, 7, 8, 9, 10, 11, 12, 1].map((m) => m * MINUTE_MS),
    )
    assert.ok(last.passId > third.passId)
  },

  'the volatility state is carried from pass to pass': async (t, open) => {
    const { store, advance } = await openWorld(t, open)
    let hours = -1
    for (let i = 0; i < 30; i++) {
      const { volatility } = await store.beginPass({
        price: price(i % 2 ? '60000' : '61000'),
        source: 'test',
      })
      hours += 1
      assert.equal(volatility.hours, hours)
      advance(HOUR_MS)
    }
    const kept = await store.beginPass(null)
    assert.equal(kept.volatility.hours, hours)
    assert.ok(kept.volatility.variance > 0.005 ** 2)
  },

  'the due set is exactly what its ranges say': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme, now } = world
    await link(store, acme)
    const add = (id: string, more = {}) => sendPlan(store, acme, { partnerPlanId: id, ...more })
    await add('now')
    await add('future', { startDate: plus(T0, DAY_MS) })
    await add('paused', { status: 'paused' })
    await add('off', { smartTimingEnabled: false })
    await add('cancelled', { status: 'cancelled' })
    const due = async (livePrice: string | null, ms: number, leadMs = 15 * MINUTE_MS) => {
      const usdPrice = livePrice === null ? null : price(livePrice)
      const ids = await store.listDuePlans({ now: plus(T0, ms), livePrice: usdPrice, leadMs })
      const plans = await allPlans(store)
      return ids.map((id) => plans.find(({ planId }) => planId === id)?.partnerPlanId)
    }
    assert.deepEqual(await due('60000', -1), [])
    assert.deepEqual(await due('60000', 0), ['now'])
    await tick(world, '60000')
    assert.deepEqual(await due('60000', MINUTE_MS), [], 'waits for its reservation price')
    assert.deepEqual(await due('59000', MINUTE_MS), ['now'])
    assert.deepEqual(await due(null, 6 * HOUR_MS - 1), [])
    assert.deepEqual(await due(null, 6 * HOUR_MS), ['now'])
    assert.deepEqual(await due('60000', 8 * HOUR_MS - 1), [])
    assert.deepEqual(await due('60000', 8 * HOUR_MS), ['now'])
    assert.deepEqual(await due('60000', 4 * HOUR_MS, 20 * HOUR_MS), ['now'], 'within the failsafe lead')
    assert.deepEqual(await due('60000', DAY_MS), ['now', 'future'])
    assert.equal(now(), T0)
  },

  'windows roll on their grid, past the ones slept through, with one budget': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await firstTranche(world)
    world.advance(5 * DAY_MS + HOUR_MS)
    const pass = await tick(world, '60000')
    assert.deepEqual([pass.windowsRolled, pass.executionsCreated], [1, 1])
    const [plan] = await store.findPlans('p1')
    assert.deepEqual(
      plan?.windows.map(({ start, budget, closed }) => [start, budget, closed?.reason]),
      [
        [T0, usd('60'), 'ended'],
        [plus(T0, 5 * DAY_MS), usd('60'), undefined],
      ],
    )
    const keys = (await allExecutions(store)).map((one) => [one.windowStart, one.trancheIndex])
    assert.deepEqual(keys, [
      [T0, 0],
      [plus(T0, 5 * DAY_MS), 0],
    ])
    assert.equal((await poll(store, acme)).length, 2)
  },

  'resets in one millisecond and under a clock set back make no idempotency key twice': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await firstTranche(world)
    let cents = 6_001
    for (const ms of [0, 0, -HOUR_MS, DAY_MS, -DAY_MS, 0]) {
      world.advance(ms)
      await sendPlan(store, acme, { amount: usd(`${cents++ / 100}`) })
      await tick(world, '60000')
      // A window that a clock set back has put into the future waits for it.
      const [plan] = await allPlans(store)
      world.setClock(plan?.window?.start ?? world.now())
      await tick(world, '60000')
    }
    const all = await allExecutions(store)
    const keys = all.map((one) => `${one.partnerPlanId}:${one.windowStart}:${one.trancheIndex}`)
    assert.equal(new Set(keys).size, keys.length)
    assert.equal(keys.length, 7)
    assert.deepEqual(
      all.map(({ executionId }) => executionId).sort(),
      all.map(({ executionId }) => executionId),
    )
    assert.deepEqual(await store.findFaults(), [])
  },

  'a reset for a start date that a clock weeks ahead has used starts behind that': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    await firstTranche(world)
    const used = plus(T0, 20 * DAY_MS)
    world.setClock(used)
    await sendPlan(store, acme, { amount: usd('61') })
    await tick(world, '60000')
    world.setClock(plus(T0, HOUR_MS))
    await sendPlan(store, acme, { amount: usd('62'), startDate: used })
    world.setClock(plus(used, DAY_MS))
    await tick(world, '60000')
    const starts = (await allExecutions(store)).map(({ windowStart }) => windowStart)
    assert.deepEqual(starts, [T0, used, plus(used, 1)])
  },

  'a page that would make an idempotency key or an execution id twice is undone whole': async (t, open) => {
    const world = await openWorld(t, open)
    const { store } = world
    const { planId, executionId } = await firstTranche(world)
    const before = [await allExecutions(store), await store.findPlans('p1')]
    const firing = {
      trigger: 'clock',
      slot: 0,
      units: 1,
      price: null,
      reference: null,
      reservationPrice: null,
    } as const
    const again = (index: number, id: string) =>
      store.changeDuePlans(1, [planId], {
        roll: () => null,
        decide: (schedule) => ({
          schedule: { ...schedule, trancheIndex: index, fireable: usd('49') },
          tranche: { ...firing, amount: usd('1') },
        }),
        newExecutionId: () => id as ExecutionId,
      })
    await assert.rejects(again(1, `exec_${'f'.repeat(32)}`), /UNIQUE/i)
    await assert.rejects(again(2, executionId), /UNIQUE/i)
    assert.deepEqual([await allExecutions(store), await store.findPlans('p1')], before)
    assert.deepEqual(await store.findFaults(), [])
  },

  'a page that would reserve more than the budget is undone whole': async (t, open) => {
    const world = await openWorld(t, open)
    const { store } = world
    const { planId } = await firstTranche(world)
    const firing = {
      trigger: 'clock',
      slot: 0,
      units: 1,
      price: null,
      reference: null,
      reservationPrice: null,
    } as const
    const page = store.changeDuePlans(1, [planId], {
      roll: () => null,
      decide: (schedule) => ({
        schedule: { ...schedule, trancheIndex: 2 },
        tranche: { ...firing, amount: usd('50.01') },
      }),
      newExecutionId: () => `exec_${'f'.repeat(32)}` as ExecutionId,
    })
    await assert.rejects(page, /reserved \+ spent \+ released is at most the budget/)
    assert.equal((await allExecutions(store)).length, 1)
    assert.deepEqual(await store.findFaults(), [])
  },

  'what a window does not spend is reported when it ends': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acmeLive, now } = world
    await link(store, acmeLive)
    await sendPlan(store, acmeLive)
    await firstTranche(world)
    const [mine] = await poll(store, acmeLive)
    await report(store, acmeLive, mine?.executionId ?? '', filled(usd('10')))
    world.advance(DAY_MS)
    await tick(world, '60000')
    const { plans, unspent } = await store.takeStock(now())
    // The window in the test environment left more, and is nobody's.
    assert.deepEqual(
      unspent.map(({ tenant, windows, released }) => [tenant, windows, formatUsd(released)]),
      [[acmeLive, 1, '50.00']],
    )
    const { live } = await store.readBacklog(now())
    assert.deepEqual([live.open, live.due, plans.live.active], [1, 1, 1])
    assert.equal((await store.readScheduler()).lastFinishedAt, now())
    await assert.rejects(sendPlan(store, acmeLive, { partnerUserId: 'nobody' }), problem('user_never_linked'))
  },
}
