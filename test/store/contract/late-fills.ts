// Stored reports that were refused, and adjustments: an operator's decision counts once, and each is on its trade.

import assert from 'node:assert/strict'
import { LATE_FILLS_MAX } from '../../../src/core/confirmation.ts'
import { acceptLate } from '../../../src/core/corrections/late-fill.ts'
import { btc, price, type Usd, usd } from '../../../src/core/money.ts'
import { type FixedPeriod, periodOf } from '../../../src/core/month.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/time.ts'
import type { AdjustmentLine } from '../../../src/store/store.ts'
import {
  accept,
  adjustTo,
  audited,
  type Contract,
  each,
  enrol,
  failed,
  filled,
  firstTranche,
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

const lateFills = async ({ store }: World) =>
  (await store.listLateFills(PAGE)).map((late) => [
    late.report.usdAmount,
    late.decidedAt !== null,
    late.acceptedAt !== null,
  ])

/** An execution that was cancelled while it was open, and three reports on it: two of one order. */
async function withLateFills(world: World): Promise<{ executionId: string; reportIds: number[] }> {
  const { store, acme } = world
  const { executionId } = await firstTranche(world)
  await setUser(store, acme, 'u1', 'disabled')
  for (const [amount, order] of [
    ['9', 'o1'],
    ['8', 'o1'],
    ['7', 'o2'],
  ] as const) {
    await report(store, acme, executionId, filled(usd(amount), order))
  }
  const reportIds = (await store.listLateFills(PAGE)).map(({ reportId }) => reportId)
  return { executionId, reportIds }
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
    const numbers = (await store.listLateFills(PAGE)).map(({ reportId }) => reportId)
    assert.deepEqual(
      made.waiting,
      [1, 2, 4, 5, 6].map((i) => numbers[i]),
    )
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
    assert.deepEqual(
      (await lateFills(world)).map(([, decided]) => decided),
      [false, true, false],
    )
    assert.equal((await dismiss(null)).length, 2)
    await assert.rejects(dismiss(null), problem('late_fill_not_found'))
    assert.equal(await audited(world), before + 2)
    assert.deepEqual(
      await lateFills(world),
      ['9', '8', '7'].map((amount) => [usd(amount), true, false]),
    )
  })

  test('a report on a pending execution is kept, settled when the same one is recorded, and by no other', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world, { delivered: false })
    const said = filled(usd('9'), 'o1')
    const other = filled(usd('8'), 'o2')
    for (const one of [said, said, other, filled(usd('7'), 'o1')])
      assert.equal((await report(store, acme, executionId, one)).kind, 'refused')
    const decided = async () =>
      (await store.listLateFills({ after: null, limit: 10 })).map((late) => [
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
    const { store, acme } = world
    const { executionId, amount } = await firstTranche(world, { delivered: false })
    await assert.rejects(accept(world, executionId), problem('late_fill_not_found'))
    await report(store, acme, executionId, filled(amount, 'o1'))
    const made = await accept(world, executionId)
    assert.ok(made.kind === 'recorded')
    const { window } = (await store.findExecution(executionId)) ?? {}
    assert.deepEqual([window?.reserved, window?.spent, window?.excess], [0n, amount, 0n])
    assert.deepEqual(await poll(store, acme), [])
    world.advance(HOUR_MS)
    assert.deepEqual(await poll(store, acme), [])
    const found = await store.findExecution(executionId)
    assert.deepEqual([found?.execution.status, found?.execution.deliveredCount], ['filled', 0])
  })

  test('a report on an execution that was cancelled before it was delivered is kept, and can be accepted', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world, { delivered: false })
    await sendPlan(store, acme, { status: 'cancelled' })
    assert.equal((await report(store, acme, executionId, filled(usd('10')))).kind, 'refused')
    assert.equal((await accept(world, executionId)).kind, 'recorded')
    assert.equal((await store.findExecution(executionId))?.execution.status, 'filled')
  })

  test('an operator says why a late fill was accepted or dismissed, and it is on record', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world, { delivered: false })
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
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    await setUser(store, acme, 'u1', 'disabled')
    for (let i = 0; i < LATE_FILLS_MAX + 3; i++) {
      await report(store, acme, executionId, filled(usd('1'), `o${i}`))
    }
    const kept = await store.listLateFills(PAGE)
    assert.deepEqual([kept.length, kept[0]?.unkept], [LATE_FILLS_MAX, 3])
    await store.dismissLateFills({ executionId, reportId: null }, noted)
    assert.equal((await store.listLateFills(PAGE))[0]?.unkept, 0)
  })

  test('a report of more than the ledger holds is counted, and can be dismissed', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    const huge = filled(usd('92233720369'), 'o1')
    for (let i = 0; i < 2; i++) {
      const answer = await report(store, acme, executionId, huge)
      assert.deepEqual([answer.kind, answer.kind === 'refused' && answer.keeping], ['refused', 'counted'])
    }
    assert.deepEqual(await store.listLateFills(PAGE), [])
    await store.dismissLateFills({ executionId, reportId: null }, noted)
    await assert.rejects(
      store.dismissLateFills({ executionId, reportId: null }, noted),
      problem('late_fill_not_found'),
    )
  })

  test('an adjustment moves its window, is beside the trade, and decides its late fills', async (world) => {
    const { store, acme } = world
    const { executionId, amount } = await firstTranche(world)
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
    await report(store, acme, first, filled(usd('10') as Usd))
    world.advance(-MINUTE_MS)
    await report(store, acmeLive, second, failed())
    assert.equal(await recordedAt(second), world.now() + MINUTE_MS)
    world.advance(DAY_MS)
    await adjustTo(world, first, '9')
    world.advance(-MINUTE_MS)
    await report(store, bolt, third, filled(usd('10') as Usd))
    assert.equal(await recordedAt(third), world.now() + MINUTE_MS)
    await adjustTo(world, third, '9')
    assert.equal((await store.findExecution(third))?.adjustments[0]?.recordedAt, world.now() + MINUTE_MS)
  })
}

// The adjustments of a month, each with the trade that it corrects, and the details of accepted late fills.

const whole = (month: string): FixedPeriod => ({ ...periodOf(month), final: true })
const JANUARY = whole('2026-01')
const EVERYBODY = { slug: null, environment: null }
const USERS = 4
const LINES_MAX = 100

/** Two partners with the same adjustments: several in one millisecond, two of one trade, one a minute later. */
async function adjusted(world: World): Promise<void> {
  const { store, acme, bolt } = world
  for (const tenant of [acme, bolt]) {
    for (let i = 1; i <= USERS; i++) {
      await enrol(store, tenant, { partnerUserId: `u${i}`, partnerPlanId: `p${i}` })
    }
    await tick(world, '60000')
    const ids = (await poll(store, tenant)).map(({ executionId }) => executionId)
    for (const id of ids) await report(store, tenant, id, filled(usd('10')))
    for (const id of ids.slice(1, 3)) await adjustTo(world, id, '9')
    await adjustTo(world, ids[1] ?? '', '8')
    world.advance(MINUTE_MS)
    await adjustTo(world, ids[0] ?? '', '8')
  }
}

async function linesOf({ store }: World, limit: number): Promise<AdjustmentLine[]> {
  const lines: AdjustmentLine[] = []
  for (;;) {
    const after = lines.at(-1) ?? null
    const page = await store.readAdjustmentLines(JANUARY, EVERYBODY, { after, limit })
    lines.push(...page)
    if (page.length < limit) return lines
    assert.ok(lines.length <= LINES_MAX, 'the pages do not end')
  }
}

export const adjustmentContract: Contract = (test) => {
  test('they are the adjustments of the trade lines, in the same order, in pages of any size', async (world) => {
    const { store } = world
    await adjusted(world)
    const all = await store.readTradeLines(JANUARY, EVERYBODY, { after: null, limit: 1_000 })
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
    const before = await store.readAdjustmentLines({ ...JANUARY, end: last }, ofBolt, page)
    assert.equal(before.length, 3)
  })

  test('a late fill is recorded in full: when it was received, and beside a trade its fee, price and time', async (world) => {
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
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
    const page = { after: null, limit: 10 }
    const lines = await store.readTenantLines(acme, JANUARY, page)
    assert.deepEqual(
      lines.map(({ entry }) => (entry.kind === 'trade' ? entry.receivedAt : entry.adjustment.fill)),
      [receivedAt, fill],
    )
    const [line] = await store.readAdjustmentLines(JANUARY, EVERYBODY, page)
    assert.deepEqual([line?.adjustment.fill, line?.original.receivedAt], [fill, receivedAt])
    // Its order is taken like that of a trade.
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
      const { store, acme } = world
      const { executionId } = await firstTranche(world)
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
