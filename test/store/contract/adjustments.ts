// The adjustments of a month, each with the trade that it corrects, and what those made of late fills carry along.

import assert from 'node:assert/strict'
import { acceptLate, adjust } from '../../../src/core/late-fill.ts'
import { btc, price, usd } from '../../../src/core/money.ts'
import type { FixedPeriod } from '../../../src/core/month.ts'
import { periodOf } from '../../../src/core/month.ts'
import { DAY_MS, MINUTE_MS } from '../../../src/core/time.ts'
import type { AdjustmentLine } from '../../../src/store/store.ts'
import {
  AUDIT,
  type Contract,
  filled,
  firstTranche,
  link,
  openWorld,
  poll,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'

const whole = (month: string): FixedPeriod => ({ ...periodOf(month), final: true })
const JANUARY = whole('2026-01')
const EVERYBODY = { slug: null, environment: null }
const USERS = 4
const LINES_MAX = 100

const adjustTo = ({ store }: World, executionId: string, amount: string) =>
  store.adjustTrade(
    executionId,
    (seen, now) => adjust(seen, { usd: usd(amount), btc: btc('0.0001'), reason: amount }, now),
    () => AUDIT,
  )

/** Two partners with the same adjustments: several in one millisecond, two of one trade, one a minute later. */
async function adjusted(world: World): Promise<void> {
  const { store, acme, bolt } = world
  for (const tenant of [acme, bolt]) {
    for (let i = 1; i <= USERS; i++) {
      await link(store, tenant, `u${i}`)
      await sendPlan(store, tenant, { partnerUserId: `u${i}`, partnerPlanId: `p${i}` })
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

export const adjustmentContract: Contract = {
  'they are the adjustments of the trade lines, in the same order, in pages of any size': async (t, open) => {
    const world = await openWorld(t, open)
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
  },

  'each has the trade as it was confirmed': async (t, open) => {
    const world = await openWorld(t, open)
    await adjusted(world)
    for (const { executionId, original } of await linesOf(world, 1_000))
      assert.deepEqual(original, (await world.store.findExecution(executionId))?.trade)
  },

  'they are those of whom is asked for, and of the month': async (t, open) => {
    const world = await openWorld(t, open)
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
  },

  'a late fill is recorded in full: when it was received, and beside a trade its fee, price and time': async (
    t,
    open,
  ) => {
    const world = await openWorld(t, open)
    const { store, acme } = world
    const { executionId } = await firstTranche(world)
    await setUser(store, acme, 'u1', 'disabled')
    const accept = (reportId: number) =>
      store.acceptLateFill({ executionId, reportId }, acceptLate, () => AUDIT)
    await report(store, acme, executionId, filled(usd('5'), 'o1'))
    const receivedAt = world.now()
    const more = { ...filled(usd('3'), 'o2'), partnerFee: usd('0.07') }
    await report(store, acme, executionId, more)
    world.advance(DAY_MS)
    await accept(1)
    await accept(2)
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
    assert.deepEqual(await store.findFaults(), [])
  },

  'the check finds an adjustment that says something else than its report': async (t, open) => {
    for (const wrong of [
      { partnerFee: usd('0.08') },
      { partnerFee: null },
      { executionPrice: price('1') },
      { executedAt: T0 },
    ]) {
      const world = await openWorld(t, open)
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
        () => AUDIT,
      )
      assert.deepEqual(
        (await store.findFaults()).map(({ kind }) => kind),
        ['adjustment_report'],
      )
    }
  },
}
