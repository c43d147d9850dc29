// A database that was put back from a copy stands still: nothing fires and nothing is handed out, confirmations are
// taken, operators go on, and only a resume ends it.

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

const STILL = problem('database_restored')

/** What a restore leaves in the database. */
const standStill = (place: string): Promise<void> =>
  damage(place, `insert into standstill values (1, ${T0}, 'last-night.db', '["old.db"]')`)

/** A plan that has fired and been delivered, in a database that then stands still. */
async function standing(world: World): Promise<World & { first: string }> {
  const { executionId } = await firstTranche(world)
  await standStill(world.place)
  return { ...world, first: executionId }
}

const decided = async ({ store, machine }: World) => decisions(await store.peekPass(), 0, machine)

const RESTORED = { at: T0, copy: 'last-night.db', replaced: ['old.db'] }

export const standstillContract: Contract = {
  'nothing fires, and no window rolls, in whichever step of a pass it is noticed': async (empty) => {
    const world = await standing(empty)
    const { store, advance } = world
    const before = [await allExecutions(store), await allPlans(store)]
    advance(DAY_MS + HOUR_MS)
    await assert.rejects(tick(world, '60000'), STILL)
    const planIds = (await allPlans(store)).map(({ planId }) => planId)
    await assert.rejects(store.changeDuePlans(1, planIds, await decided(world)), STILL)
    assert.deepEqual([await allExecutions(store), await allPlans(store)], before)
    // What would fire can be looked at.
    assert.equal(await countDuePlans(store), 1)
    await store.previewDuePlans(planIds, await decided(world))
    assert.deepEqual([await allExecutions(store), await allPlans(store)], before)
  },

  'a pass that is refused asks no feed for a price, and does not judge the clock by it': async (empty) => {
    const { store, machine, now } = await standing(empty)
    let asked = 0
    const observe = async () => {
      asked++
      return { price: null, testimony: { source: 'feed', at: plus(now(), DAY_MS) } }
    }
    await assert.rejects(runPass({ store, machine, observe }), STILL)
    assert.deepEqual([asked, (await store.readClock()).standing], [0, null])
    await store.resume(AUDIT)
    await assert.rejects(runPass({ store, machine, observe }), problem('clock_disputed'))
    assert.equal(asked, 1)
  },

  'no poll is answered, whether anything is due or not, and no lease changes': async (world) => {
    const { store, acme, bolt, advance } = await standing(world)
    const before = await allExecutions(store)
    await assert.rejects(poll(store, bolt), STILL)
    advance(LEASE_MS)
    await assert.rejects(poll(store, acme), STILL)
    assert.deepEqual(await allExecutions(store), before)
  },

  'partners change nothing': async (world) => {
    const { store, acme } = await standing(world)
    const before = [await allPlans(store), await store.findUser(acme, 'u1')]
    await assert.rejects(link(store, acme, 'u2'), STILL)
    await assert.rejects(link(store, acme, 'u1', 'v2'), STILL)
    await assert.rejects(setUser(store, acme, 'u1', 'disabled'), STILL)
    await assert.rejects(sendPlan(store, acme, { partnerPlanId: 'p2' }), STILL)
    await assert.rejects(sendPlan(store, acme, { status: 'cancelled' }), STILL)
    await assert.rejects(
      store.changeWebhook(acme, (seen, now) => register(seen, 'https://a.example/', 's', now)),
      STILL,
    )
    await assert.rejects(store.deleteWebhook(acme), STILL)
    await assert.rejects(store.readyToTest(acme), STILL)
    assert.deepEqual([await allPlans(store), await store.findUser(acme, 'u1')], before)
    assert.equal(await store.findWebhook(acme), null)
  },

  'a sandbox is neither moved on nor fired in, and wiped by an operator alone': async (empty) => {
    const world = await standing(empty)
    const { store, machine, acme } = world
    const options = { store, machine, tenant: acme, price: null, audit: AUDIT }
    await assert.rejects(store.fireInSandbox(acme, 'p1', await decided(world), AUDIT), STILL)
    await assert.rejects(advanceSandbox({ ...options, byMs: HOUR_MS, onProgress: () => {} }), STILL)
    const page = { wakeUpId: -1, planIds: [1], decisions: await decided(world) }
    await assert.rejects(store.moveSandbox(acme, HOUR_MS, page), STILL)
    assert.equal((await allExecutions(store)).length, 1)
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    await assert.rejects(store.resetSandbox({ ...acme, keyId }, AUDIT), STILL)
    assert.equal((await store.resetSandbox(acme, AUDIT)).executions, 1)
  },

  'confirmations are taken: fills, replays, failures, and late fills are kept': async (world) => {
    const { store, acme, first } = await standing(world)
    const said = filled(usd('10'), 'o1')
    assert.equal((await report(store, acme, first, said)).kind, 'recorded')
    assert.equal((await report(store, acme, first, said)).kind, 'replayed')
    assert.equal((await report(store, acme, first, filled(usd('9'), 'o2'))).kind, 'refused')
    const failing = await standing(await world.another())
    assert.equal((await report(failing.store, failing.acme, failing.first, failed())).kind, 'recorded')
  },

  'operators go on with everything that stops something': async (world) => {
    const { store, acme, first } = await standing(world)
    await store.cancelExecution(first, (seen, now) => cancelByHand(seen, 'restored', now), AUDIT)
    await store.changePartner('acme', (seen, now) => setHeld(seen, true, now), AUDIT)
    await store.changePartner('bolt', (seen, now) => setPartnerStatus(seen, 'disabled', now), AUDIT)
    const { keyId } = await store.addKey(keyFor(acme), AUDIT)
    await store.changeKey(keyId, (seen, time) => ({ key: revoke(seen, time), successor: null }), AUDIT)
    await store.markKeyUsed(acme, keyId)
    await store.eraseUser(acme, 'u1', AUDIT)
    assert.equal((await report(store, acme, first, filled(usd('9'), 'o1'))).kind, 'refused')
    assert.equal((await store.listLateFills({ after: null, limit: 9 })).length, 1)
  },

  'it is said everywhere, and a resume ends it, once, in the audit log': async (empty) => {
    const world = await standing(empty)
    const { store, acme, advance, now, connect } = world
    assert.deepEqual(await store.readRestored(), RESTORED)
    const stock = await store.takeStock(now())
    assert.deepEqual((await store.readVitals(now(), stock)).restored, RESTORED)
    const [finding] = (await store.findWarnings()).filter(({ kind }) => kind === 'database_restored')
    assert.equal(finding?.severity, 'page')
    advance(3 * DAY_MS)
    const audits = (await store.listAudit({ after: null, limit: 100 })).length
    const entry = { ...AUDIT, action: 'database.resume' }
    const other = await connect()
    assert.deepEqual(await other.resume(entry), { restored: RESTORED, lost: null })
    assert.deepEqual(await store.resume(entry), { restored: null, lost: null })
    const added = (await store.listAudit({ after: null, limit: 100 })).slice(audits)
    assert.deepEqual(
      added.map(({ action, detail }) => [action, detail.copy]),
      [['database.resume', 'last-night.db']],
    )
    assert.equal(await store.readRestored(), null)
    // The days it stood still are over: their budgets are not made up for.
    const { windowsRolled, executionsCreated } = await tick(world, '60000')
    assert.deepEqual([windowsRolled, executionsCreated], [1, 1])
    assert.equal((await poll(store, acme)).length, 2)
    await link(store, acme, 'u2')
  },
}
