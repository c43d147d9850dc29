// Executions are delivered once, in their order, confirmed once, and never spend more than their reservation.

import assert from 'node:assert/strict'
import { LATE_FILLS_MAX } from '../../../src/core/confirmation.ts'
import { acceptLate } from '../../../src/core/corrections/late-fill.ts'
import { cancelByHand, deliver, LEASE_AHEAD_MAX_MS, LEASE_MS } from '../../../src/core/execution.ts'
import { btc, price, type Usd, usd } from '../../../src/core/money.ts'
import { type FixedPeriod, periodOf } from '../../../src/core/month.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import type { AdjustmentLine } from '../../../src/store/store.ts'
import {
  AUDIT,
  accept,
  adjustTo,
  afterFirst,
  allExecutions,
  allPages,
  audited,
  type Contract,
  EVERYBODY,
  each,
  enrol,
  failed,
  filled,
  firstTranche,
  link,
  noted,
  PAGE,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  T0,
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

  test('a part fill gives the rest back to the window, and the engine may spend it', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    await report(store, acme, executionId, filled(usd('3.33333333'), 'o1', 'partial'))
    assert.deepEqual(await windowOf(world, executionId), [0n, usd('3.33333333'), 0n])
    world.advance(DAY_MS - 10 * MINUTE_MS)
    await tick(world, '60000')
    const [last] = await poll(store, acme)
    assert.equal(last?.amount, usd('56.66'))
  })

  test('a refund after its window has rolled stays in the old window', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    world.advance(DAY_MS)
    assert.equal((await tick(world, '60000')).windowsRolled, 1)
    await report(store, acme, executionId, failed())
    assert.deepEqual(await windowOf(world, executionId), [0n, 0n, usd('60')])
    const [current] = await store.findPlans('p1')
    assert.deepEqual([current?.window?.reserved, current?.schedule?.fireable], [usd('10'), usd('50')])
  })

  test('a report on a cancelled execution is kept, once, and counts when an operator accepts it', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    await sendPlan(store, acme, { status: 'cancelled' })
    const said = filled(usd('9.50'), 'o1')
    for (let i = 0; i < 2; i++) assert.equal((await report(store, acme, executionId, said)).kind, 'refused')
    await assert.rejects(report(store, acme, executionId, failed('o2')), problem('execution_cancelled'))
    const [late, another] = await store.listLateFills(PAGE)
    const inLive = { slug: null, environment: 'live' } as const
    assert.deepEqual(await store.listLateFills(PAGE, inLive), [])
    assert.equal(another, undefined)
    assert.deepEqual([late?.executionId, late?.acceptedAt, late?.report], [executionId, null, said])
    assert.deepEqual(await windowOf(world, executionId), [0n, 0n, usd('60')])

    const before = await audited(world)
    await accept(world, executionId)
    assert.deepEqual(await windowOf(world, executionId), [0n, usd('9.50'), usd('50.50')])
    assert.equal(await audited(world), before + 1)
    assert.equal((await store.listLateFills(PAGE))[0]?.acceptedAt, world.now())
    await assert.rejects(accept(world, executionId), problem('late_fill_conflict'))
    assert.equal((await report(store, acme, executionId, said)).kind, 'replayed')
  })

  test('late reports that cannot be taken are refused and change nothing', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    await assert.rejects(accept(world, executionId), problem('late_fill_not_found'))
    await setUser(store, acme, 'u1', 'disabled')
    await report(store, acme, executionId, filled(usd('1000000000.01'), 'o1'))
    await assert.rejects(accept(world, executionId), problem('adjustment_conflict'), 'nobody buys that')
    await report(store, acme, executionId, filled(usd('10.00'), 'o2'))
    await assert.rejects(accept(world, executionId), problem('late_fill_conflict'), 'two reports, none named')
    await assert.rejects(accept(world, executionId, 99), problem('late_fill_not_found'))
    const [, second] = await store.listLateFills(PAGE)
    const made = await accept(world, executionId, second?.reportId ?? null)
    assert.ok(made.kind === 'recorded')
    assert.equal(made.trade.report.partnerOrderId, 'o2')
    await assert.rejects(accept(world, executionId, second?.reportId), problem('late_fill_conflict'))
  })

  test('a late fill never spends what its window has given to other tranches since', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world)
    await setUser(store, acme, 'u1', 'disabled')
    await report(store, acme, executionId, filled(amount, 'late'))
    await setUser(store, acme, 'u1', 'linked')
    world.advance(MINUTE_MS)
    await sendPlan(store, acme, { status: 'active' })
    world.advance(DAY_MS - MINUTE_MS)
    await tick(world, '60000')
    for (const one of await poll(store, acme)) await report(store, acme, one.executionId, filled(one.amount))
    await accept(world, executionId)
    assert.deepEqual(each(await allExecutions(store), 'status', 'amount'), [
      ['filled', amount],
      ['filled', usd('60') as Usd],
    ])
  })

  test('stuck executions are those delivered often and never confirmed', async (world) => {
    const { store, acme } = await afterFirst(world)
    const stuck = () => store.listExecutions({ ...EVERYBODY, status: null, stuck: true }, PAGE)
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
    assert.deepEqual([idsOf(await poll(store, acme, 4)), await left()], [ids.slice(0, 4), 3])
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
    const { store, acme } = await afterFirst(world, { delivered: false })
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
    const { store, acme, executionId } = await afterFirst(world)
    await report(store, acme, executionId, failed())
    world.advance(LEASE_MS)
    assert.deepEqual(await store.deliverDue(acme, 9, deliver), { executions: [], remaining: 0 })
  })

  test('a plan that is changed leaves in its window what is out, and one that is cancelled takes it back', async (world) => {
    const { store, acme } = await afterFirst(world)
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
    const cancelled = ['cancelled', world.now() - LEASE_MS]
    assert.deepEqual(each(await allExecutions(store), 'status', 'cancelledAt'), [cancelled, cancelled])
    assert.deepEqual(await windows(), [
      [usd('60'), 0n, usd('60'), 'reset'],
      [usd('70'), 0n, usd('70'), 'cancelled'],
    ])
    assert.equal((await store.findPlans('p1'))[0]?.schedule, null)
  })

  test('an execution that an operator ends gives its reservation back, once', async (world) => {
    const { store, acme, now, executionId } = await afterFirst(world)
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

// Stored reports that were refused, and adjustments: an operator's decision counts once, and each is on its trade.

const lateFills = async ({ store }: World) =>
  (await store.listLateFills(PAGE)).map((late) => [
    late.report.usdAmount,
    late.decidedAt !== null,
    late.acceptedAt !== null,
  ])

/** An execution that was cancelled while it was open, and three reports on it: two of one order. */
async function withLateFills(world: World): Promise<{ executionId: string; reportIds: number[] }> {
  const { store, acme, executionId } = await afterFirst(world)
  await setUser(store, acme, 'u1', 'disabled')
  for (const said of [filled(usd('9'), 'o1'), filled(usd('8'), 'o1'), filled(usd('7'), 'o2')])
    await report(store, acme, executionId, said)
  return { executionId, reportIds: (await store.listLateFills(PAGE)).map(({ reportId }) => reportId) }
}

export const lateFillContract: Contract = (test) => {
  test('accepting a late fill decides those that say the same of its order, and no others', async (world) => {
    const { executionId, reportIds } = await withLateFills(world)
    const { store, acme } = world
    const [first = 0] = reportIds
    const told = filled(usd('9'), 'o1')
    // Made at another moment; with a fee, which nobody has recorded; for other coins.
    for (const more of [
      { executedAt: T0 },
      { partnerFee: usd('0.05') },
      { btcAmount: btc('0.0002') },
      { partnerOrderId: 'o3' },
    ])
      await report(store, acme, executionId, { ...told, ...more })
    const made = await store.acceptLateFill({ executionId, reportId: first }, acceptLate, noted)
    const [, second, third, , ...others] = (await store.listLateFills(PAGE)).map(({ reportId }) => reportId)
    assert.equal(others.length, 3)
    assert.deepEqual(made.waiting, [second, third, ...others])
    assert.deepEqual(await lateFills(world), [
      [usd('9'), true, true],
      [usd('8'), false, false],
      [usd('7'), false, false],
      [usd('9'), true, false],
      ...[4, 5, 6].map(() => [usd('9'), false, false]),
    ])
    const reasons = (await store.findExecution(executionId))?.lateFills.map((one) => one.decisionReason)
    assert.deepEqual(reasons?.slice(0, 4), [
      null,
      null,
      null,
      `says the same as report ${first}, which was accepted`,
    ])
  })

  test('a dismissal decides the report that is named, or all of the execution', async (world) => {
    const { store } = world
    const { executionId, reportIds } = await withLateFills(world)
    const dismiss = (reportId: number | null) => store.dismissLateFills({ executionId, reportId }, noted)
    const before = await audited(world)
    assert.deepEqual(each(await dismiss(reportIds[1] ?? 0), 'reportId'), [reportIds[1]])
    const decided = (await lateFills(world)).map(([, isDecided]) => isDecided)
    assert.deepEqual(decided, [false, true, false])
    assert.equal((await dismiss(null)).length, 2)
    await assert.rejects(dismiss(null), problem('late_fill_not_found'))
    assert.equal(await audited(world), before + 2)
    const dismissed = ['9', '8', '7'].map((amount) => [usd(amount), true, false])
    assert.deepEqual(await lateFills(world), dismissed)
  })

  test('a report on a pending execution is kept, settled when the same one is recorded, and by no other', async (world) => {
    const { store, acme, executionId } = await afterFirst(world, { delivered: false })
    const said = filled(usd('9'), 'o1')
    for (const one of [said, said, filled(usd('8'), 'o2'), filled(usd('7'), 'o1')])
      assert.equal((await report(store, acme, executionId, one)).kind, 'refused')
    const decided = async () =>
      (await store.listLateFills(PAGE)).map((late) => [
        late.reason,
        late.report.usdAmount,
        late.acceptedAt,
        late.decidedAt,
      ])
    const kept = [usd('9'), usd('8'), usd('7')].map((amount) => ['execution_pending', amount, null, null])
    assert.deepEqual(await decided(), kept)
    assert.equal((await poll(store, acme)).length, 1)
    world.advance(MINUTE_MS)
    assert.equal((await report(store, acme, executionId, said)).kind, 'recorded')
    assert.deepEqual(await decided(), [['execution_pending', usd('9'), null, world.now()], ...kept.slice(1)])
    const { trade } = (await store.findExecution(executionId)) ?? {}
    assert.deepEqual([trade?.receivedAt, trade?.recordedAt], [T0, world.now()], 'dated by its first report')
    await assert.rejects(accept(world, executionId, 1), problem('late_fill_conflict'))
    const reasons = (await store.findExecution(executionId))?.lateFills.map((one) => one.decisionReason)
    assert.deepEqual(reasons, ['the same report was recorded', null, null])
  })

  test('an execution whose report is accepted while it is pending is filled, and never handed out', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world, { delivered: false })
    await assert.rejects(accept(world, executionId), problem('late_fill_not_found'))
    await report(store, acme, executionId, filled(amount, 'o1'))
    assert.ok((await accept(world, executionId)).kind === 'recorded')
    const { window } = (await store.findExecution(executionId)) ?? {}
    assert.deepEqual([window?.reserved, window?.spent, window?.excess], [0n, amount, 0n])
    assert.deepEqual(await poll(store, acme), [])
    world.advance(HOUR_MS)
    assert.deepEqual(await poll(store, acme), [])
    const found = await store.findExecution(executionId)
    assert.deepEqual([found?.execution.status, found?.execution.deliveredCount], ['filled', 0])
  })

  test('a report on an execution that was cancelled before it was delivered is kept, and can be accepted', async (world) => {
    const { store, acme, executionId } = await afterFirst(world, { delivered: false })
    await sendPlan(store, acme, { status: 'cancelled' })
    assert.equal((await report(store, acme, executionId, filled(usd('10')))).kind, 'refused')
    assert.equal((await accept(world, executionId)).kind, 'recorded')
    assert.equal((await store.findExecution(executionId))?.execution.status, 'filled')
  })

  test('an operator says why a late fill was accepted or dismissed, and it is on record', async (world) => {
    const { store, acme, executionId } = await afterFirst(world, { delivered: false })
    for (const order of ['o1', 'o2', 'o3']) await report(store, acme, executionId, filled(usd('1'), order))
    const own = (reportId: number, reason: string) => ({ executionId, reportId, reason })
    await store.dismissLateFills(own(1, 'an error of typing'), noted)
    await store.dismissLateFills(own(2, 'not bought'), noted)
    await store.acceptLateFill(own(1, 'bought after all'), acceptLate, noted)
    await accept(world, executionId, 3)
    assert.deepEqual(each((await store.findExecution(executionId))?.lateFills, 'decisionReason'), [
      'bought after all',
      'not bought',
      null,
    ])
  })

  test('of one execution only so many reports are kept, and the others are counted', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    await setUser(store, acme, 'u1', 'disabled')
    for (let i = 0; i < LATE_FILLS_MAX + 3; i++)
      await report(store, acme, executionId, filled(usd('1'), `o${i}`))
    const kept = await store.listLateFills(PAGE)
    assert.deepEqual([kept.length, kept[0]?.unkept], [LATE_FILLS_MAX, 3])
    await store.dismissLateFills({ executionId, reportId: null }, noted)
    assert.equal((await store.listLateFills(PAGE))[0]?.unkept, 0)
  })

  test('a report of more than the ledger holds is counted, and can be dismissed', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    const huge = filled(usd('92233720369'), 'o1')
    for (let i = 0; i < 2; i++) {
      const answer = await report(store, acme, executionId, huge)
      assert.deepEqual([answer.kind, answer.kind === 'refused' && answer.keeping], ['refused', 'counted'])
    }
    assert.deepEqual(await store.listLateFills(PAGE), [])
    const dismiss = () => store.dismissLateFills({ executionId, reportId: null }, noted)
    await dismiss()
    await assert.rejects(dismiss(), problem('late_fill_not_found'))
  })

  test('an adjustment moves its window, is beside the trade, and decides its late fills', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world)
    await assert.rejects(adjustTo(world, executionId, '5'), problem('adjustment_conflict'))
    await report(store, acme, executionId, filled(amount, 'o1'))
    await report(store, acme, executionId, filled(usd('9'), 'o1'))
    const before = await audited(world)
    await adjustTo(world, executionId, '4')
    const spent = async () => {
      const found = await store.findExecution(executionId)
      return [found?.window.spent, found?.window.excess, found?.adjustments.map(({ usd }) => usd)]
    }
    assert.deepEqual(await spent(), [usd('4'), 0n, [usd('-6')]])
    assert.equal((await store.findPlans('p1'))[0]?.schedule?.fireable, usd('56'))
    assert.deepEqual(await lateFills(world), [[usd('9'), true, false]])
    assert.equal(await audited(world), before + 1)
    await adjustTo(world, executionId, '11')
    assert.deepEqual(await spent(), [usd('10'), usd('1'), [usd('-6'), usd('7')]])
    const found = await store.findExecution(executionId)
    assert.deepEqual(found?.trade?.report, filled(amount, 'o1'))
    assert.deepEqual(each(found?.adjustments, 'adjustmentId'), [1, 2])
  })

  test('nothing is recorded before the latest trade or adjustment, of whatever tenant', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    const tenants = [acme, acmeLive, bolt]
    for (const tenant of tenants) await enrol(store, tenant)
    await tick(world, '60000')
    const due: string[] = []
    for (const tenant of tenants) due.push((await poll(store, tenant))[0]?.executionId ?? '')
    const [first = '', second = '', third = ''] = due
    const recordedAt = async (id: string) => (await store.findExecution(id))?.trade?.recordedAt
    world.advance(DAY_MS)
    await report(store, acme, first, filled(usd('10')))
    world.advance(-MINUTE_MS)
    await report(store, acmeLive, second, failed())
    assert.equal(await recordedAt(second), world.now() + MINUTE_MS)
    world.advance(DAY_MS)
    await adjustTo(world, first, '9')
    world.advance(-MINUTE_MS)
    await report(store, bolt, third, filled(usd('10')))
    assert.equal(await recordedAt(third), world.now() + MINUTE_MS)
    await adjustTo(world, third, '9')
    assert.equal((await store.findExecution(third))?.adjustments[0]?.recordedAt, world.now() + MINUTE_MS)
  })
}

// The adjustments of a month, each with the trade that it corrects, and the details of accepted late fills.

const whole = (month: string): FixedPeriod => ({ ...periodOf(month), final: true })
const JANUARY = whole('2026-01')

/** So many users with a plan each, whose first tranche has fired and is delivered. */
export async function delivered(world: World, tenant: Tenant, users: number): Promise<string[]> {
  const { store } = world
  for (let i = 1; i <= users; i++)
    await enrol(store, tenant, { partnerUserId: `u${i}`, partnerPlanId: `p${i}` })
  await tick(world, '60000')
  return idsOf(await poll(store, tenant))
}

/** Two partners with the same adjustments: several in one millisecond, two of one trade, one a minute later. */
export async function adjusted(world: World): Promise<void> {
  for (const tenant of [world.acme, world.bolt]) {
    const ids = await delivered(world, tenant, 4)
    for (const id of ids) await report(world.store, tenant, id, filled(usd('10')))
    for (const id of ids.slice(1, 3)) await adjustTo(world, id, '9')
    await adjustTo(world, ids[1] ?? '', '8')
    world.advance(MINUTE_MS)
    await adjustTo(world, ids[0] ?? '', '8')
  }
}

const linesOf = ({ store }: World, limit: number): Promise<AdjustmentLine[]> =>
  allPages((after) => store.readAdjustmentLines(JANUARY, EVERYBODY, { after, limit }))

export const adjustmentContract: Contract = (test) => {
  test('they are the adjustments of the trade lines, in the same order, in pages of any size', async (world) => {
    const { store } = world
    await adjusted(world)
    const all = await store.readTradeLines(JANUARY, EVERYBODY, PAGE)
    const wanted = all.flatMap(({ entry, number: _, ...line }) =>
      entry.kind === 'adjustment' ? [{ ...line, ...entry }] : [],
    )
    assert.equal(wanted.length, 8)
    for (const limit of [1, 2, 3, 1_000]) {
      const lines = await linesOf(world, limit)
      assert.deepEqual(
        lines.map(({ original: _, ...line }) => ({ kind: 'adjustment', ...line })),
        wanted,
      )
    }
  })

  test('each has the trade as it was confirmed', async (world) => {
    await adjusted(world)
    for (const { executionId, original } of await linesOf(world, 1_000))
      assert.deepEqual(original, (await world.store.findExecution(executionId))?.trade)
  })

  test('they are those of whom is asked for, and of the month', async (world) => {
    const { store, bolt } = world
    await adjusted(world)
    const page = { after: null, limit: 100 }
    const ofBolt = { slug: 'bolt', environment: 'test' } as const
    const theirs = await store.readAdjustmentLines(JANUARY, ofBolt, page)
    assert.equal(theirs.length, 4)
    assert.deepEqual(new Set(theirs.map(({ tenant }) => tenant.tenantId)), new Set([bolt.tenantId]))
    for (const month of ['2025-12', '2026-02'])
      assert.deepEqual(await store.readAdjustmentLines(whole(month), EVERYBODY, page), [])
    const last = theirs.at(-1)?.recordedAt ?? JANUARY.end
    assert.equal((await store.readAdjustmentLines({ ...JANUARY, end: last }, ofBolt, page)).length, 3)
  })

  test('a late fill is recorded in full: when it was received, and beside a trade its fee, price and time', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    await setUser(store, acme, 'u1', 'disabled')
    await report(store, acme, executionId, filled(usd('5'), 'o1'))
    const receivedAt = world.now()
    const more = { ...filled(usd('3'), 'o2'), partnerFee: usd('0.07') }
    await report(store, acme, executionId, more)
    world.advance(DAY_MS)
    for (const reportId of [1, 2]) await accept(world, executionId, reportId)
    const found = await store.findExecution(executionId)
    assert.equal(found?.trade?.receivedAt, receivedAt)
    const fill = { partnerFee: usd('0.07'), executionPrice: more.executionPrice, executedAt: receivedAt }
    assert.deepEqual(found?.adjustments[0]?.fill, fill)
    const { activity, users } = await store.readActivity(acme, JANUARY)
    assert.deepEqual([activity.partnerFees, users[0]?.partnerFees], [usd('0.07'), usd('0.07')])
    const lines = await store.readTenantLines(acme, JANUARY, PAGE)
    assert.deepEqual(
      lines.map(({ entry }) => (entry.kind === 'trade' ? entry.receivedAt : entry.adjustment.fill)),
      [receivedAt, fill],
    )
    const [line] = await store.readAdjustmentLines(JANUARY, EVERYBODY, PAGE)
    assert.deepEqual([line?.adjustment.fill, line?.original.receivedAt], [fill, receivedAt])
    // An adjustment's order id is taken too.
    await enrol(store, acme, { partnerUserId: 'u2', partnerPlanId: 'p2' })
    await tick(world, '60000')
    const [other] = await poll(store, acme)
    const taken = await report(store, acme, other?.executionId ?? '', more)
    assert.ok(taken.kind === 'refused' && problem('order_id_taken')(taken.problem))
  })

  test('the check finds an adjustment that says something else than its report', async ({ another }) => {
    for (const wrong of [
      { partnerFee: usd('0.08') },
      { partnerFee: null },
      { executionPrice: price('1') },
      { executedAt: T0 },
    ]) {
      const world = await another()
      const { store, acme, executionId } = await afterFirst(world)
      await report(store, acme, executionId, filled(usd('5'), 'o1'))
      world.advance(MINUTE_MS)
      await report(store, acme, executionId, { ...filled(usd('3'), 'o2'), partnerFee: usd('0.07') })
      await store.acceptLateFill(
        { executionId, reportId: null },
        (seen, late, now) => {
          const made = acceptLate(seen, late, now)
          assert.ok(made.kind === 'adjusted' && made.adjustment.fill)
          return {
            ...made,
            adjustment: { ...made.adjustment, fill: { ...made.adjustment.fill, ...wrong } },
          }
        },
        noted,
      )
      assert.deepEqual(each(await store.findFaults(), 'kind'), ['adjustment_report'])
    }
  })
}
