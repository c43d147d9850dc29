// Executions are delivered once, in their order, confirmed once, and never spend more than their reservation.

import assert from 'node:assert/strict'
import { cancelByHand, deliver, LEASE_AHEAD_MAX_MS, LEASE_MS } from '../../../src/core/execution.ts'
import { type Usd, usd } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import {
  AUDIT,
  accept,
  allExecutions,
  audited,
  type Contract,
  each,
  enrolAll,
  failed,
  filled,
  firstTranche,
  link,
  plansNamed,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  tick,
  type World,
} from '../world.ts'

const windowOf = async ({ store }: World, executionId: string) => {
  const window = (await store.findExecution(executionId))?.window
  return window && [window.reserved, window.spent, window.released]
}

export const executionContract: Contract = (test) => {
  test('a lease lasts five minutes to the millisecond; then the same execution is delivered again', async (world) => {
    const { store, acme, now } = world
    assert.equal(LEASE_MS, 300_000)
    const first = await firstTranche(world)
    assert.deepEqual([first.deliveredCount, first.leaseExpiresAt], [1, plus(now(), LEASE_MS)])
    world.advance(LEASE_MS - 1)
    assert.deepEqual(await poll(store, acme), [])
    world.advance(1)
    const [again] = await poll(store, acme)
    assert.deepEqual(again, { ...first, deliveredCount: 2, leaseExpiresAt: plus(now(), LEASE_MS) })
  })

  test('two polls at once never get the same execution, and say what remains', async (world) => {
    const { store, acme } = world
    await enrolAll(store, acme, plansNamed(7))
    await tick(world, '60000')
    const polls = await Promise.all(
      [3, 3, 3].map((limit) =>
        store.deliverDue(acme, limit, (one) => ({
          ...one,
          status: 'sent',
          deliveredCount: 1,
          leaseExpiresAt: plus(world.now(), LEASE_MS),
        })),
      ),
    )
    // The store decides the order of their turns.
    polls.sort((a, b) => b.remaining - a.remaining)
    assert.deepEqual(
      polls.map(({ executions, remaining }) => [executions.length, remaining]),
      [
        [3, 4],
        [3, 1],
        [1, 0],
      ],
    )
    const ids = polls.flatMap(({ executions }) => executions.map(({ executionId }) => executionId))
    assert.deepEqual([...ids].sort(), ids, 'oldest first, in creation order')
    assert.equal(new Set(ids).size, 7)
  })

  test('a part fill gives the rest back to the window, and the engine may spend it', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    await report(store, acme, executionId, filled(usd('3.33333333'), 'o1', 'partial'))
    assert.deepEqual(await windowOf(world, executionId), [0n, usd('3.33333333'), 0n])
    world.advance(DAY_MS - 10 * MINUTE_MS)
    await tick(world, '60000')
    const [last] = await poll(store, acme)
    assert.equal(last?.amount, usd('56.66'))
  })

  test('a refund after its window has rolled stays in the old window', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    world.advance(DAY_MS)
    assert.equal((await tick(world, '60000')).windowsRolled, 1)
    await report(store, acme, executionId, failed())
    assert.deepEqual(await windowOf(world, executionId), [0n, 0n, usd('60')])
    const [current] = await store.findPlans('p1')
    assert.deepEqual([current?.window?.reserved, current?.schedule?.fireable], [usd('10'), usd('50')])
  })

  test('a report on a cancelled execution is kept, once, and counts when an operator accepts it', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    await sendPlan(store, acme, { status: 'cancelled' })
    const said = filled(usd('9.50'), 'o1')
    for (let i = 0; i < 2; i++) assert.equal((await report(store, acme, executionId, said)).kind, 'refused')
    await assert.rejects(report(store, acme, executionId, failed('o2')), problem('execution_cancelled'))
    const [late, another] = await store.listLateFills({ after: null, limit: 10 })
    const inLive = { slug: null, environment: 'live' } as const
    assert.deepEqual(await store.listLateFills({ after: null, limit: 10 }, inLive), [])
    assert.equal(another, undefined)
    assert.deepEqual([late?.executionId, late?.acceptedAt, late?.report], [executionId, null, said])
    assert.deepEqual(await windowOf(world, executionId), [0n, 0n, usd('60')])

    const before = await audited(world)
    await accept(world, executionId)
    assert.deepEqual(await windowOf(world, executionId), [0n, usd('9.50'), usd('50.50')])
    assert.equal(await audited(world), before + 1)
    assert.equal((await store.listLateFills({ after: null, limit: 10 }))[0]?.acceptedAt, world.now())
    await assert.rejects(accept(world, executionId), problem('late_fill_conflict'))
    assert.equal((await report(store, acme, executionId, said)).kind, 'replayed')
  })

  test('late reports that cannot be taken are refused and change nothing', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    await assert.rejects(accept(world, executionId), problem('late_fill_not_found'))
    await setUser(store, acme, 'u1', 'disabled')
    await report(store, acme, executionId, filled(usd('1000000000.01'), 'o1'))
    await assert.rejects(accept(world, executionId), problem('adjustment_conflict'), 'nobody buys that')
    await report(store, acme, executionId, filled(usd('10.00'), 'o2'))
    await assert.rejects(accept(world, executionId), problem('late_fill_conflict'), 'two reports, none named')
    await assert.rejects(accept(world, executionId, 99), problem('late_fill_not_found'))
    const [, second] = await store.listLateFills({ after: null, limit: 10 })
    const made = await accept(world, executionId, second?.reportId ?? null)
    assert.ok(made.kind === 'recorded')
    assert.equal(made.trade.report.partnerOrderId, 'o2')
    await assert.rejects(accept(world, executionId, second?.reportId), problem('late_fill_conflict'))
  })

  test('a late fill never spends what its window has given to other tranches since', async (world) => {
    const { store, acme } = world
    const { executionId, amount } = await firstTranche(world)
    await setUser(store, acme, 'u1', 'disabled')
    await report(store, acme, executionId, filled(amount, 'late'))
    await setUser(store, acme, 'u1', 'linked')
    world.advance(MINUTE_MS)
    await sendPlan(store, acme, { status: 'active' })
    world.advance(DAY_MS - MINUTE_MS)
    await tick(world, '60000')
    for (const one of await poll(store, acme)) await report(store, acme, one.executionId, filled(one.amount))
    await accept(world, executionId)
    const spent = (await allExecutions(store)).map((one) => [one.status, one.amount])
    assert.deepEqual(spent, [
      ['filled', amount],
      ['filled', usd('60') as Usd],
    ])
  })

  test('stuck executions are those delivered often and never confirmed', async (world) => {
    const { store, acme } = world
    await firstTranche(world)
    const stuck = () =>
      store.listExecutions(
        { slug: null, environment: null, status: null, stuck: true },
        { after: null, limit: 9 },
      )
    for (let delivery = 2; delivery <= 5; delivery++) {
      assert.deepEqual(await stuck(), [])
      world.advance(LEASE_MS)
      await poll(store, acme)
    }
    assert.equal((await stuck()).length, 1)
  })
}

// The contents and the order of a poll, and how an operator ends an execution that nobody confirms.

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

export const deliveryContract: Contract = (test) => {
  test('a poll is handed leases that are over before what was never delivered, and leaves the rest', async (world) => {
    const { store, acme } = world
    const ids = await tranches(world, 6)
    assert.deepEqual(idsOf(await poll(store, acme, 2)), ids.slice(0, 2))
    world.advance(MINUTE_MS)
    assert.deepEqual(idsOf(await poll(store, acme, 1)), ids.slice(2, 3))
    world.advance(LEASE_MS)
    const page = await store.deliverDue(acme, 4, deliver)
    assert.deepEqual([idsOf(page.executions), page.remaining], [ids.slice(0, 4), 2])
    assert.deepEqual(each(page.executions, 'deliveredCount'), [2, 2, 2, 1])
    const rest = await store.deliverDue(acme, 4, deliver)
    assert.deepEqual([idsOf(rest.executions), rest.remaining], [ids.slice(4), 0])
  })

  test('leases that are over come in the order in which they ended, then by id', async (world) => {
    const { store, acme } = world
    const [first = '', second = '', third = '', fourth = ''] = await tranches(world, 4)
    await poll(store, acme, 1)
    world.advance(MINUTE_MS)
    assert.deepEqual(idsOf(await poll(store, acme, 1)), [second])
    world.advance(LEASE_MS - MINUTE_MS)
    // The lease of the second still runs.
    assert.deepEqual(idsOf(await poll(store, acme, 2)), [first, third])
    world.advance(2 * MINUTE_MS)
    assert.deepEqual(idsOf(await poll(store, acme, 1)), [second])
    world.advance(LEASE_MS)
    assert.deepEqual(idsOf(await poll(store, acme, 3)), [first, third, second])
    assert.deepEqual(idsOf(await poll(store, acme)), [fourth])
  })

  test('what a poll leaves is counted through all that begins and ends an execution', async (world) => {
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
  })

  test('a lease taken under a clock that was ahead does not hold when it was set back', async (world) => {
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
  })

  test('what has an outcome is not handed out again', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    await report(store, acme, executionId, failed())
    world.advance(LEASE_MS)
    assert.deepEqual(await store.deliverDue(acme, 9, deliver), { executions: [], remaining: 0 })
  })

  test('a plan that is changed leaves in its window what is out, and one that is cancelled takes it back', async (world) => {
    const { store, acme } = world
    await firstTranche(world)
    world.advance(8 * HOUR_MS)
    await tick(world, '60000')
    assert.deepEqual(each(await allExecutions(store), 'status'), ['sent', 'pending'])
    const windows = async () =>
      (await store.findPlans('p1')).flatMap((plan) =>
        plan.windows.map((one) => [one.budget, one.reserved, one.released, one.closed?.reason]),
      )
    await sendPlan(store, acme, { amount: usd('70') })
    assert.deepEqual(await windows(), [
      [usd('60'), usd('30'), usd('30'), 'reset'],
      [usd('70'), 0n, 0n, undefined],
    ])
    await sendPlan(store, acme, { status: 'cancelled' })
    world.advance(LEASE_MS)
    assert.deepEqual(await poll(store, acme), [])
    for (const { status, cancelledAt } of await allExecutions(store)) {
      assert.deepEqual([status, cancelledAt], ['cancelled', world.now() - LEASE_MS])
    }
    assert.deepEqual(await windows(), [
      [usd('60'), 0n, usd('60'), 'reset'],
      [usd('70'), 0n, usd('70'), 'cancelled'],
    ])
    assert.equal((await store.findPlans('p1'))[0]?.schedule, null)
  })

  test('an execution that an operator ends gives its reservation back, once', async (world) => {
    const { store, acme, now } = world
    const { executionId } = await firstTranche(world)
    const before = await audited(world)
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
    assert.equal(await audited(world), before + 1)
    assert.deepEqual(await poll(store, acme), [])
  })
}
