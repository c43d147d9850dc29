// Passes: one at a time, the state that each reads, the plans of a page, and the state it leaves.

import assert from 'node:assert/strict'
import type { ExecutionId } from '../../../src/core/execution.ts'
import { type Price, price, type Usd, usd } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import type { Schedule } from '../../../src/core/window.ts'
import { decisions, type PassResult, runPass } from '../../../src/engine/pass.ts'
import type { ObservedPrice, PassCounts, PassStart, PlanDecisions, Store } from '../../../src/store/store.ts'
import {
  afterFirst,
  allExecutions,
  allPlans,
  audited,
  type Contract,
  each,
  enrol,
  enrolAll,
  filled,
  firstTranche,
  link,
  noted,
  plansNamed,
  poll,
  problem,
  report,
  sendPlan,
  T0,
  tick,
  type World,
} from '../world.ts'

const NEW_ID = `exec_${'f'.repeat(32)}`

/** Decisions that fire a tranche of this amount, and leave such a schedule. */
const firingOnce = (amount: Usd, change: Partial<Schedule>, id = NEW_ID): PlanDecisions => ({
  roll: () => null,
  decide: (schedule) => ({ schedule: { ...schedule, ...change }, tranche: { ...FIRING, amount } }),
  newExecutionId: () => id as ExecutionId,
})
const FIRING = {
  trigger: 'clock',
  slot: 0,
  units: 1,
  price: null,
  reference: null,
  reservationPrice: null,
} as const

export const passContract: Contract = (test) => {
  test('one pass at a time: a second one is refused until the first has ended', async (world) => {
    const { store, machine } = world
    const other = await world.connect()
    const turn = await store.takePass()
    assert.ok(turn)
    for (const one of [store, other]) {
      assert.equal(await one.takePass(), null)
      const observe = async () => assert.fail('a pass that is skipped asks no feed')
      assert.equal(await runPass({ store: one, machine, observe }), null)
    }
    await turn.end()
    const again = await other.takePass()
    assert.ok(again)
    // It was ended already, and the next turn belongs to another one.
    await turn.end()
    assert.equal(await store.takePass(), null)
    await again.end()
  })

  test('a pass knows its own price, else the newest stored, and the gaps between the last passes', async (world) => {
    const { store, advance, now } = world
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
    const gaps = [6, 7, 8, 9, 10, 11, 12, 1].map((minutes) => minutes * MINUTE_MS)
    assert.deepEqual(last.passGapsMs, gaps)
    assert.ok(last.passId > third.passId)
  })

  test('the volatility state is carried from pass to pass', async ({ store, advance }) => {
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
  })

  test('the due set is exactly what its ranges say', async (world) => {
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
  })

  test('windows roll on their grid, past the ones slept through, with one budget', async (world) => {
    const { store, acme } = await afterFirst(world)
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
    assert.deepEqual(each(await allExecutions(store), 'windowStart', 'trancheIndex'), [
      [T0, 0],
      [plus(T0, 5 * DAY_MS), 0],
    ])
    assert.equal((await poll(store, acme)).length, 2)
  })

  test('resets in one millisecond and under a clock set back make no idempotency key twice', async (world) => {
    const { store, acme } = await afterFirst(world)
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
    const ids = all.map(({ executionId }) => executionId)
    assert.deepEqual(ids.toSorted(), ids)
  })

  test('a reset for a start date that a clock weeks ahead has used starts behind that', async (world) => {
    const { store, acme } = await afterFirst(world)
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
  })

  test('a page that would make an idempotency key or an execution id twice is undone whole', async (world) => {
    const { store, acme, planId, executionId } = await afterFirst(world)
    const before = [await allExecutions(store), await store.findPlans('p1')]
    const again = (trancheIndex: number, id: string) =>
      store.changeDuePlans(1, [planId], firingOnce(usd('1'), { trancheIndex, fireable: usd('49') }, id))
    await assert.rejects(again(1, NEW_ID), /UNIQUE/i)
    // On a file these share a commit, and the page is not the first of it.
    const user = (id: string) => link(store, acme, id)
    const [one, page, other] = await Promise.allSettled([user('u7'), again(2, executionId), user('u8')])
    assert.deepEqual([one.status, page.status, other.status], ['fulfilled', 'rejected', 'fulfilled'])
    assert.match(String(page.status === 'rejected' && page.reason), /UNIQUE/i)
    assert.deepEqual([await allExecutions(store), await store.findPlans('p1')], before)
  })

  test('a page that would reserve more than the budget is undone whole', async (world) => {
    const { store, planId } = await afterFirst(world)
    const page = store.changeDuePlans(1, [planId], firingOnce(usd('50.01'), { trancheIndex: 2 }))
    await assert.rejects(page, /reserved \+ spent \+ released is at most the budget/)
    assert.equal((await allExecutions(store)).length, 1)
  })

  test('what a window does not spend is reported when it ends', async (world) => {
    const { store, acmeLive, now } = world
    await enrol(store, acmeLive)
    await firstTranche(world)
    const [mine] = await poll(store, acmeLive)
    await report(store, acmeLive, mine?.executionId ?? '', filled(usd('10')))
    world.advance(DAY_MS)
    await tick(world, '60000')
    const { plans, unspent } = await store.takeStock(now())
    // The window in the test environment left more, and does not count.
    const left = [acmeLive, 1, usd('50')]
    assert.deepEqual(each(unspent, 'tenant', 'windows', 'released'), [left])
    const { live } = await store.readBacklog(now())
    assert.deepEqual([live.open, live.due, plans.live.active], [1, 1, 1])
    assert.equal((await store.readScheduler()).lastFinishedAt, now())
    await assert.rejects(sendPlan(store, acmeLive, { partnerUserId: 'nobody' }), problem('user_never_linked'))
  })
}

// Pages of a pass: at which instant and price a plan is due, the order of its ids, and that a cell of the grid is spent
// once.

const LEAD_MS = 15 * MINUTE_MS

async function withPlans(world: World, n: number): Promise<number[]> {
  const { store, acme } = world
  await enrolAll(store, acme, plansNamed(n, 1))
  return (await allPlans(store)).map(({ planId }) => planId)
}

async function decisionsNow({ store, machine }: World): Promise<PlanDecisions> {
  const known = await store.peekPass()
  return decisions({ ...known, price: { price: price('60000'), at: known.at } }, LEAD_MS, machine)
}

export const planPageContract: Contract = (test) => {
  test('a plan is due at the very price it waits for, and at no higher one', async (world) => {
    const { store } = await afterFirst(world)
    const [plan] = await store.findPlans('p1')
    const limit = plan?.schedule?.limitPrice
    assert.ok(limit)
    const due = (livePrice: bigint) =>
      store.listDuePlans({ now: plus(T0, MINUTE_MS), livePrice: livePrice as Price, leadMs: LEAD_MS })
    assert.deepEqual(await due(limit), [plan.planId])
    assert.deepEqual(await due(limit - 1n), [plan.planId])
    assert.deepEqual(await due(limit + 1n), [])
  })

  test('a plan is due at the very instant its failsafe begins, if it has money left', async (world) => {
    const { store, acme } = await afterFirst(world)
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
  })

  test('a preview says what a page would fire, and stores nothing', async (world) => {
    const { store } = world
    const planIds = await withPlans(world, 3)
    const before = [await store.findPlans('p1'), await allExecutions(store), await store.readMarks()]
    const fired = await store.previewDuePlans(planIds, await decisionsNow(world))
    const amounts = fired.map(({ partnerPlanId, tranche }) => [partnerPlanId, tranche.amount])
    const expected = ['p1', 'p2', 'p3'].map((id) => [id, usd('10')])
    assert.deepEqual(amounts, expected)
    const after = [await store.findPlans('p1'), await allExecutions(store), await store.readMarks()]
    assert.deepEqual(after, before)
    assert.equal((await store.changeDuePlans(1, planIds, await decisionsNow(world))).executionsCreated, 3)
  })

  test('a rehearsal knows what a pass at that instant would know', async ({ store, advance }) => {
    for (let i = 1; i <= 12; i++) {
      await store.beginPass({ price: price(`${60_000 + i}`), source: 'test' })
      advance(i * MINUTE_MS)
    }
    const peeked = await store.peekPass()
    const { passId, ...known } = await store.beginPass(null)
    assert.deepEqual(peeked, known)
    assert.deepEqual([passId, known.passGapsMs.length], [13, 8])
  })

  test('each execution id is made of the one before it, over pages and connections', async (world) => {
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
  })

  test('a page passes over a plan that was put to sleep since it was found due', async (world) => {
    const { store, acme } = world
    const planIds = await withPlans(world, 2)
    await sendPlan(store, acme, { partnerPlanId: 'p1', status: 'paused' })
    const counts = await store.changeDuePlans(1, planIds, await decisionsNow(world))
    assert.deepEqual(counts, { plansEvaluated: 1, executionsCreated: 1, windowsRolled: 0 })
  })

  test('a cell that a clock ahead has spent from opens with what is left of it', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    await enrol(store, acmeLive)
    world.advance(DAY_MS)
    await tick(world, '60000')
    const [early] = await poll(store, acmeLive)
    await report(store, acmeLive, early?.executionId ?? '', filled(usd('10')))
    world.advance(-DAY_MS)
    const { plans } = await store.listAhead({ slug: null, environment: null }, { after: null, limit: 10 })
    assert.deepEqual(
      plans.map(({ tenant, window, place }) => [tenant.tenantId, window.start, place.start, place.budget]),
      [[acmeLive.tenantId, plus(T0, DAY_MS), T0, usd('60')]],
    )
    const planId = plans[0]?.planId ?? 0
    const before = await audited(world)
    assert.equal((await store.bringBack(planId, noted))?.place.start, T0)
    assert.equal(await store.bringBack(planId, noted), null)
    assert.equal(await audited(world), before + 1)
    await tick(world, '60000')
    world.advance(DAY_MS)
    await tick(world, '60000')
    const [plan] = await store.findPlans('p1')
    assert.deepEqual([plan?.window?.start, plan?.window?.budget], [plus(T0, DAY_MS + 1), usd('50')])
    for (const tenant of [acme, bolt]) assert.deepEqual(await poll(store, tenant), [])
  })
}

// Several processes with passes: one runs at a time, each tranche fires once, and none is left out.

/** More than two pages of a pass. */
const MANY = 600
/** More than two pages of this size. */
const FEW = 30
const PAGE = 20
const all = (plans: number) => ({ plansEvaluated: plans, executionsCreated: plans, windowsRolled: 0 })

async function addPlans({ store, acme }: World, plans: number): Promise<void> {
  await link(store, acme)
  await Promise.all(plansNamed(plans).map((partnerPlanId) => sendPlan(store, acme, { partnerPlanId })))
}

const pass = ({ machine }: World, store: Store): Promise<PassResult | null> =>
  runPass({ store, machine, observe: async () => ({ price: PRICED, testimony: 'none' }) })

const PRICED: ObservedPrice = { price: price('60000'), source: 'test' }

const dueOf = ({ at, price }: PassStart) => ({ now: at, livePrice: price?.price ?? null, leadMs: LEAD_MS })

const countsOf = ({ plansEvaluated, executionsCreated, windowsRolled }: PassCounts): PassCounts => ({
  plansEvaluated,
  executionsCreated,
  windowsRolled,
})
const sum = (counts: readonly PassCounts[]): PassCounts =>
  counts.reduce(
    (total, one) => ({
      plansEvaluated: total.plansEvaluated + one.plansEvaluated,
      executionsCreated: total.executionsCreated + one.executionsCreated,
      windowsRolled: total.windowsRolled + one.windowsRolled,
    }),
    all(0),
  )

export async function assertEachFiredOnce({ store }: Pick<World, 'store'>, plans: number): Promise<void> {
  const fired = await allExecutions(store)
  assert.equal(fired.length, plans)
  assert.equal(new Set(fired.map(({ planId }) => planId)).size, plans)
  assert.deepEqual(await store.findFaults(), [])
}

export const processContract: Contract = (test) => {
  test('of processes at once one runs the pass, which fires each tranche once, and the others skip theirs', async (world) => {
    await addPlans(world, MANY)
    const others = [await world.connect(), await world.connect()]
    const reports = await Promise.all([world.store, ...others].map((store) => pass(world, store)))
    const run = reports.flatMap((report) => report ?? [])
    assert.deepEqual(sum(run), all(MANY))
    assert.equal(run.filter(({ executionsCreated }) => executionsCreated > 0).length, 1)
    assert.equal((await world.store.readScheduler()).lastFinishedAt, world.now())
    await assertEachFiredOnce(world, MANY)
  })

  test('what was due in a pass that ended in the middle is due in the next one', async (world) => {
    const { store, machine } = world
    await addPlans(world, FEW)
    const turn = await store.takePass()
    assert.ok(turn)
    const started = await store.beginPass(PRICED)
    for await (const page of turn.duePages(dueOf(started), PAGE)) {
      assert.equal(page.length, PAGE)
      await store.changeDuePlans(started.passId, page, decisions(started, LEAD_MS, machine))
      break
    }
    await turn.end()
    assert.equal((await store.readScheduler()).lastFinishedAt, null)
    const report = await pass(world, await world.connect())
    assert.ok(report && report.passId !== started.passId)
    assert.deepEqual(countsOf(report), all(FEW - PAGE))
    await assertEachFiredOnce(world, FEW)
  })

  test('the same plans looked at by two at once are fired once', async (world) => {
    const { store, machine } = world
    await addPlans(world, FEW)
    const started = await store.beginPass(PRICED)
    const due = await store.listDuePlans(dueOf(started))
    const stores = [store, await world.connect(), await world.connect()]
    const visit = (one: Store, planIds: readonly number[]) =>
      one.changeDuePlans(started.passId, planIds, decisions(started, LEAD_MS, machine))
    // In both orders: a transaction that locks plans in the order it was given would wait forever.
    const counts = await Promise.all(stores.map((one, i) => visit(one, i % 2 ? due.toReversed() : due)))
    const plansEvaluated = stores.length * FEW
    assert.deepEqual(sum(counts), { plansEvaluated, executionsCreated: FEW, windowsRolled: 0 })
    world.advance(DAY_MS)
    const next = await store.beginPass(PRICED)
    const rolled = await Promise.all(
      stores.map((one) => one.changeDuePlans(next.passId, due, decisions(next, LEAD_MS, machine))),
    )
    assert.deepEqual(sum(rolled), { plansEvaluated, executionsCreated: FEW, windowsRolled: FEW })
  })
}
