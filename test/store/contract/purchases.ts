// Purchases that the ledger did not know: booked once for an order, out of the rest of their time's window.

import assert from 'node:assert/strict'
import { acceptLate } from '../../../src/core/corrections/late-fill.ts'
import {
  acceptUnknown,
  BOOKED_FROM,
  type Booking,
  bookPurchase,
  type Purchase,
  purchaseFill,
} from '../../../src/core/corrections/purchase.ts'
import { type ExecutionId, nextExecutionId, RECORDED } from '../../../src/core/execution.ts'
import { btc, formatUsd, price, usd } from '../../../src/core/money.ts'
import { periodOf } from '../../../src/core/month.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import type { Store } from '../../../src/store/store.ts'
import {
  AUDIT,
  accept,
  afterFirst,
  allExecutions,
  audited,
  type Contract,
  each,
  enrol,
  filled,
  firstTranche,
  noted,
  PLAN,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'
import { vitalsOf } from './monitoring.ts'

type Told = Partial<Omit<Purchase, 'usd'>> & {
  usd?: string
  plan?: string
  key?: string
  isTwin?: boolean
  tenant?: Tenant
  store?: Store
}

/** Books an order of acme's test plan. */
function book(world: World, { usd: dollars = '20.00', plan = 'p1', ...told }: Told = {}): Promise<Booking> {
  const { store = world.store, tenant = world.acme, key = null, isTwin = true, ...said } = told
  const purchase = {
    partnerOrderId: 'lost',
    usd: usd(dollars),
    btc: btc('0.0005'),
    partnerFee: null,
    executedAt: null,
    ...said,
  }
  const fill = purchaseFill(purchase)
  return store.recordPurchase(
    tenant,
    { partnerPlanId: plan, fill },
    {
      decide: (facts, now) => bookPurchase(facts, { ...fill, key, isTwin }, now),
      newExecutionId: (previous, real) => nextExecutionId(previous, real, world.machine.random(10)),
    },
    noted,
  )
}

const UNKNOWN = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d' as ExecutionId
const OTHER = 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8e' as ExecutionId

const windowsOf = async ({ store }: World) =>
  (await store.findPlans('p1')).flatMap(({ windows }) =>
    windows.map(({ start, budget, reserved, spent, excess, released, closed }) => ({
      start: (start - T0) / HOUR_MS,
      amounts: [budget, reserved, spent, excess, released].map((amount) => Number(amount / 1_000_000n) / 100),
      closed: closed?.reason ?? null,
    })),
  )
/** The key of a tranche of the plan's first window, as an order is placed under it. */
const orderOf = (index: number, start = '2026-01-05T00:00:00.000Z') => `test:p1:${start}:${index}`
const indexesOf = async ({ store }: World) =>
  (await allExecutions(store)).map((one) => one.trancheIndex).filter((index) => index < BOOKED_FROM)

const unitsOf = async ({ store }: World) => (await store.findPlans('p1'))[0]?.schedule?.layout?.unitsFired

const sound = async ({ store }: World) => assert.deepEqual(await store.findFaults(), [])

export const purchaseContract: Contract = (test) => {
  test('a purchase with the amounts of another one of that day is booked only by who knows of it', async (world) => {
    const { acme } = await afterFirst(world)
    const made = await book(world, { partnerOrderId: '00546' })
    assert.ok(made.kind === 'booked')
    const again = (more: Told) => book(world, { partnerOrderId: '546', isTwin: false, ...more })
    const named = new RegExp(`^Execution ${made.execution.executionId} .* under order 00546: `)
    const DAY = { executedAt: plus(T0, -DAY_MS) }
    for (const twin of [{}, DAY]) await assert.rejects(again(twin), { code: 'purchase_twin', message: named })
    // Other amounts, another day, another plan.
    await sendPlan(world.store, acme, { ...PLAN, partnerPlanId: 'p2' })
    for (const other of [
      { partnerOrderId: 'a', usd: '20.01' },
      { partnerOrderId: 'b', executedAt: plus(T0, -DAY_MS - 1) },
      { partnerOrderId: 'c', plan: 'p2' },
    ])
      assert.equal((await again(other)).kind, 'booked')
    assert.equal((await again({ isTwin: true })).kind, 'booked')
    assert.equal((await again({})).kind, 'known', 'on record under this order, whatever else there is')
  })

  test('a purchase is like one of that day whatever window that was for', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world)
    world.advance(40 * DAY_MS)
    // Reported without a time, it is dated by its report.
    await report(store, acme, executionId, filled(amount))
    const like = { usd: formatUsd(amount), btc: btc('0.0001'), isTwin: false }
    await assert.rejects(book(world, like), { code: 'purchase_twin' })
    assert.equal((await book(world, { ...like, executedAt: plus(T0, DAY_MS) })).kind, 'booked')
  })

  test('a purchase is booked once for an order, and is a trade of the present month', async (world) => {
    const { store, acme, acmeLive, bolt, executionId } = await afterFirst(world)
    const executedAt = plus(T0, -40 * DAY_MS)
    const told = { executedAt, partnerFee: usd('0.10') }
    const before = await audited(world)
    const made = await book(world, told)
    assert.ok(made.kind === 'booked')
    const found = await store.findExecution(made.execution.executionId)
    assert.deepEqual(
      [found?.execution.status, found?.execution.firing.trigger, found?.execution.amount, found?.trade],
      ['filled', RECORDED, usd('20'), made.trade],
    )
    assert.deepEqual(
      [made.trade.recordedAt, made.trade.report.executedAt, made.trade.report],
      [T0, executedAt, { ...filled(usd('20')), ...made.trade.report, executionPrice: usd('40000') }],
    )
    // Repeated, also with fewer details; and never another purchase under its order.
    for (const again of [told, {}, { executedAt }]) {
      const { kind, execution } = await book(world, again)
      assert.deepEqual([kind, execution.executionId], ['known', made.execution.executionId])
    }
    for (const other of [
      { usd: '21' },
      { btc: btc('0.0006') },
      { partnerFee: usd('0.11') },
      { executedAt: T0 },
    ] as const)
      await assert.rejects(book(world, { ...told, ...other }), problem('order_id_taken'))
    await sendPlan(store, acme, { partnerPlanId: 'p2' })
    await assert.rejects(book(world, { plan: 'p2' }), problem('order_id_taken'))
    await assert.rejects(book(world, { plan: 'none' }), problem('plan_not_found'))
    await assert.rejects(book(world, { tenant: bolt }), problem('plan_not_found'))
    await assert.rejects(book(world, { partnerOrderId: 'ahead', executedAt: plus(T0, 1) }), problem('usage'))
    assert.equal(await audited(world), before + 1)
    // The order is taken, as that of a trade is; one of another environment is another order.
    const refused = await report(store, acme, executionId, filled(usd('10'), 'lost'))
    assert.equal(refused.kind === 'refused' && refused.problem.code, 'order_id_taken')
    await enrol(store, acmeLive)
    assert.equal((await book(world, { tenant: acmeLive })).kind, 'booked')
    const { activity } = await store.readActivity(acme, await store.fixPeriod(periodOf('2026-01'), acme))
    assert.deepEqual(
      [activity.volume, activity.partnerFees, activity.executionsFilled, activity.activeUsers],
      [usd('20'), usd('0.10'), 1, 1],
    )
    // It is never delivered.
    world.advance(DAY_MS)
    assert.ok((await poll(store, acme)).every((one) => one.executionId !== made.execution.executionId))
  })

  test('a purchase is compared with the last price before it', async (world) => {
    await enrol(world.store, world.acme)
    for (const dollars of ['60000', '61000', '62000']) {
      await tick(world, dollars)
      world.advance(HOUR_MS)
    }
    const made = await book(world, { executedAt: plus(T0, HOUR_MS + MINUTE_MS) })
    assert.equal(made.kind === 'booked' && made.doubts.market, price('61000'))
  })

  test('what an operator books is not bought again: it is taken from the window of its time', async (world) => {
    await firstTranche(world)
    await book(world)
    assert.deepEqual(await windowsOf(world), [{ start: 0, amounts: [60, 10, 20, 0, 0], closed: null }])
    const [plan] = await world.store.findPlans('p1')
    assert.equal(plan?.schedule?.fireable, usd('30'))
    // The amount beyond the rest is outside the budget, and is covered first by later refunds.
    await book(world, { partnerOrderId: 'more', usd: '45.005' })
    assert.deepEqual(await windowsOf(world), [{ start: 0, amounts: [60, 10, 50, 15, 0], closed: null }])
    await setUser(world.store, world.acme, 'u1', 'disabled')
    assert.deepEqual(await windowsOf(world), [{ start: 0, amounts: [60, 0, 60, 5, 0], closed: null }])
  })

  test('a tranche whose purchase is booked under its key is not delivered again', async (world) => {
    const { store, acme } = await afterFirst(world)
    const [before] = await store.findPlans('p1')
    const made = await book(world, { partnerOrderId: orderOf(1), usd: '10' })
    assert.ok(made.kind === 'booked')
    assert.equal(made.schedule?.trancheIndex, 2)
    const [after] = await store.findPlans('p1')
    const fired = [before, after].map((one) => one?.schedule?.layout?.unitsFired)
    assert.deepEqual(fired, [1, 2], 'it was a unit of its slot')
    assert.equal(after?.schedule?.fireable, usd('40'))
    // Both units of the slot are pending, so the next one comes with the next slot, and spends its usual amount.
    assert.equal((await tick(world, '1')).executionsCreated, 0)
    world.setClock(plus(T0, 8 * HOUR_MS))
    await tick(world, '60000')
    assert.deepEqual(await indexesOf(world), [0, 2])
    assert.deepEqual(await windowsOf(world), [{ start: 0, amounts: [60, 20, 10, 0, 0], closed: null }])
    assert.ok((await poll(store, acme)).some((one) => one.trancheIndex === 2 && one.amount === usd('10')))
  })

  test('a schedule is moved only past the tranche that comes next, and past what was booked after it', async (world) => {
    const { executionId } = await firstTranche(world)
    const moved = async (told: Told) => {
      const made = await book(world, { usd: '5', ...told })
      return made.kind === 'booked' && made.schedule ? made.schedule.trancheIndex : null
    }
    // The key of a skipped tranche would never be issued again, and it may have a purchase too.
    assert.equal(await moved({ partnerOrderId: orderOf(3) }), null)
    assert.equal(await moved({ partnerOrderId: orderOf(2) }), null)
    // A key of the past, of another window, of another plan, and one that a window of another time has.
    assert.equal(await moved({ partnerOrderId: orderOf(0) }), null)
    assert.equal(await moved({ partnerOrderId: orderOf(1, '2026-01-04T00:00:00.000Z') }), null)
    assert.equal(await moved({ partnerOrderId: orderOf(1).replace('p1', 'p2') }), null)
    assert.equal(await moved({ partnerOrderId: 'a', key: orderOf(1), executedAt: plus(T0, -DAY_MS) }), null)
    await assert.rejects(book(world, { partnerOrderId: 'b', key: 'p1:1' }), problem('usage'))
    assert.equal(await unitsOf(world), 1)
    // The ledger has an execution of that key, which the partner cannot confirm with this order any more.
    const open = await book(world, { partnerOrderId: 'd', key: orderOf(0), usd: '1' })
    assert.equal(open.kind === 'booked' && open.stillOpen, executionId)
    // An order id of the venue's own, and the key beside it.
    const made = await book(world, { partnerOrderId: 'c', key: orderOf(1).replace('test:', ''), usd: '5' })
    assert.ok(made.kind === 'booked')
    assert.deepEqual([made.schedule?.trancheIndex, made.stillOpen], [4, null])
    assert.equal(await unitsOf(world), 4)
    world.setClock(plus(T0, 23 * HOUR_MS + 50 * MINUTE_MS))
    await tick(world, '60000')
    assert.deepEqual(await indexesOf(world), [0, 4])
  })

  test('a purchase in a window that the ledger lost is taken off the cell that a pass opens next', async (world) => {
    await firstTranche(world)
    world.setClock(plus(T0, 50 * HOUR_MS))
    await book(world, { executedAt: plus(T0, 49 * HOUR_MS) })
    await book(world, { executedAt: plus(T0, 30 * HOUR_MS), partnerOrderId: 'the day before', usd: '70' })
    await book(world, { executedAt: plus(T0, 48 * HOUR_MS), partnerOrderId: 'as well', usd: '5' })
    const lost = [
      { start: 24, amounts: [60, 0, 60, 10, 0], closed: 'reset' },
      { start: 48, amounts: [60, 0, 25, 0, 35], closed: 'reset' },
    ]
    const [first, ...others] = await windowsOf(world)
    assert.deepEqual([first?.amounts, others], [[60, 10, 0, 0, 0], lost])
    await tick(world, '60000')
    const after = await windowsOf(world)
    assert.deepEqual(after.slice(1, 3), lost)
    const { amounts, closed, start } = after[3] ?? assert.fail('no window was opened')
    assert.deepEqual([amounts[0], closed, Math.floor(start)], [35, null, 48])
    await sound(world)
    // Every idempotency key is different.
    const keys = (await allExecutions(world.store)).map((one) => `${one.windowStart} ${one.trancheIndex}`)
    assert.equal(new Set(keys).size, keys.length)
  })

  test('plans that are over, held or of a disabled user have their purchases booked as well', async (world) => {
    const { store, acme } = world
    await enrol(store, acme, { ...PLAN, status: 'cancelled' })
    await book(world, { executedAt: plus(T0, -3 * DAY_MS) })
    assert.deepEqual(await windowsOf(world), [{ start: -72, amounts: [60, 0, 20, 0, 40], closed: 'reset' }])
    await sendPlan(store, acme, { partnerPlanId: 'p2' })
    await tick(world, '60000')
    await store.changePartner('acme', (seen) => ({ ...seen, held: true }), AUDIT)
    await setUser(store, acme, 'u1', 'disabled')
    await book(world, { plan: 'p2', partnerOrderId: 'o2' })
  })

  test('a purchase whose report waits for a decision is not booked beside it', async (world) => {
    const { store, acme, executionId } = await afterFirst(world)
    await report(store, acme, executionId, filled(usd('11'), 'lost'))
    await assert.rejects(book(world, { usd: '11' }), problem('late_fill_conflict'))
    await store.dismissLateFills({ executionId, reportId: null }, noted)
    assert.equal((await book(world, { usd: '11' })).kind, 'booked')
  })

  test('of two who book one order at the same moment, one does', async (world) => {
    await firstTranche(world)
    const other = await world.connect()
    const made = await Promise.all([book(world), book(world, { store: other }), book(world)])
    assert.deepEqual(made.map(({ kind }) => kind).sort(), ['booked', 'known', 'known'])
    const rivals = await Promise.allSettled([
      book(world, { partnerOrderId: 'o2', usd: '1' }),
      book(world, { partnerOrderId: 'o2', usd: '2', store: other }),
    ])
    assert.deepEqual(rivals.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
    assert.equal((await world.store.findByOrder({ slug: null, environment: null }, 'o2')).length, 1)
  })

  test('a report of an execution that is not known is kept, and booked under its id by an operator', async (world) => {
    const { store, acme, bolt, executionId } = await afterFirst(world)
    const said = { ...filled(usd('12'), 'gone'), executedAt: plus(T0, -1) }
    for (const again of [said, said, { ...said, usdAmount: usd('13') }])
      await store.keepUnknownFill(acme, UNKNOWN, again)
    // A report about somebody else's execution is not stored, nor is one of a recorded purchase.
    await store.keepUnknownFill(bolt, executionId, said)
    await report(store, acme, executionId, filled(usd('10'), 'known'))
    await store.keepUnknownFill(acme, OTHER, filled(usd('10'), 'known'))
    const kept = await store.listLateFills({ after: null, limit: 10 })
    assert.deepEqual(
      kept.map((late) => [late.executionId, late.tenant, late.execution, late.report.usdAmount, late.reason]),
      ['12', '13'].map((dollars) => [UNKNOWN, acme, null, usd(dollars), 'execution_not_found']),
    )
    assert.deepEqual(await store.findUnknown(UNKNOWN), [acme])
    assert.deepEqual(await store.findUnknown(executionId), [])
    assert.equal((await store.findUnknownFills(acme, 'gone')).length, 2)
    assert.deepEqual(await store.findUnknownFills(bolt, 'gone'), [])
    await sound(world)
    await assert.rejects(book(world, { partnerOrderId: 'gone', usd: '12' }), problem('late_fill_conflict'))
    const accept = (partnerPlanId: string, reportId: number | null) => {
      const ids = { executionId: UNKNOWN, reportId, partnerPlanId }
      return store.acceptUnknownFill(acme, ids, acceptUnknown, noted)
    }
    await assert.rejects(accept('p1', null), problem('late_fill_conflict'))
    await assert.rejects(accept('none', kept[0]?.reportId ?? 0), problem('plan_not_found'))
    const made = await accept('p1', kept[0]?.reportId ?? 0)
    assert.deepEqual(
      [made.trade.report, made.trade.recordedAt, made.trade.receivedAt, made.execution.executionId],
      [said, T0, T0, UNKNOWN],
    )
    // From now on it is an execution like any other: replayed, and its other report is decided beside it.
    assert.equal((await report(store, acme, UNKNOWN, said)).kind, 'replayed')
    await assert.rejects(accept('p1', kept[1]?.reportId ?? 0), problem('late_fill_conflict'))
    await store.acceptLateFill({ executionId: UNKNOWN, reportId: kept[1]?.reportId ?? 0 }, acceptLate, noted)
    assert.equal((await store.findExecution(UNKNOWN))?.adjustments[0]?.usd, usd('1'))
  })

  test('a report of an execution that is not known can be dismissed, and never be booked twice', async (world) => {
    const { store, acme } = await afterFirst(world)
    await store.keepUnknownFill(acme, UNKNOWN, filled(usd('12'), 'gone'))
    await store.keepUnknownFill(acme, OTHER, filled(usd('12'), 'gone'))
    const dismiss = (executionId: string) => store.dismissLateFills({ executionId, reportId: null }, noted)
    const [first] = await dismiss(UNKNOWN)
    await assert.rejects(dismiss(UNKNOWN), problem('late_fill_not_found'))
    await dismiss(OTHER)
    assert.equal((await book(world, { partnerOrderId: 'gone', usd: '12' })).kind, 'booked')
    const ids = { executionId: UNKNOWN, reportId: first?.reportId ?? 0, partnerPlanId: 'p1' }
    await assert.rejects(store.acceptUnknownFill(acme, ids, acceptUnknown, noted), problem('order_id_taken'))
  })

  test('what cannot be kept of unknown executions is counted, until an operator has looked', async (world) => {
    const { store, acme } = world
    // More dollars than the ledger's integers hold.
    await store.keepUnknownFill(acme, UNKNOWN, filled((2n ** 63n) as ReturnType<typeof usd>, 'vast'))
    await store.keepUnknownFill(acme, UNKNOWN, filled(usd('12'), 'gone'))
    const [late] = await store.listLateFills({ after: null, limit: 10 })
    assert.deepEqual([late?.report.partnerOrderId, late?.unkept], ['gone', 1])
    await store.dismissLateFills({ executionId: UNKNOWN, reportId: null }, noted)
    const [decided] = await store.listLateFills({ after: null, limit: 10 })
    assert.deepEqual([decided?.decidedAt, decided?.unkept], [T0, 0])
  })

  test('a report of an unknown execution that another tenant has reported is counted, not dropped', async (world) => {
    const { store, acme, acmeLive } = world
    const said = filled(usd('12'), 'gone')
    // With the key of the wrong environment first, then with the right one.
    for (const tenant of [acme, acmeLive]) await store.keepUnknownFill(tenant, UNKNOWN, said)
    await store.dismissLateFills({ executionId: UNKNOWN, reportId: null }, noted)
    await store.keepUnknownFill(acmeLive, UNKNOWN, said)
    assert.deepEqual(each(await store.listLateFills({ after: null, limit: 10 }), 'tenant'), [acme])
    assert.equal(await store.dismissUnkept(acmeLive, noted), 2)
    await assert.rejects(store.dismissUnkept(acme, noted), problem('late_fill_not_found'))
  })

  test('an operator ends the count of what could not be kept of unknown executions, and no other', async (world) => {
    const { store, acme, acmeLive, bolt, executionId } = await afterFirst(world)
    const vast = filled((2n ** 63n) as ReturnType<typeof usd>, 'vast')
    await report(store, acme, executionId, vast)
    for (const tenant of [acme, acme, bolt]) await store.keepUnknownFill(tenant, UNKNOWN, vast)
    const counted = async () =>
      (await store.findWarnings('test'))
        .filter(({ kind }) => kind === 'late_fills')
        .map(({ tenant, message }) => `${tenant?.partnerSlug} ${Number.parseInt(message, 10)}`)
        .sort()
    assert.deepEqual(await counted(), ['acme 3', 'bolt 1'])
    const before = await audited(world)
    const dismissed: number[] = []
    const dismiss = (tenant: Tenant) =>
      store.dismissUnkept(tenant, (count) => {
        dismissed.push(count)
        return AUDIT
      })
    await assert.rejects(dismiss(acmeLive), problem('late_fill_not_found'))
    assert.equal(await dismiss(acme), 2)
    assert.deepEqual([dismissed, await audited(world)], [[2], before + 1])
    assert.deepEqual(await counted(), ['acme 1', 'bolt 1'])
    await assert.rejects(dismiss(acme), problem('late_fill_not_found'))
    assert.equal(await audited(world), before + 1)
  })

  test('only what a partner sends and is taken is a sign of its life, not what an operator makes of it', async (world) => {
    const { store, acmeLive: tenant } = world
    const confirmedAt = async () => (await vitalsOf(world, tenant))?.confirmedAt
    await enrol(store, tenant)
    await tick(world, '60000')
    await book(world, { tenant })
    assert.equal(await confirmedAt(), null)
    const [first] = await poll(store, tenant)
    const { executionId } = first ?? assert.fail('nothing was delivered')
    assert.equal((await report(store, tenant, executionId, filled(usd('90'), 'above'))).kind, 'refused')
    await accept(world, executionId)
    assert.equal(await confirmedAt(), null)
    // A refused report that is accepted when the partner resends it counts as the partner's own.
    world.advance(DAY_MS)
    await tick(world, '60000')
    const [early] = (await allExecutions(store)).filter(({ status }) => status === 'pending')
    const again = async () => report(store, tenant, early?.executionId ?? '', filled(usd('10'), 'early'))
    assert.equal((await again()).kind, 'refused')
    world.advance(HOUR_MS)
    await poll(store, tenant)
    assert.equal((await again()).kind, 'recorded')
    assert.equal(await confirmedAt(), plus(T0, DAY_MS + HOUR_MS))
    world.advance(HOUR_MS)
    await report(store, tenant, early?.executionId ?? '', filled(usd('5'), 'further'))
    await accept(world, early?.executionId ?? '')
    for (const partnerOrderId of ['o2', 'o3']) await book(world, { tenant, partnerOrderId })
    await store.keepUnknownFill(tenant, UNKNOWN, filled(usd('12'), 'gone'))
    const ids = { executionId: UNKNOWN, reportId: null, partnerPlanId: 'p1' }
    await store.acceptUnknownFill(tenant, ids, acceptUnknown, noted)
    assert.equal(await confirmedAt(), plus(T0, DAY_MS + HOUR_MS))
  })

  test('amounts that no purchase can have are not booked', async (world) => {
    await firstTranche(world)
    for (const wrong of [
      { usd: '0' },
      { btc: btc('0') },
      { usd: '1000000001' },
      { btc: btc('21000001') },
      { usd: '1000', btc: btc('0.00000001') },
    ])
      assert.throws(() => book(world, wrong), problem('adjustment_conflict'))
    const least = { usd: '0.00000001', btc: btc('0.00000001'), executedAt: T0 }
    assert.equal((await book(world, least)).kind, 'booked')
  })
}
