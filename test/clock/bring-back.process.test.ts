// Windows that a clock ahead has rolled into the future: named by check, brought back to their place, spent once.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cancelByHand } from '../../src/core/execution.ts'
import { type Usd, usd } from '../../src/core/money.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../../src/core/time.ts'
import type { PlanAhead } from '../../src/store/store.ts'
import {
  AUDIT,
  allExecutions,
  each,
  enrol,
  link,
  noted,
  openWorld,
  sendPlan,
  T0,
  tick,
  type World,
} from '../store/world.ts'
import { openNew } from '../support/database.ts'
import { now, openShop } from './wrong-clock.ts'

const ALL = { slug: null, environment: null }

async function ahead({ store }: World): Promise<PlanAhead[]> {
  return (await store.listAhead(ALL, { after: 0, limit: 100 })).plans
}

async function bringBack(world: World): Promise<PlanAhead[]> {
  const found = await ahead(world)
  for (const { planId } of found) assert.ok(await world.store.bringBack(planId, noted))
  return found
}

async function openPlan(t: Parameters<typeof openWorld>[0]): Promise<World> {
  const world = await openWorld(t, openNew)
  await enrol(world.store, world.acmeLive)
  return world
}

/** The sums of a plan's windows, over the executions of the present window and all windows. */
async function moneyOf({ store }: World): Promise<{ start: number; budget: Usd; taken: Usd }[]> {
  const [plan] = await store.findPlans('p1')
  return (plan?.windows ?? []).map((one) => ({
    start: one.start - T0,
    budget: one.budget,
    taken: (one.reserved + one.spent) as Usd,
  }))
}

/** Passes every quarter of an hour until then. */
async function passUntil(world: World, until: Instant): Promise<void> {
  while (world.now() < until) {
    world.advance(15 * 60_000)
    await tick(world, '60000')
  }
}

/** The cell of the first day is spent once, and whole; answers its number of windows. */
async function assertFirstCellSpent(world: World): Promise<number> {
  const today = (await moneyOf(world)).filter(({ start }) => start < DAY_MS)
  const spent = today.reduce((sum, { taken }) => sum + taken, 0n)
  assert.equal(spent, usd('60.00'))
  return today.length
}

async function assertSound({ store }: World): Promise<void> {
  assert.deepEqual(await store.findFaults(), [])
  const keys = (await allExecutions(store)).map(
    (one) => `${one.partnerPlanId}:${one.windowStart}:${one.trancheIndex}`,
  )
  assert.equal(new Set(keys).size, keys.length)
}

test('a window of a plan that has yet to begin comes back to its start_date', async (t) => {
  const world = await openWorld(t, openNew)
  const { store, acme } = world
  await link(store, acme)
  const start = plus(T0, 21 * DAY_MS + HOUR_MS)
  await sendPlan(store, acme, { startDate: start })
  assert.deepEqual(await ahead(world), [], 'it waits where it belongs')
  world.advance(50 * DAY_MS)
  await tick(world)
  world.advance(-50 * DAY_MS)
  const [found] = await bringBack(world)
  assert.deepEqual([found?.place.start, found?.place.end], [start, plus(start, DAY_MS)])
  assert.deepEqual(await ahead(world), [])
  await passUntil(world, plus(start, DAY_MS))
  const first = (await moneyOf(world)).filter((window) => window.start === start - T0)
  assert.deepEqual(each(first, 'taken'), [0n, usd('60.00')])
  await assertSound(world)
})

test('a window rolled ahead comes back to its cell of the grid with what the cell had left', async (t) => {
  const world = await openPlan(t)
  await passUntil(world, plus(T0, 9 * HOUR_MS))
  const before = (await moneyOf(world))[0]?.taken ?? 0n
  assert.ok(before > 0n && before < usd('60.00'))
  world.advance(30 * DAY_MS)
  assert.equal((await tick(world)).windowsRolled, 1)
  world.advance(-30 * DAY_MS)

  const [plan, another] = await ahead(world)
  assert.equal(another, undefined)
  assert.deepEqual([plan?.place.start, plan?.place.end], [plus(T0, 1), plus(T0, DAY_MS)])
  assert.equal(plan?.place.budget, usd('60.00') - before)
  const found = async (kind: string) => (await world.store.findWarnings()).find((one) => one.kind === kind)
  assert.equal((await found('windows_ahead'))?.subject, 'acme live plan p1')
  // The cell was closed with money left, which returns to its plan.
  assert.equal((await found('windows_unspent'))?.subject, 'acme live plan p1')
  // An instruction of the clock ahead can be ended; passes and audited acts since then do not matter.
  assert.match(
    (await found('clock_back'))?.message ?? '',
    /holds records of 2026-02-04T09:00:00\.000Z, 30 d later$/,
  )
  for (const { executionId, createdAt } of await allExecutions(world.store))
    if (createdAt > world.now())
      await world.store.cancelExecution(executionId, (seen, now) => cancelByHand(seen, 'ahead', now), AUDIT)
  assert.equal(await found('clock_back'), undefined)
  await bringBack(world)
  assert.equal(await found('windows_ahead'), undefined)
  assert.equal(await found('windows_unspent'), undefined)
  assert.deepEqual(await ahead(world), [])
  assert.equal(await world.store.bringBack(plan?.planId ?? 0, noted), null, 'once is enough')

  await passUntil(world, plus(T0, DAY_MS))
  await assertFirstCellSpent(world)
  await passUntil(world, plus(T0, 3 * DAY_MS))
  const windows = (await moneyOf(world)).map(({ start }) => start)
  assert.ok(windows.includes(DAY_MS) && windows.includes(2 * DAY_MS), 'the grid is the old one')
  await assertSound(world)
})

test('a cell without a window gets a whole budget, one that is spent leaves the next', async (t) => {
  const world = await openPlan(t)
  await passUntil(world, plus(T0, DAY_MS - HOUR_MS / 4))
  assert.equal((await moneyOf(world))[0]?.taken, usd('60.00'))
  world.advance(20 * DAY_MS)
  await tick(world)
  world.setClock(plus(T0, DAY_MS - 60_000))
  const [spent] = await ahead(world)
  assert.deepEqual([spent?.place.start, spent?.place.budget], [plus(T0, DAY_MS), usd('60.00')])
  world.setClock(plus(T0, 4 * DAY_MS + 5))
  const [found] = await ahead(world)
  assert.deepEqual([found?.place.start, found?.place.budget], [plus(T0, 4 * DAY_MS), usd('60.00')])
  await bringBack(world)
  await passUntil(world, plus(T0, 6 * DAY_MS))
  await assertSound(world)
})

test('brought back twice, and reset after it: nothing is spent twice and no key repeats', async (t) => {
  const world = await openPlan(t)
  for (const hour of [2, 9, 17]) {
    await passUntil(world, plus(T0, hour * HOUR_MS))
    const here = world.now()
    world.setClock(plus(T0, 40 * DAY_MS + hour * HOUR_MS))
    await tick(world, '60000')
    world.setClock(here)
    await bringBack(world)
  }
  await passUntil(world, plus(T0, DAY_MS))
  assert.equal(await assertFirstCellSpent(world), 4)
  world.advance(HOUR_MS)
  await sendPlan(world.store, world.acmeLive, { amount: usd('90.00') })
  const [plan] = await world.store.findPlans('p1')
  assert.equal(plan?.window?.start, world.now(), 'a reset begins now, not behind what fired ahead')
  await assertSound(world)
})

test('plans that are to start later, and sandboxes, stay where they are', async (t) => {
  const world = await openWorld(t, openNew)
  const { store, acme, bolt } = world
  for (const tenant of [acme, bolt] satisfies Tenant[]) await link(store, tenant)
  await sendPlan(store, acme, { startDate: plus(T0, 9 * DAY_MS) })
  await sendPlan(store, bolt)
  const { end } = await store.beginAdvance(bolt, 3 * DAY_MS, AUDIT)
  await end()
  world.setClock(plus(T0, 4 * DAY_MS))
  await tick(world)
  world.setClock(plus(T0, HOUR_MS))
  assert.deepEqual(await ahead(world), [])
})

test('a clock a month ahead, in a process, with no feed to doubt it: check, the lever, and the audit log', async (t) => {
  const shop = await openShop(t)
  assert.equal((await shop.run(0, 'tick')).code, 0)
  assert.equal((await shop.runApart(30 * DAY_MS, 'tick')).code, 0)
  const checked = JSON.parse((await shop.run(0, '--json', 'check')).out)
  const finding = checked.findings.find(({ kind }: { kind: string }) => kind === 'windows_ahead')
  assert.match(finding.mend, / docs 'levers#the-clock-was-wrong'$/)
  assert.match(finding.message, /in all 3 plans of acme live$/)

  const rehearsed = JSON.parse((await shop.run(0, '--json', 'plan', 'bring-back', '--dry-run')).out)
  assert.deepEqual([rehearsed.brought_back, rehearsed.plans.length], [0, 3])
  const done = JSON.parse((await shop.run(0, '--json', 'plan', 'bring-back')).out)
  assert.deepEqual(done, { ...rehearsed, dry_run: false, brought_back: 3 })
  assert.equal(JSON.parse((await shop.run(0, '--json', 'plan', 'bring-back')).out).brought_back, 0)
  const log = JSON.parse((await shop.run(0, '--json', 'audit')).out)
  assert.equal(log.filter(({ action }: { action: string }) => action === 'plan.bring-back').length, 3)
  const [plan] = await shop.store.findPlans('p1')
  assert.ok(plan?.window && plan.window.start <= now() && now() < plan.window.end)
})

test('by a clock in doubt nothing is brought anywhere', async (t) => {
  const shop = await openShop(t)
  await shop.run(30 * DAY_MS, 'tick')
  assert.equal((await shop.run(HOUR_MS, 'tick', '--price-feed', shop.feed)).code, 1)
  const refused = await shop.run(HOUR_MS, '--json', 'plan', 'bring-back')
  assert.deepEqual([refused.code, JSON.parse(refused.err).error.code], [1, 'clock_disputed'])
})
