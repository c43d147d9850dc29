// Billing months: half-open, closed for good with all before them, and the same to the line as in sum.

import assert from 'node:assert/strict'
import type { NoFill, Report } from '../../../src/core/confirmation.ts'
import { isUsable } from '../../../src/core/key.ts'
import { btc, usd } from '../../../src/core/money.ts'
import { type FixedPeriod, type Period, periodOf } from '../../../src/core/month.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { HOUR_MS, type Instant, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { advanceSandbox } from '../../../src/engine/sandbox.ts'
import type { TenantFilter, TradeLine } from '../../../src/store/store.ts'
import {
  AUDIT,
  adjustTo,
  allExecutions,
  type Contract,
  each,
  enrol,
  failed,
  filled,
  keyFor,
  link,
  poll,
  report,
  sendPlan,
  setUser,
  tick,
  type World,
} from '../world.ts'

const JANUARY = periodOf('2026-01')
const FEBRUARY = periodOf('2026-02')
const EVERYBODY = { slug: null, environment: null }
const whole = (period: typeof JANUARY): FixedPeriod => ({ ...period, final: true })

/** So many users with a plan each, whose first tranche has fired and is delivered. */
async function delivered({ store, ...world }: World, tenant: Tenant, users: number): Promise<string[]> {
  for (let i = 1; i <= users; i++) {
    await enrol(store, tenant, { partnerUserId: `u${i}`, partnerPlanId: `p${i}` })
  }
  await tick({ store, ...world }, '60000')
  return (await poll(store, tenant)).map(({ executionId }) => executionId)
}

/** All trade lines of January, read in pages of `limit`. */
async function linesOf({ store }: World, limit: number): Promise<TradeLine[]> {
  const lines: TradeLine[] = []
  for (;;) {
    const page = await store.readTradeLines(JANUARY_WHOLE, EVERYBODY, { after: lines.at(-1) ?? null, limit })
    lines.push(...page)
    if (page.length < limit) return lines
    assert.ok(lines.length <= LINES_MAX, 'the pages do not end')
  }
}
const JANUARY_WHOLE = whole(JANUARY)
const LINES_MAX = 100

export const monthContract: Contract = (test) => {
  test('a month has its first millisecond and not that of the next', async (world) => {
    const { store, acme } = world
    const instants = [plus(JANUARY.end, -1), JANUARY.end, plus(FEBRUARY.end, -1), FEBRUARY.end]
    for (const [i, at] of instants.entries()) {
      world.setClock(at)
      await link(store, acme, `u${i}`)
      const plan = { partnerUserId: `u${i}`, partnerPlanId: `p${i}` }
      await sendPlan(store, acme, plan)
      await tick(world, '60000')
      const [mine] = (await poll(store, acme)).filter(({ partnerPlanId }) => partnerPlanId === `p${i}`)
      await report(store, acme, mine?.executionId ?? '', filled(usd(`${i + 1}`)))
      await sendPlan(store, acme, { ...plan, status: 'paused' })
    }
    for (const [period, fills] of [
      [JANUARY, [0]],
      [FEBRUARY, [1, 2]],
    ] as const) {
      const { activity, users } = await store.readActivity(acme, whole(period))
      const volume = usd(`${fills.reduce<number>((sum, i) => sum + i + 1, 0)}`)
      assert.deepEqual([activity.executionsFilled, activity.volume], [fills.length, volume])
      assert.deepEqual([activity.activeUsers, activity.activePlans], [fills.length, fills.length])
      assert.deepEqual(
        each(users, 'partnerUserId'),
        fills.map((i) => `u${i}`),
      )
      const lines = await store.readTradeLines(whole(period), EVERYBODY, { after: null, limit: 10 })
      assert.deepEqual(
        each(lines, 'recordedAt'),
        fills.map((i) => instants[i]),
      )
      assert.equal(await store.countTradeLines(whole(period), EVERYBODY), fills.length)
    }
  })

  test('a month counts every outcome, of its own tenant', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    const ids = await delivered(world, acme, 6)
    const calledOff: Report = { ...(failed() as NoFill), status: 'cancelled' }
    const said = [filled(usd('10')), filled(usd('4'), 'o2', 'partial'), failed(), calledOff]
    for (const [i, one] of said.entries()) await report(store, acme, ids[i] ?? '', one)
    await setUser(store, acme, 'u5', 'disabled')
    for (const stranger of [acmeLive, bolt]) {
      const [theirs = ''] = await delivered(world, stranger, 2)
      await report(store, stranger, theirs, filled(usd('9')))
      await setUser(store, stranger, 'u2', 'disabled')
    }
    const { activity, users } = await store.readActivity(acme, JANUARY_WHOLE)
    assert.deepEqual(activity, {
      activeUsers: 2,
      activePlans: 2,
      executionsCreated: 6,
      executionsFilled: 1,
      executionsPartial: 1,
      executionsFailed: 1,
      executionsCancelled: 2,
      volume: usd('14'),
      btc: btc('0.0002'),
      partnerFees: 0n,
    })
    assert.deepEqual(each(users, 'partnerUserId', 'trades', 'volume'), [
      ['u1', 1, usd('10')],
      ['u2', 1, usd('4')],
    ])
    const outside = await store.readActivity(acme, whole(FEBRUARY))
    assert.deepEqual([outside.users, outside.activity.executionsCancelled], [[], 0])
  })

  test('an adjustment counts in the month it was made in, and makes nobody active', async (world) => {
    const { store, acme } = world
    const [id = '', other = ''] = await delivered(world, acme, 2)
    for (const one of [id, other]) await report(store, acme, one, filled(usd('10')))
    world.setClock(plus(FEBRUARY.start, HOUR_MS))
    await adjustTo(world, id, '7')
    assert.equal((await store.readActivity(acme, JANUARY_WHOLE)).activity.volume, usd('20'))
    const { activity, users } = await store.readActivity(acme, whole(FEBRUARY))
    assert.deepEqual([activity.volume, activity.activeUsers, activity.executionsFilled], [usd('-3'), 0, 0])
    assert.deepEqual(each(users, 'partnerUserId', 'trades', 'volume'), [['u1', 0, usd('-3')]])
  })

  test('pages of trade lines neither repeat nor skip, whatever shares a millisecond', async (world) => {
    const { store, acme, bolt } = world
    for (const tenant of [acme, bolt]) {
      const ids = await delivered(world, tenant, 4)
      for (const id of ids) await report(store, tenant, id, filled(usd('10')))
      for (const id of ids.slice(1, 3)) await adjustTo(world, id, '9')
      await adjustTo(world, ids[1] ?? '', '8')
      world.advance(MINUTE_MS)
      await adjustTo(world, ids[0] ?? '', '8')
    }
    const all = await linesOf(world, 1_000)
    assert.equal(all.length, 16)
    assert.equal(await store.countTradeLines(JANUARY_WHOLE, EVERYBODY), all.length)
    const keys = all.map(({ recordedAt, executionId, entry }) =>
      [recordedAt, executionId, entry.kind === 'trade' ? 0 : entry.adjustment.adjustmentId].join(),
    )
    assert.deepEqual(keys, [...keys].sort(), 'by instant, execution, and the trade before its adjustments')
    assert.equal(new Set(keys).size, keys.length)
    for (const limit of [1, 2, 3, 5]) assert.deepEqual(await linesOf(world, limit), all)
    const mine = await store.readTradeLines(
      JANUARY_WHOLE,
      { slug: 'bolt', environment: 'test' },
      {
        after: null,
        limit: 100,
      },
    )
    assert.deepEqual(
      mine,
      all.filter(({ tenant }) => tenant.tenantId === bolt.tenantId),
    )
  })

  test('a month that was reported as final gains nothing, whatever the clock does', async (world) => {
    const { store, acme } = world
    const [first = '', second = ''] = await delivered(world, acme, 2)
    await report(store, acme, first, filled(usd('10')))
    world.setClock(plus(JANUARY.end, MINUTE_MS))
    await tick(world, '60000')
    assert.deepEqual(await store.fixPeriod(JANUARY), JANUARY_WHOLE)
    const billed = await store.readActivity(acme, JANUARY_WHOLE)
    world.setClock(plus(JANUARY.end, -HOUR_MS))
    await report(store, acme, second, filled(usd('10')))
    await adjustTo(world, first, '9')
    await setUser(store, acme, 'u1', 'disabled')
    assert.deepEqual(await store.readActivity(acme, JANUARY_WHOLE), billed)
    assert.deepEqual(await store.fixPeriod(JANUARY), JANUARY_WHOLE, 'final for good')
    const february = await store.readActivity(acme, whole(FEBRUARY))
    assert.deepEqual([february.activity.executionsFilled, february.activity.volume], [1, usd('9')])
  })

  test('the clock alone makes no month final', async (world) => {
    const { store } = world
    world.setClock(plus(JANUARY.end, -1))
    await tick(world, '60000')
    world.setClock(JANUARY.end)
    assert.deepEqual(await store.fixPeriod(JANUARY), { ...JANUARY, final: false })
    assert.equal((await store.fixPeriod(FEBRUARY)).end, JANUARY.end)
    await tick(world, '60000')
    assert.equal((await store.fixPeriod(JANUARY)).final, true)
  })

  test('what a report of the present month covers gains nothing either', async (world) => {
    const { store, acme } = world
    const [first = '', second = ''] = await delivered(world, acme, 2)
    await report(store, acme, first, filled(usd('10')))
    const period = await store.fixPeriod(JANUARY)
    assert.deepEqual([period.final, period.end], [false, plus(world.now(), 1)])
    await report(store, acme, second, filled(usd('10')))
    assert.equal((await store.readActivity(acme, period)).activity.executionsFilled, 1)
    assert.equal(await store.countTradeLines(period, EVERYBODY), 1)
  })

  test('a sandbox closes its months for itself alone', async (world) => {
    const { store, machine, acme, acmeLive } = world
    const [mine = ''] = await delivered(world, acme, 1)
    const [live = ''] = await delivered(world, acmeLive, 1)
    const options = { store, machine, tenant: acme, price: null, audit: AUDIT, onProgress: () => {} }
    await advanceSandbox({ ...options, byMs: JANUARY.end - world.now() + HOUR_MS })
    assert.equal((await store.fixPeriod(JANUARY, acme)).final, true)
    assert.equal((await store.fixPeriod(JANUARY)).final, false)
    assert.equal((await store.fixPeriod(JANUARY, acmeLive)).final, false)
    await report(store, acme, mine, filled(usd('10')))
    await report(store, acmeLive, live, filled(usd('10')))
    const recordedAt = async (id: string): Promise<Instant | undefined> =>
      (await store.findExecution(id))?.trade?.recordedAt
    assert.equal(await recordedAt(live), world.now(), 'live business is where it was')
    assert.equal(await recordedAt(mine), plus(JANUARY.end, HOUR_MS))
    assert.equal((await allExecutions(store)).length > 2, true)
  })

  test('a partner is part of the months since it was there', async ({ store, setClock }) => {
    setClock(JANUARY.end)
    await store.addPartner({ partnerSlug: 'late', name: 'late' }, AUDIT)
    const named = async (filter: TenantFilter, before: Instant | null) =>
      (await store.listTenants(filter, before)).map((one) => `${one.partnerSlug} ${one.environment}`)
    const first = ['acme live', 'acme test', 'bolt live', 'bolt test']
    assert.deepEqual(await named(EVERYBODY, JANUARY.end), first)
    assert.deepEqual(await named(EVERYBODY, plus(JANUARY.end, 1)), [...first, 'late live', 'late test'])
    assert.deepEqual(await named({ slug: 'late', environment: 'live' }, null), ['late live'])
  })

  test('a key is judged by no time before what was reported, wherever the clock is', async (world) => {
    const { store, acme, now } = world
    const key = keyFor(acme, { lifetimeMs: JANUARY.end - now() })
    await store.addKey(key, AUDIT)
    world.setClock(JANUARY.end)
    await tick(world, '60000')
    assert.equal((await store.fixPeriod(JANUARY)).final, true)
    world.setClock(plus(JANUARY.start, HOUR_MS))
    const seen = await store.findKey(key.sha256)
    assert.deepEqual([seen?.now, seen && isUsable(seen.key, seen.now)], [JANUARY.end, false])
  })
}

// Months that are final because a later one is: they are not closed separately, and nothing is added to them.

const final = (period: Period): FixedPeriod => ({ ...period, final: true })

/** An execution that waits to be confirmed. */
async function deliveredOne(world: World): Promise<string> {
  const { store, acmeLive } = world
  await enrol(store, acmeLive)
  await tick(world, '60000')
  return (await poll(store, acmeLive))[0]?.executionId ?? ''
}

export const earlierMonthContract: Contract = (test) => {
  test('a month before one that was reported as final is final as well', async (world) => {
    const { store, acmeLive } = world
    const id = await deliveredOne(world)
    world.setClock(plus(FEBRUARY.end, MINUTE_MS))
    await tick(world, '60000')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, FEBRUARY), final(FEBRUARY))
    world.setClock(plus(JANUARY.end, -HOUR_MS))
    for (const period of [JANUARY, periodOf('0001-01')]) {
      assert.deepEqual(await store.fixTenantPeriod(acmeLive, period), final(period))
      assert.deepEqual(await store.fixPeriod(period), final(period))
    }
    await report(store, acmeLive, id, filled(usd('10')))
    assert.equal((await store.findExecution(id))?.trade?.recordedAt, FEBRUARY.end)
  })

  test('months before the first partner are closed together, and none after them', async (world) => {
    const { store, acmeLive } = world
    const id = await deliveredOne(world)
    world.setClock(plus(JANUARY.end, MINUTE_MS))
    await tick(world, '60000')
    const old = periodOf('1969-12')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, old), final(old))
    const back = plus(JANUARY.end, -HOUR_MS)
    world.setClock(back)
    const december = periodOf('2025-12')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, december), final(december))
    assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, false)
    await report(store, acmeLive, id, filled(usd('10')))
    assert.equal((await store.findExecution(id))?.trade?.recordedAt, back)
  })
}
