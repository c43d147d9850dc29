// Several hands at a pass: as many as a store takes, each tranche is fired once, and one of them tells what the whole
// pass came to.

import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { price } from '../../../src/core/money.ts'
import { DAY_MS, MINUTE_MS } from '../../../src/core/time.ts'
import { decisions, type PassReport, runPass } from '../../../src/engine/pass.ts'
import type { ObservedPrice, PassCounts, PassHand, PassStart, Store } from '../../../src/store/store.ts'
import { allExecutions, type Contract, link, openWorld, sendPlan, type World } from '../world.ts'

/** More than two pages of a pass, where a store has smaller ones than the engine. */
const MANY = 600
/** More than two pages of this size. */
const FEW = 30
const PAGE = 20
const LEAD_MS = 15 * MINUTE_MS
const NOTHING: PassCounts = { plansEvaluated: 0, executionsCreated: 0, windowsRolled: 0 }
const all = (plans: number): PassCounts => ({
  plansEvaluated: plans,
  executionsCreated: plans,
  windowsRolled: 0,
})

async function addPlans({ store, acme }: World, plans: number): Promise<void> {
  await link(store, acme)
  const names = Array.from({ length: plans }, (_, i) => `p${i}`)
  await Promise.all(names.map((partnerPlanId) => sendPlan(store, acme, { partnerPlanId })))
}

const pass = ({ machine }: World, store: Store): Promise<PassReport | null> =>
  runPass({
    store,
    machine,
    observe: async () => ({ price: PRICED, testimony: 'none' }),
  })

const PRICED: ObservedPrice = { price: price('60000'), source: 'test' }

/** The pass of a hand that is the first. */
async function begun(hand: PassHand, store: Store, observed: ObservedPrice | null = PRICED) {
  const first = await store.beginPass(observed)
  assert.equal(await hand.pass(async () => first), first)
  return first
}

const dueOf = ({ at, price }: PassStart) => ({ now: at, livePrice: price?.price ?? null, leadMs: LEAD_MS })

const sum = (all: readonly PassCounts[]): PassCounts =>
  all.reduce(
    (total, one) => ({
      plansEvaluated: total.plansEvaluated + one.plansEvaluated,
      executionsCreated: total.executionsCreated + one.executionsCreated,
      windowsRolled: total.windowsRolled + one.windowsRolled,
    }),
    NOTHING,
  )

async function assertEachFiredOnce({ store }: World, plans: number): Promise<void> {
  const fired = await allExecutions(store)
  assert.equal(fired.length, plans)
  assert.equal(new Set(fired.map(({ planId }) => planId)).size, plans)
  assert.deepEqual(await store.findFaults(), [])
}

export const handContract: Contract = {
  'hands at once fire each tranche once, and the last of them tells what all did': async (t, open) => {
    const world = await openWorld(t, open)
    await addPlans(world, MANY)
    const others = [await world.connect(), await world.connect()]
    const reports: PassReport[] = []
    let isOver = false
    const first = pass(world, world.store).then((report) => {
      isOver = true
      return report
    })
    const helping = others.map(async (store) => {
      while (!isOver) {
        const report = await pass(world, store)
        if (report) reports.push(report)
        else await setImmediate()
      }
    })
    const own = await first
    await Promise.all(helping)
    if (own) reports.push(own)
    const firing = reports.filter(({ executionsCreated }) => executionsCreated > 0)
    const passId = firing[0]?.passId
    const hands = reports.filter((report) => report.passId === passId)
    assert.ok(
      firing.every((report) => report.passId === passId),
      'nothing is left for another pass',
    )
    assert.deepEqual(sum(hands), all(MANY))
    assert.deepEqual(
      hands.flatMap(({ whole }) => whole ?? []),
      [{ passId, ...all(MANY) }],
    )
    await assertEachFiredOnce(world, MANY)
  },

  'a hand that joins knows what the first knows, and takes a page that nobody has': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, machine } = world
    await addPlans(world, FEW)
    const other = await world.connect()
    const hand = await store.joinPass()
    assert.ok(hand)
    const started = await begun(hand, store)
    const { passId } = started
    const counts = new Map<Store, PassCounts[]>([store, other].map((one) => [one, []]))
    const visit = async (by: Store, planIds: readonly number[]) => {
      counts.get(by)?.push(await by.changeDuePlans(passId, planIds, decisions(started, LEAD_MS, machine)))
    }
    const pages = hand.duePages(passId, dueOf(started), PAGE)[Symbol.asyncIterator]()
    const taken = await pages.next()
    await visit(store, taken.value ?? [])
    const second = await other.joinPass()
    if (second) {
      assert.deepEqual(await second.pass(assert.fail), started)
      for await (const page of second.duePages(passId, dueOf(started), PAGE)) await visit(other, page)
      assert.deepEqual((await pages.next()).value, undefined, 'all is taken')
    } else
      for (let page = await pages.next(); !page.done; page = await pages.next())
        await visit(store, page.value)
    const [own, others] = [sum(counts.get(store) ?? []), sum(counts.get(other) ?? [])]
    assert.ok(own.executionsCreated > 0)
    if (second) {
      assert.ok(others.executionsCreated > 0)
      assert.equal(await second.finish(passId, others), null, 'the first is still at it')
    }
    assert.equal((await store.readScheduler()).lastFinishedAt, null)
    assert.deepEqual(await hand.finish(passId, own), all(FEW))
    assert.equal((await store.readScheduler()).lastFinishedAt, world.now())
    await assertEachFiredOnce(world, FEW)
  },

  'what a hand had taken when it left in the middle is due in the next pass': async (t, open) => {
    const world = await openWorld(t, open)
    const { store } = world
    await addPlans(world, FEW)
    const hand = await store.joinPass()
    assert.ok(hand)
    const started = await begun(hand, store)
    for await (const page of hand.duePages(started.passId, dueOf(started), PAGE)) {
      assert.ok(page.length > 0)
      break
    }
    await hand.leave()
    const report = await pass(world, await world.connect())
    assert.notEqual(report?.passId, started.passId)
    assert.deepEqual(report?.whole, { passId: report?.passId, ...all(FEW) })
    await assertEachFiredOnce(world, FEW)
  },

  'the same plans in the hands of two at once are fired once, and looked at twice': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, machine } = world
    await addPlans(world, FEW)
    const started = await store.beginPass(PRICED)
    const due = await store.listDuePlans(dueOf(started))
    const hands = [store, await world.connect(), await world.connect()]
    const visit = (one: Store, planIds: readonly number[]) =>
      one.changeDuePlans(started.passId, planIds, decisions(started, LEAD_MS, machine))
    // In both orders: a transaction that locks plans in the order it was given would wait forever.
    const counts = await Promise.all(hands.map((one, i) => visit(one, i % 2 ? due.toReversed() : due)))
    assert.deepEqual(sum(counts), {
      plansEvaluated: hands.length * FEW,
      executionsCreated: FEW,
      windowsRolled: 0,
    })
    world.advance(DAY_MS)
    const next = await store.beginPass(PRICED)
    const rolled = await Promise.all(
      hands.map((one) => one.changeDuePlans(next.passId, due, decisions(next, LEAD_MS, machine))),
    )
    assert.deepEqual(sum(rolled), {
      plansEvaluated: hands.length * FEW,
      executionsCreated: FEW,
      windowsRolled: FEW,
    })
    assert.deepEqual(await store.findFaults(), [])
  },

  'a pass has no use for another hand before its plans are listed, nor after the last is taken': async (
    t,
    open,
  ) => {
    const world = await openWorld(t, open)
    const { store } = world
    const other = await world.connect()
    const hand = await store.joinPass()
    assert.ok(hand)
    const started = await begun(hand, store, null)
    assert.equal(await other.joinPass(), null)
    for await (const page of hand.duePages(started.passId, dueOf(started), PAGE)) assert.fail(`${page}`)
    assert.equal(await other.joinPass(), null)
    assert.deepEqual(await hand.finish(started.passId, NOTHING), NOTHING)
    const next = await other.joinPass()
    assert.ok(next)
    assert.notEqual((await begun(next, other)).passId, started.passId)
    await next.leave()
  },
}
