// A row that is not what was stored: nothing is done on its word, the others go on, and the check names it.

import assert from 'node:assert/strict'
import { bookPurchase } from '../../../src/core/corrections/purchase.ts'
import { nextExecutionId } from '../../../src/core/execution.ts'
import { type Usd, usd } from '../../../src/core/money.ts'
import { DAY_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { damage } from '../damage.ts'
import {
  AUDIT,
  accept,
  adjustTo,
  allExecutions,
  allPlans,
  type Contract,
  filled,
  firstTranche,
  keyFor,
  link,
  PAGE,
  PLAN,
  poll,
  problem,
  raise,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'

const DAMAGED = problem('database_damaged')

const kinds = async ({ store }: World): Promise<string[]> =>
  (await store.findFaults()).map(({ kind }) => kind)

const changed = async ({ store }: World): Promise<string[]> =>
  (await store.findFaults()).filter(({ kind }) => kind === 'row_changed').map(({ subject }) => subject)

/** One plan that is damaged, p1, and one that is not: both have to open their window of the next day. */
async function nextDay(world: World, sql: string) {
  const { store, acme, place, advance } = world
  await link(store, acme)
  for (const partnerPlanId of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId })
  await tick(world, '60000')
  await damage(place, sql)
  advance(DAY_MS)
  const { failed, windowsRolled } = await tick(world, '60000')
  const fired = (await allExecutions(store)).filter(({ createdAt }) => createdAt === world.now())
  return { failed, windowsRolled, fired: fired.map(({ partnerPlanId }) => partnerPlanId) }
}

const keptAndDamaged = async (world: World, sql: string) => {
  const { store, acme, place } = world
  const { executionId } = await firstTranche(world)
  await setUser(store, acme, 'u1', 'disabled')
  const said = filled(usd('9'), 'o1')
  assert.equal((await report(store, acme, executionId, said)).kind, 'refused')
  await damage(place, sql)
  return { executionId, said }
}

export const damagedRowContract: Contract = {
  'a plan whose amount changed buys nothing by it, and the others go on': async (world) => {
    const day = await nextDay(
      world,
      "update plans set amount_usd = amount_usd + 1099511627776 where partner_plan_id = 'p1'",
    )
    assert.deepEqual([day.windowsRolled, day.fired], [1, ['p2']])
    assert.deepEqual(
      day.failed.map(({ error }) => DAMAGED(error)),
      [true],
    )
    assert.deepEqual(await changed(world), ['plans row 1'])
    assert.equal((await tick(world, '60000')).failed.length, 1)
  },

  'a plan whose schedule changed fires nothing by it, and the others go on': async (world) => {
    const day = await nextDay(
      world,
      'update schedules set next_run_at = next_run_at - 4096 where plan_id = 1',
    )
    assert.deepEqual([day.failed.length, day.fired], [1, ['p2']])
    assert.deepEqual(await changed(world), ['schedules row 1'])
    // A purchase is booked all the same, and the damage stays what it is.
    const order = {
      partnerPlanId: 'p1',
      partnerOrderId: 'test:p1:2026-01-05T00:00:00.000Z:1',
      executedAt: T0,
    }
    const made = await world.store.recordPurchase(
      world.acme,
      order,
      {
        decide: (facts, now) =>
          bookPurchase(facts, { ...filled(usd('5'), order.partnerOrderId), executedAt: T0 }, now),
        newExecutionId: (previous, real) => nextExecutionId(previous, real, world.machine.random(10)),
      },
      () => AUDIT,
    )
    assert.equal(made.kind === 'booked' && made.schedule, null)
    assert.deepEqual(await changed(world), ['schedules row 1'])
  },

  'a plan that was damaged cannot be changed, paused by a disable or not, and stays a finding': async (
    world,
  ) => {
    const { store, acme, place } = world
    await link(store, acme)
    await sendPlan(store, acme)
    await damage(place, 'update plans set amount_usd = amount_usd + 1')
    await assert.rejects(sendPlan(store, acme, { amount: usd('70') }), DAMAGED)
    await setUser(store, acme, 'u1', 'disabled')
    assert.deepEqual(
      (await allPlans(store)).map(({ status }) => status),
      ['paused'],
    )
    assert.deepEqual(await changed(world), ['plans row 1'])
  },

  'an execution whose amount changed is not handed out, and the others are': async (world) => {
    const { store, acme, place } = world
    await link(store, acme)
    for (const partnerPlanId of ['p1', 'p2']) await sendPlan(store, acme, { partnerPlanId })
    await tick(world, '60000')
    await damage(place, `update executions set amount_usd = amount_usd + 1000000 where plan_id = 1`)
    const page = await store.deliverDue(acme, 500, (seen) => ({
      ...seen,
      status: 'sent',
      deliveredCount: 1,
      leaseExpiresAt: plus(world.now(), MINUTE_MS),
    }))
    assert.deepEqual(
      page.executions.map(({ partnerPlanId }) => partnerPlanId),
      ['p2'],
    )
    assert.equal(page.remaining, 0)
    assert.equal((await changed(world)).length, 1)
  },

  'a purchase is not recorded against an execution that changed, or in a window that did': async ({
    another,
  }) => {
    for (const sql of [
      'update executions set amount_usd = amount_usd + 1000000',
      'update windows set window_end = window_end + 1',
    ]) {
      const world = await another()
      const { store, acme, place } = world
      const { executionId, amount } = await firstTranche(world)
      await sendPlan(store, acme, { partnerPlanId: 'p2' })
      await tick(world, '60000')
      const [other] = await poll(store, acme)
      await damage(place, `${sql} where plan_id = 1`)
      const both = await Promise.allSettled([
        report(store, acme, executionId, filled(amount)),
        report(store, acme, other?.executionId ?? '', filled(other?.amount ?? amount)),
      ])
      assert.deepEqual(
        both.map((one) => (one.status === 'rejected' ? DAMAGED(one.reason) : one.value.kind)),
        [true, 'recorded'],
      )
      assert.equal((await store.findExecution(executionId))?.trade, null)
    }
  },

  'a late fill that is not what the partner reported is not accepted, and its retry is answered as ever':
    async ({ another }) => {
      for (const sql of [
        'update late_reports set usd_amount = usd_amount + 1',
        "update late_reports set fingerprint = 'f' || substr(fingerprint, 2)",
      ]) {
        const world = await another()
        const { store, acme } = world
        const { executionId, said } = await keptAndDamaged(world, sql)
        await assert.rejects(accept(world, executionId), DAMAGED)
        assert.equal((await report(store, acme, executionId, said)).kind, 'refused')
        const [late] = await store.listLateFills(PAGE)
        assert.deepEqual([late?.acceptedAt, late?.decidedAt], [null, null])
        assert.deepEqual(await changed(world), ['late_reports row 1'])
      }
    },

  'a late fill that was accepted beside a trade is not accepted again when the disk forgets it': async (
    world,
  ) => {
    const { store, acme, place } = world
    const { executionId } = await firstTranche(world)
    await setUser(store, acme, 'u1', 'disabled')
    for (const amount of ['9', '8']) await report(store, acme, executionId, filled(usd(amount), 'o1'))
    for (const reportId of [1, 2]) await accept(world, executionId, reportId)
    await adjustTo(world, executionId, '7')
    await damage(
      place,
      'update late_reports set accepted_at = null, decided_at = null, decision_reason = null where report_id = 2',
    )
    await assert.rejects(accept(world, executionId, 2), problem('late_fill_conflict'))
    assert.equal((await store.findExecution(executionId))?.window?.spent, usd('7'))
    assert.deepEqual(await kinds(world), ['adjustment_report'])
    await damage(place, 'update late_reports set accepted_at = 1, decided_at = 1')
    assert.deepEqual(await kinds(world), [])
    await report(store, acme, executionId, filled(usd('5'), 'o2'))
    await damage(place, "update late_reports set accepted_at = 1 where partner_order_id = 'o2'")
    assert.deepEqual(await kinds(world), ['late_report'])
  },

  'a stop that came back of a user who is not disabled stops nothing, and is a finding': async (world) => {
    const { store, acme, place } = world
    await link(store, acme)
    await sendPlan(store, acme)
    await damage(
      place,
      `insert into stops (user_id, tenant_id, plan_id, plans_paused, executions_cancelled, begun_at)
       select user_id, tenant_id, 0, 0, 0, created_at from users`,
    )
    assert.equal((await tick(world, '60000')).executionsCreated, 1)
    assert.equal((await poll(store, acme)).length, 1)
    assert.deepEqual(
      (await allPlans(store)).map(({ status }) => status),
      ['active'],
    )
    assert.deepEqual(await kinds(world), ['user_stop'])
  },

  'a key that changed lets nobody in': async (world) => {
    const { store, acme, place } = world
    const sha256 = 'a'.repeat(64)
    await store.addKey(keyFor(acme, { sha256, lifetimeMs: DAY_MS }), AUDIT)
    assert.equal((await store.findKey(sha256))?.key.expiresAt, world.now() + DAY_MS)
    await damage(place, 'update api_keys set expires_at = expires_at + 1099511627776')
    await assert.rejects(store.findKey(sha256), DAMAGED)
    assert.equal((await changed(world)).length, 1)
  },

  'nothing is billed by a tier or an override that changed, and no partner or user that did is changed further':
    async (world) => {
      const { store, acme, place } = world
      await link(store, acme)
      await store.putTierOverride({ partnerSlug: 'acme', fromMonth: null, tierName: 'growth' }, AUDIT)
      assert.equal((await store.readTerms(acme, '2026-01')).override, 'growth')
      await damage(place, "update tier_overrides set tier_name = 'scale'")
      await assert.rejects(store.readTerms(acme, '2026-01'), DAMAGED)
      await store.changePartner('acme', (seen) => ({ ...seen, lastMinimum: '2026-03' }), AUDIT)
      assert.equal(await store.findLastMinimum('acme', '2026-01'), '2026-03')
      await damage(place, "update tier_overrides set tier_name = 'growth'")
      assert.equal((await store.readTerms(acme, '2026-01')).lastMinimum, '2026-03')
      await damage(place, "update minimum_ends set last_month = '2025-03'")
      await assert.rejects(store.readTerms(acme, '2026-01'), DAMAGED)
      await damage(place, "update tier_overrides set tier_name = 'scale'")
      await damage(place, "update tiers set rate_bps = 51 where name = 'starter'")
      await assert.rejects(
        store.putTier(
          (tiers) => ({ ...(tiers[0] as (typeof tiers)[number]), minVolume: 0n as Usd }),
          () => AUDIT,
        ),
        DAMAGED,
      )
      await damage(place, "update partners set held = 1 where partner_slug = 'acme'")
      await assert.rejects(raise(store), DAMAGED)
      await damage(place, "update users set status = 'disabled'")
      await assert.rejects(setUser(store, acme, 'u1', 'linked'), DAMAGED)
      await assert.rejects(sendPlan(store, acme, PLAN), DAMAGED)
      assert.deepEqual(await changed(world), [
        'partners row acme',
        'users row 1',
        'tiers row starter 1970-01',
        'tier_overrides row acme 2026-01',
        'minimum_ends row acme 2026-01',
      ])
    },
}
