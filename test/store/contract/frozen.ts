// A frozen database: nothing fires and nothing is delivered, purchases are recorded, stops are accepted and starts
// refused, and only a resume ends it. A moved database accepts no write at all.

import assert from 'node:assert/strict'
import { cancelByHand, LEASE_MS } from '../../../src/core/execution.ts'
import { revoke } from '../../../src/core/key.ts'
import { usd } from '../../../src/core/money.ts'
import { setHeld, setPartnerStatus } from '../../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, plus } from '../../../src/core/time.ts'
import { register } from '../../../src/core/webhook.ts'
import { countDuePlans, decisions, runPass } from '../../../src/engine/pass.ts'
import { advanceSandbox } from '../../../src/engine/sandbox.ts'
import { damage } from '../damage.ts'
import {
  AUDIT,
  allExecutions,
  allPlans,
  type Contract,
  failed,
  filled,
  firstTranche,
  keyFor,
  link,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'

const FROZEN = problem('database_frozen')
const MOVED = problem('database_moved')
const WHY = { by: 'ops', reason: 'the venue is wrong' }
const FREEZE = { ...AUDIT, action: 'database.freeze' }

/** A plan that has fired and been delivered, in a database that is then frozen. */
async function frozenAfterOne(world: World): Promise<World & { first: string }> {
  const { executionId } = await firstTranche(world)
  await world.store.freeze(WHY, FREEZE)
  return { ...world, first: executionId }
}

const decided = async ({ store, machine }: World) => decisions(await store.peekPass(), 0, machine)

export const frozenContract: Contract = (test) => {
  test('nothing fires, and no window rolls, in whichever step of a pass it is noticed', async (empty) => {
    const world = await frozenAfterOne(empty)
    const { store, advance } = world
    const before = [await allExecutions(store), await allPlans(store)]
    advance(DAY_MS + HOUR_MS)
    await assert.rejects(tick(world, '60000'), FROZEN)
    const planIds = (await allPlans(store)).map(({ planId }) => planId)
    await assert.rejects(store.changeDuePlans(1, planIds, await decided(world)), FROZEN)
    assert.deepEqual([await allExecutions(store), await allPlans(store)], before)
    // The tranches that would fire can be previewed.
    assert.equal(await countDuePlans(store), 1)
    await store.previewDuePlans(planIds, await decided(world))
    assert.deepEqual([await allExecutions(store), await allPlans(store)], before)
  })

  test('a pass that is refused asks no feed for a price, and does not judge the clock by it', async (empty) => {
    const { store, machine, now } = await frozenAfterOne(empty)
    let asked = 0
    const observe = async () => {
      asked++
      return { price: null, testimony: { source: 'feed', at: plus(now(), DAY_MS) } }
    }
    await assert.rejects(runPass({ store, machine, observe }), FROZEN)
    assert.deepEqual([asked, (await store.readClock()).standing], [0, null])
    await store.resume(AUDIT)
    await assert.rejects(runPass({ store, machine, observe }), problem('clock_disputed'))
    assert.equal(asked, 1)
  })

  test('no poll is answered, whether anything is due or not, and no lease changes', async (world) => {
    const { store, acme, bolt, advance } = await frozenAfterOne(world)
    const before = await allExecutions(store)
    await assert.rejects(poll(store, bolt), FROZEN)
    advance(LEASE_MS)
    await assert.rejects(poll(store, acme), FROZEN)
    assert.deepEqual(await allExecutions(store), before)
  })

  test('of plans, what starts is refused', async ({ store, acme }) => {
    await link(store, acme, 'u1')
    await sendPlan(store, acme, {})
    await sendPlan(store, acme, { partnerPlanId: 'paused', status: 'paused' })
    await sendPlan(store, acme, { partnerPlanId: 'untimed', smartTimingEnabled: false })
    await store.freeze(WHY, FREEZE)
    const before = await allPlans(store)
    for (const starts of [
      { partnerPlanId: 'new' },
      { partnerPlanId: 'new', status: 'paused' as const },
      { partnerPlanId: 'paused', status: 'active' as const },
      { partnerPlanId: 'untimed', smartTimingEnabled: true },
      { amount: usd('12.50') },
      { frequency: 'weekly' as const },
    ])
      await assert.rejects(sendPlan(store, acme, starts), FROZEN)
    assert.deepEqual(await allPlans(store), before)
  })

  test('of users and plans, what stops is taken, and users are', async (world) => {
    const { store, acme, first } = await frozenAfterOne(world)
    const [before] = await allPlans(store)
    await sendPlan(store, acme, {})
    assert.deepEqual((await allPlans(store))[0], before)
    await sendPlan(store, acme, { smartTimingEnabled: false })
    await sendPlan(store, acme, { status: 'paused' })
    await sendPlan(store, acme, { status: 'cancelled' })
    await sendPlan(store, acme, { status: 'cancelled' })
    const [plan] = await allPlans(store)
    assert.deepEqual([plan?.status, plan?.smartTimingEnabled], ['cancelled', false])
    assert.equal((await store.findExecution(first))?.execution.status, 'cancelled')
    await setUser(store, acme, 'u1', 'disabled')
    await link(store, acme, 'u1', 'v2')
    await link(store, acme, 'u2')
    await store.changeWebhook(acme, (seen, now) => register(seen, 'https://a.example/', 's', now))
    await store.readyToTest(acme)
    await store.deleteWebhook(acme)
  })

  test('a sandbox is neither moved on nor fired in, and can be wiped', async (empty) => {
    const world = await frozenAfterOne(empty)
    const { store, machine, acme } = world
    const options = { store, machine, tenant: acme, price: null, audit: AUDIT }
    await assert.rejects(store.fireInSandbox(acme, 'p1', await decided(world), AUDIT), FROZEN)
    await assert.rejects(advanceSandbox({ ...options, byMs: HOUR_MS, onProgress: () => {} }), FROZEN)
    const page = { wakeUpId: -1, planIds: [1], decisions: await decided(world) }
    await assert.rejects(store.moveSandbox(acme, HOUR_MS, page), FROZEN)
    assert.equal((await allExecutions(store)).length, 1)
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    assert.equal((await store.resetSandbox({ ...acme, keyId }, AUDIT)).executions, 1)
  })

  test('confirmations are recorded: fills, replays, failures, and late fills are kept', async (world) => {
    const { store, acme, first } = await frozenAfterOne(world)
    const said = filled(usd('10'), 'o1')
    assert.equal((await report(store, acme, first, said)).kind, 'recorded')
    assert.equal((await report(store, acme, first, said)).kind, 'replayed')
    assert.equal((await report(store, acme, first, filled(usd('9'), 'o2'))).kind, 'refused')
    const failing = await frozenAfterOne(await world.another())
    assert.equal((await report(failing.store, failing.acme, failing.first, failed())).kind, 'recorded')
  })

  test('what operators do is taken', async (world) => {
    const { store, acme, first } = await frozenAfterOne(world)
    await store.cancelExecution(first, (seen, now) => cancelByHand(seen, 'frozen', now), AUDIT)
    await store.changePartner('acme', (seen, now) => setHeld(seen, true, now), AUDIT)
    await store.changePartner('bolt', (seen, now) => setPartnerStatus(seen, 'disabled', now), AUDIT)
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    await store.changeKey(keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT)
    await store.markKeyUsed(acme, keyId)
    await store.eraseUser(acme, 'u1', AUDIT)
    assert.equal((await report(store, acme, first, filled(usd('9'), 'o1'))).kind, 'refused')
    assert.equal((await store.listLateFills({ after: null, limit: 9 })).length, 1)
  })

  test('a freeze says why until a resume ends it, each once in the audit log', async (empty) => {
    const world = await frozenAfterOne(empty)
    const { store, acme, advance, now, connect } = world
    const frozen = { kind: 'operator', at: T0, ...WHY, movedTo: null, replaced: [] }
    assert.deepEqual(await store.readFrozen(), frozen)
    assert.deepEqual((await store.readVitals(now(), await store.takeStock(now()))).frozen, frozen)
    const [finding, ...more] = (await store.findWarnings()).filter(({ kind }) => kind === 'database_frozen')
    assert.deepEqual([finding?.severity, more], ['page', []])
    advance(3 * DAY_MS)
    // The first reason is not replaced.
    assert.deepEqual(await store.freeze({ by: 'other', reason: 'another' }, FREEZE), { frozen, isNew: false })
    const entry = { ...AUDIT, action: 'database.resume' }
    assert.deepEqual(await (await connect()).resume(entry), frozen)
    assert.equal(await store.resume(entry), null)
    const said = (await store.listAudit({ after: null, limit: 100 })).filter(({ action }) =>
      action.startsWith('database.'),
    )
    assert.deepEqual(
      said.map(({ action, detail }) => [action, detail.reason]),
      [
        ['database.freeze', undefined],
        ['database.resume', WHY.reason],
      ],
    )
    assert.equal(await store.readFrozen(), null)
    // The days in the freeze are over: their budgets are not spent later.
    const { windowsRolled, executionsCreated } = await tick(world, '60000')
    assert.deepEqual([windowsRolled, executionsCreated], [1, 1])
    assert.equal((await poll(store, acme)).length, 2)
  })

  test('one that has moved takes no write, from whatever was open before, and can be read', async (empty) => {
    const { store, acme, place, first, connect } = await frozenAfterOne(empty)
    await damage(place, `update frozen set kind = 'moved', moved_to = 'elsewhere.db'`)
    for (const open of [store, await connect()]) {
      assert.equal((await open.readFrozen())?.movedTo, 'elsewhere.db')
      for (const write of [
        () => poll(open, acme),
        () => report(open, acme, first, filled(usd('10'), 'o1')),
        () => sendPlan(open, acme, {}),
        () => link(open, acme, 'u1', 'v2'),
        () => setUser(open, acme, 'u1', 'disabled'),
        () => open.addPartner({ partnerSlug: 'late', name: 'Late' }, AUDIT),
        () => open.addAuditEntry(AUDIT),
        () => open.freeze(WHY, FREEZE),
        () => open.resume(AUDIT),
        () => open.resetSandbox(acme, AUDIT),
        () => open.beginPass(null),
        () => open.probeWrite(),
      ])
        await assert.rejects(write(), MOVED)
      assert.equal((await allExecutions(open)).length, 1)
      assert.equal((await open.findPartner('late')) ?? null, null)
    }
  })
}
