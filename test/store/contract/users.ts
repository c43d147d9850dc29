// Users: every consent is stored, a disable reaches every plan, and an erasure removes personal data.

import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { cancel, isOpen } from '../../../src/core/execution.ts'
import { usd } from '../../../src/core/money.ts'
import type { Tenant } from '../../../src/core/partner.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/time.ts'
import { CONSENTS_SHOWN } from '../../../src/core/user.ts'
import { unreserved } from '../../../src/core/window.ts'
import {
  AUDIT,
  adjustTo,
  afterFirst,
  allExecutions,
  allPlans,
  audited,
  type Contract,
  each,
  enrol,
  enrolAll,
  filled,
  link,
  linkWith,
  plansNamed,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'

/** The windows and executions of all plans, and what the current windows may still fire. */
async function ledgerOf({ store }: World, names: readonly string[]) {
  const plans = (await Promise.all(names.map((name) => store.findPlans(name)))).flat()
  const listed = await allExecutions(store)
  const found = await Promise.all(listed.map(({ executionId }) => store.findExecution(executionId)))
  return {
    windows: plans.flatMap(({ windows }) => windows),
    executions: found.flatMap((one) => one?.execution ?? []),
    fireable: plans.map(({ schedule }) => schedule?.fireable),
  }
}

/** More than any backend should have to stop in one transaction. */
const MANY = 300

const linkWithEmail = ({ store, acme }: World, partnerUserId: string, email: string) =>
  linkWith(store, acme, { partnerUserId, email, authProvider: 'google' })

export const userContract: Contract = (test) => {
  test('every consent is kept with its arrival, the same one once', async (world) => {
    const { store, acme } = world
    for (const version of ['v1', 'v1', 'v2', 'v1', 'v3']) {
      await link(store, acme, 'u1', version)
      world.advance(MINUTE_MS)
    }
    // The old version given again is a consent of its own.
    await linkWith(store, acme, { partnerUserId: 'u1', consentTimestamp: world.now() })
    const found = await store.findUser(acme, 'u1')
    assert.deepEqual(
      found?.consents.map(({ version, timestamp, receivedAt }) => [version, timestamp, receivedAt - T0]),
      [
        ['v1', T0, 0],
        ['v2', T0, 2 * MINUTE_MS],
        ['v3', T0, 4 * MINUTE_MS],
        ['v1', world.now(), 5 * MINUTE_MS],
      ],
    )
    assert.equal(found?.consentVersion, 'v1')
    const { consents, partnerUserId } = (await store.readUser(acme, 'u1')) ?? assert.fail('gone')
    assert.deepEqual([partnerUserId, consents], ['u1', found?.consents])
  })

  test('of very many consents the newest are read, oldest first', async ({ store, acme }) => {
    const versions = Array.from({ length: CONSENTS_SHOWN + 2 }, (_, i) => `v${i}`)
    for (const version of versions) await link(store, acme, 'u1', version)
    assert.deepEqual(each((await store.readUser(acme, 'u1'))?.consents, 'version'), versions.slice(2))
  })

  test('a name with a control character, which none can have, finds nothing, and harms no call beside it', async (world) => {
    const { store, acme, executionId, amount } = await afterFirst(world)
    for (const [i, name] of ['u1\0', '\0', 'u1\u0001'].entries()) {
      assert.equal(await store.findUser(acme, name), null)
      assert.equal(await store.readUser(acme, name), null)
      assert.equal(await store.readPlan(acme, name), null)
      assert.deepEqual(await store.findPlans(name), [])
      assert.equal(await store.findExecution(executionId + name), null)
      await assert.rejects(setUser(store, acme, name, 'disabled'), problem('user_not_found'))
      // Confirmations of the same moment may share a transaction.
      const [unknown, known] = await Promise.allSettled([
        report(store, acme, `${executionId}${name}`, filled(amount, 'o1')),
        report(store, acme, executionId, filled(amount, 'o1')),
      ])
      assert.equal(unknown.status === 'rejected' && unknown.reason.code, 'execution_not_found')
      assert.equal(known.status === 'fulfilled' && known.value.kind, i === 0 ? 'recorded' : 'replayed')
    }
    const all = await store.readPlans(acme, { after: null, limit: 9 })
    assert.deepEqual(await store.readPlans(acme, { after: '\0', limit: 9 }), all)
  })

  test('a disable ends open executions of paused plans too', async (world) => {
    const { store, acme } = await afterFirst(world)
    await sendPlan(store, acme, { status: 'paused' })
    const { plansPaused, executionsCancelled } = await setUser(store, acme, 'u1', 'disabled')
    assert.deepEqual([plansPaused, executionsCancelled], [0, 1])
    world.advance(DAY_MS)
    assert.deepEqual(await poll(store, acme), [])
  })

  test('a disable is the cancelling of each open execution as core does it, in whatever window, beside whatever excess', async (world) => {
    const { store, acme } = world
    const names = plansNamed(4)
    await enrolAll(store, acme, names)
    for (let slot = 0; slot < 9; slot++) {
      await tick(world, '60000')
      for (const { executionId, amount, partnerPlanId, trancheIndex } of await poll(store, acme)) {
        const kind = names.indexOf(partnerPlanId) + trancheIndex
        // One of three stays open, whenever it is delivered again.
        if (kind % 3 === 0) continue
        await report(store, acme, executionId, filled(amount))
        await adjustTo(world, executionId, ['4.01', '11.01', '15.01', '45.01'][kind % 4] ?? '')
      }
      world.advance(8 * HOUR_MS)
    }
    const before = await ledgerOf(world, names)
    const windows = new Map(before.windows.map((one) => [one.windowId, one]))
    const mixed = before.windows.filter(({ excess, reserved }) => excess > 0n && reserved > 0n)
    assert.deepEqual(new Set(mixed.map(({ closed }) => closed === null)), new Set([true, false]))
    const executions = before.executions.map((one) => {
      const window = windows.get(one.windowId)
      if (!window || !isOpen(one)) return one
      const ended = cancel(one, window, world.now())
      windows.set(one.windowId, ended.window)
      return ended.execution
    })
    await setUser(store, acme, 'u1', 'disabled')
    const current = [...windows.values()].filter(({ closed }) => closed === null)
    const wanted = { windows: [...windows.values()], executions, fireable: current.map(unreserved) }
    assert.deepEqual(await ledgerOf(world, names), wanted)
  })

  test('nothing fires for a disabled user, nor for one linked again until its plan is sent', async (world) => {
    const { store, acme } = world
    await enrol(store, acme)
    const evaluated = async () => {
      world.advance(MINUTE_MS)
      return (await tick(world, '60000')).plansEvaluated
    }
    await setUser(store, acme, 'u1', 'disabled')
    assert.equal(await evaluated(), 0)
    await setUser(store, acme, 'u1', 'linked')
    assert.equal(await evaluated(), 0)
    await sendPlan(store, acme, { status: 'active' })
    assert.equal(await evaluated(), 1)
    assert.equal((await allExecutions(store)).length, 1)
  })

  test('a disable stops every plan before it is answered, however many there are', async (world) => {
    const { store, acme } = world
    await link(store, acme)
    await link(store, acme, 'u2')
    await Promise.all(plansNamed(MANY).map((partnerPlanId) => sendPlan(store, acme, { partnerPlanId })))
    await sendPlan(store, acme, { partnerUserId: 'u2', partnerPlanId: 'other' })
    await tick(world, '60000')
    const stopping = setUser(store, acme, 'u1', 'disabled')
    while ((await store.findUser(acme, 'u1'))?.status !== 'disabled') await setImmediate()
    const handed = await store.deliverDue(acme, 500, (one) => one)
    const stopped = await stopping
    assert.deepEqual([stopped.plansPaused, stopped.executionsCancelled], [MANY, MANY])
    assert.deepEqual(
      each(handed.executions, 'partnerUserId'),
      ['u2'],
      'a poll after the disable is seen hands out nothing of its user',
    )
    const active = (await allPlans(store)).filter(({ status }) => status === 'active')
    assert.deepEqual(each(active, 'partnerPlanId'), ['other'])
    const again = await setUser(store, acme, 'u1', 'disabled')
    assert.deepEqual([again.plansPaused, again.executionsCancelled], [0, 0])
  })

  test('hosts that stop the same plans at once stop each of them once', async (world) => {
    const { store, acme } = world
    const other = await world.connect()
    await enrolAll(store, acme, plansNamed(MANY))
    await tick(world, '60000')
    const ends = await Promise.all([store, other].map((one) => setUser(one, acme, 'u1', 'disabled')))
    const counts = ends.map(({ plansPaused, executionsCancelled }) => [plansPaused, executionsCancelled])
    assert.ok(counts.some(([paused, cancelled]) => paused === MANY && cancelled === MANY))
    assert.ok(counts.every(([paused, cancelled]) => paused === cancelled && [0, MANY].includes(paused ?? 0)))
    assert.ok((await allPlans(store)).every(({ status }) => status === 'paused'))
    assert.ok((await allExecutions(store)).every(({ status }) => status === 'cancelled'))
  })

  test('an erasure takes the e-mail and the provider of one user, and nothing of the ledger', async (world) => {
    const { store, acme, acmeLive, now, executionId, amount } = await afterFirst(world)
    await report(store, acme, executionId, filled(amount))
    await linkWithEmail(world, 'u1', 'one@example.org')
    await linkWithEmail(world, 'u2', 'two@example.org')
    const before = await audited(world)
    world.advance(MINUTE_MS)
    await assert.rejects(store.eraseUser(acmeLive, 'u1', AUDIT), problem('user_not_found'))
    assert.equal(await audited(world), before)
    const erased = await store.eraseUser(acme, 'u1', AUDIT)
    assert.equal(erased.erasedAt, now())
    assert.ok(['nowhere', 'server'].includes(erased.remains), erased.remains)
    const found = await store.findUser(acme, 'u1')
    assert.deepEqual(
      [found?.email, found?.authProvider, found?.erasedAt, found?.consents.length, found?.plans.length],
      [null, null, now(), 1, 1],
    )
    const read = await store.readUser(acme, 'u1')
    assert.deepEqual([read?.email, read?.authProvider, read?.consents], [null, null, found?.consents])
    assert.equal((await store.findUser(acme, 'u2'))?.email, 'two@example.org')
    assert.equal((await store.findExecution(executionId))?.window.spent, usd('10'))
    assert.equal(await audited(world), before + 1)
    await store.eraseUser(acme, 'u1', AUDIT)
    assert.equal(await audited(world), before + 2)
  })

  test('an erasure says when another row holds the same e-mail, in whatever environment', async (world) => {
    const { store, acme, acmeLive } = world
    const email = 'one@example.org'
    await linkWithEmail(world, 'u1', email)
    await linkWithEmail({ ...world, acme: acmeLive }, 'u1', email)
    await linkWithEmail(world, email, 'two@example.org')
    const erase = async (tenant: Tenant, id: string) => (await store.eraseUser(tenant, id, AUDIT)).remains
    assert.equal(await erase(acme, 'u1'), 'other_row')
    assert.equal(await erase(acmeLive, 'u1'), 'other_row', 'an id that holds it stays')
    assert.notEqual(await erase(acme, email), 'other_row')
  })
}
