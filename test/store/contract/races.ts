// Two hosts at the same moment: neither fails because of the other, nothing is lost or doubled, and the ledger is as if
// one came first.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { decideDispute } from '../../../src/core/clock.ts'
import type { Confirmation } from '../../../src/core/confirmation.ts'
import { adjust } from '../../../src/core/corrections/adjustment.ts'
import { cancelByHand, type Execution } from '../../../src/core/execution.ts'
import { btc, CENT, type Usd, usd } from '../../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { noteAttempt, register } from '../../../src/core/webhook.ts'
import { runPass } from '../../../src/engine/pass.ts'
import type { Store } from '../../../src/store/store.ts'
import {
  AUDIT,
  accept,
  afterFirst,
  allExecutions,
  allPlans,
  announced,
  type Contract,
  each,
  enrolAll,
  filled,
  firstTranche,
  keyFor,
  link,
  linkWith,
  noted,
  plansNamed,
  poll,
  problem,
  raise,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  UNDELIVERED,
  type World,
} from '../world.ts'

/** The number of plans, each with one tranche, for a race that is run once on all of them. */
const PLANS = 12

/** Two hosts, and the executions that were delivered. */
async function hostsWithDue(world: World, { delivered = true } = {}) {
  const { store, acme } = world
  await enrolAll(store, acme, plansNamed(PLANS))
  await tick(world, '60000')
  return { here: store, there: await world.connect(), due: delivered ? await poll(store, acme) : [] }
}

const confirmOn = (store: Store, { acme }: World, { executionId, amount }: Execution, order: string) =>
  report(store, acme, executionId, filled(amount, order))

/** What each came to: the reason of a refusal. */
const outcomesOf = (made: readonly Confirmation[]): string[] =>
  made.map((one) => (one.kind === 'refused' ? one.reason : one.kind)).sort()

/** The code of a refusal of some work, null when it was not refused. */
async function refusal(work: Promise<unknown>, ...codes: string[]): Promise<string | null> {
  try {
    await work
    return null
  } catch (error) {
    const code = codes.find((one) => problem(one)(error))
    if (code === undefined) throw error
    return code
  }
}

const ledgerOf = async ({ store }: World, { executionId }: Execution) => {
  const found = await store.findExecution(executionId)
  assert.ok(found)
  const { reserved, spent } = found.window
  return { status: found.execution.status, order: found.trade?.report.partnerOrderId, reserved, spent }
}

const adjustOn = (store: Store, executionId: string, amount: string, meanwhile = () => {}) =>
  store.adjustTrade(
    executionId,
    (seen, now) => {
      meanwhile()
      return adjust(seen, { usd: usd(amount), btc: btc('0.0002'), reason: 'wrong' }, now)
    },
    noted,
  )

/**
 * Does two things at once: `second` begins when `first` has read the data of its decision and has written nothing yet,
 * so that it reads the same data unless it waits.
 */
async function during<A, B>(
  first: (meanwhile: () => void) => Promise<A>,
  second: () => Promise<B>,
): Promise<[A, B]> {
  let begun: Promise<B> | undefined
  const made = await first(() => {
    begun ??= second()
  })
  return [made, await (begun ?? second())]
}

// Two hosts that do the same thing at the same moment: neither fails because of the other, nothing is lost or doubled.

/** The number of runs of a race: the hosts do not always meet. */
const ROUNDS = 10
const rounds = Array.from({ length: ROUNDS }, (_, round) => round)

const pair = async (world: World) => ({ ...world, here: world.store, there: await world.connect() })

export const raceContract: Contract = (test) => {
  test('of two who add the same partner one succeeds, and the partner has its two tenants', async (world) => {
    const { here, there } = await pair(world)
    const before = (await here.listAudit({ after: null, limit: 1_000 })).length
    for (const round of rounds) {
      const partner = { partnerSlug: `p-${round}`, name: 'new' }
      const ends = await Promise.all(
        [here, there].map((store) => refusal(store.addPartner(partner, AUDIT), 'partner_exists')),
      )
      assert.equal(ends.filter((end) => end === 'partner_exists').length, 1)
      const tenants = await here.listTenants({ slug: partner.partnerSlug, environment: null }, null)
      assert.deepEqual(tenants.map(({ environment }) => environment).sort(), ['live', 'test'])
    }
    assert.equal((await here.listAudit({ after: null, limit: 1_000 })).length, before + ROUNDS)
  })

  test('who links a user at the same time as another keeps what the other said', async (world) => {
    const { here, there } = await pair(world)
    for (const round of rounds) {
      const partnerUserId = `u-${round}`
      await Promise.all([
        linkWith(here, world.acme, { partnerUserId, email: 'a@example.org' }),
        linkWith(there, world.acme, { partnerUserId, authProvider: 'passkey', consentVersion: 'v2' }),
      ])
      const user = await here.findUser(world.acme, partnerUserId)
      assert.deepEqual([user?.email, user?.authProvider], ['a@example.org', 'passkey'])
      assert.deepEqual(user?.consents.map(({ version }) => version).sort(), ['v1', 'v2'])
      await Promise.all([
        linkWith(here, world.acme, { partnerUserId, email: 'b@example.org' }),
        linkWith(there, world.acme, { partnerUserId, authProvider: 'google' }),
      ])
      const renewed = await there.findUser(world.acme, partnerUserId)
      assert.deepEqual([renewed?.email, renewed?.authProvider], ['b@example.org', 'google'])
    }
    assert.equal((await here.listUsers(world.acme, { after: null, limit: 100 })).length, ROUNDS)
  })

  test('a key that is revoked while it is used stays revoked, and is seen so from then on', async (world) => {
    const { here, there } = await pair(world)
    for (const _ of rounds) {
      const made = keyFor(world.acme)
      const { keyId } = await here.addKey(made, AUDIT)
      let revoked = false
      const use = async (store: Store) => {
        for (let last = false; !last; ) {
          last = revoked
          const seen = await store.findKey(made.sha256)
          if (last) assert.equal(seen?.key.revokedAt, world.now())
          await store.markKeyUsed(world.acme, keyId)
        }
      }
      const revoke = async () => {
        await here.changeKey(
          keyId,
          (key, { clock }) => ({ key: { ...key, revokedAt: clock }, successor: null }),
          AUDIT,
        )
        revoked = true
      }
      await Promise.all([use(here), use(there), use(there), revoke()])
      const seen = await there.findKey(made.sha256)
      assert.deepEqual([seen?.key.revokedAt, seen?.key.lastUsedAt], [world.now(), world.now()])
    }
  })

  test('a key is rotated once', async (world) => {
    const { here, there } = await pair(world)
    const taken = new Error('rotated already')
    for (const _ of rounds) {
      const { keyId } = await here.addKey(keyFor(world.acme), AUDIT)
      const rotate = (store: Store) => {
        const successor = keyFor(world.acme)
        return store.changeKey(
          keyId,
          (key, { isRotated }) => {
            if (isRotated) throw taken
            return { key, successor }
          },
          { ...AUDIT, action: 'key.rotate', subject: keyId },
        )
      }
      const ends = await Promise.allSettled([rotate(here), rotate(there)])
      const refused = ends.filter((end) => end.status === 'rejected')
      assert.deepEqual(each(refused, 'reason'), [taken])
    }
    assert.equal((await here.listKeys('acme')).length, 2 * ROUNDS)
  })

  test('who follows the audit log while others write misses no entry', async (world) => {
    const { here, there } = await pair(world)
    const read = (after: number) => here.listAudit({ after, limit: 1_000 })
    const followed = await read(0)
    let written = false
    const follow = async () => {
      for (let last = false; !last; ) {
        last = written
        followed.push(...(await read(followed.at(-1)?.auditId ?? 0)))
        await setImmediate()
      }
    }
    const write = async () => {
      for (const _ of rounds) {
        const stores = [here, there, here, there, here, there]
        await Promise.all(stores.map((store) => store.addKey(keyFor(world.acme), AUDIT)))
      }
      written = true
    }
    await Promise.all([follow(), write()])
    assert.deepEqual(followed, await read(0))
  })

  test('two who set a tier decide one after the other', async (world) => {
    const { here, there } = await pair(world)
    const [growth] = await here.listTiers()
    assert.ok(growth)
    const raise = (store: Store, fromMonth: string) =>
      store.putTier((versions) => {
        const last = versions.findLast((one) => one.fromMonth === fromMonth) ?? growth
        return { ...last, fromMonth, rateBps: last.rateBps + 1 }
      }, noted)
    for (const round of rounds) {
      const month = `2027-${String(round + 1).padStart(2, '0')}`
      await Promise.all([raise(here, month), raise(there, month)])
      const [set] = (await here.listTiers()).filter(({ fromMonth }) => fromMonth === month)
      assert.equal(set?.rateBps, growth.rateBps + 2)
    }
  })

  test('no plan that is written during a disable is active after it', async (world) => {
    const { here, there, acme } = await pair(world)
    for (const round of rounds) {
      const partnerUserId = `u-${round}`
      const plan = (id: number) => ({ partnerUserId, partnerPlanId: `${partnerUserId}-${id}` })
      await link(here, acme, partnerUserId)
      await Promise.all([0, 1, 2].map((id) => sendPlan(here, acme, plan(id))))
      const writes = [0, 1, 2, 3, 4, 5].map((id) =>
        refusal(
          sendPlan(id % 2 === 0 ? here : there, acme, { ...plan(id), status: 'active' }),
          'user_not_linked',
        ),
      )
      await Promise.all([...writes, setUser(there, acme, partnerUserId, 'disabled')])
    }
    const plans = await allPlans(here)
    assert.ok(plans.length >= 3 * ROUNDS)
    assert.deepEqual(
      plans.filter(({ status }) => status !== 'paused'),
      [],
    )
    assert.equal((await tick(world, '60000')).plansEvaluated, 0)
  })

  test('a disable and a pass at the same time leave nothing open of the user', async (world) => {
    const { here, there, acme } = await pair(world)
    for (const round of [0, 1, 2]) {
      const partnerUserId = `u-${round}`
      await link(here, acme, partnerUserId)
      const ids = plansNamed(20).map((name) => `${partnerUserId}-${name}`)
      await Promise.all(ids.map((partnerPlanId) => sendPlan(here, acme, { partnerUserId, partnerPlanId })))
      world.advance(60_000)
      await Promise.all([tick(world, '60000'), setUser(there, acme, partnerUserId, 'disabled')])
      assert.deepEqual((await here.deliverDue(acme, 500, (one) => one)).executions, [])
      assert.deepEqual(await here.findFaults(), [])
    }
  })

  test('a hold reaches every plan that is written at the same time', async (world) => {
    const { here, there, acme } = await pair(world)
    await link(here, acme)
    const hold = (held: boolean) => here.changePartner('acme', (seen) => ({ ...seen, held }), AUDIT)
    for (const round of rounds) {
      await hold(false)
      const plans = [0, 1, 2].map((id) => sendPlan(there, acme, { partnerPlanId: `p-${round}-${id}` }))
      await Promise.all([...plans, hold(true)])
      world.advance(60_000)
      assert.equal((await tick(world, '60000')).plansEvaluated, 0)
      assert.deepEqual(await here.findFaults(), [])
    }
    await hold(false)
    assert.equal((await tick(world, '60000')).plansEvaluated, 3 * ROUNDS)
  })

  test('what attempts came to is counted, no matter who made them', async (world) => {
    const { here, there, acme } = await pair(world)
    const webhook = await here.changeWebhook(acme, (seen, now) =>
      register(seen, 'https://a.example/', 's', now),
    )
    const attempt = (store: Store) =>
      store.noteAttempt(announced(acme, webhook), UNDELIVERED, (seen, now) =>
        noteAttempt(seen, UNDELIVERED, now),
      )
    await Promise.all(rounds.flatMap(() => [attempt(here), attempt(there)]))
    assert.equal((await here.findWebhook(acme))?.consecutiveFailures, 2 * ROUNDS)
    assert.equal((await there.listDeliveries(acme)).length, 2 * ROUNDS)
    const replaced = (store: Store, secret: string) =>
      store.changeWebhook(acme, (seen, now) => register(seen, 'https://b.example/', secret, now))
    await Promise.all([attempt(here), replaced(there, 'new'), attempt(here)])
    const now = await here.findWebhook(acme)
    assert.deepEqual([now?.secret, now?.consecutiveFailures], ['new', 0])
    assert.equal(now?.createdAt, webhook.createdAt)
  })
}

// Two hosts, and simultaneous changes of one execution, order, window or plan: the ledger is as if one of them had come
// first.

export const executionRaceContract: Contract = (test) => {
  test('one confirmation that reaches two hosts is recorded once, and replayed once', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    await Promise.all(
      due.map(async (one) => {
        const made = await Promise.all(
          [here, there].map((store) => confirmOn(store, world, one, one.executionId)),
        )
        assert.deepEqual(outcomesOf(made), ['recorded', 'replayed'])
      }),
    )
    for (const one of due) assert.equal((await ledgerOf(world, one)).spent, one.amount)
  })

  test('of two orders for one execution one is recorded, and the other kept', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (const one of due) {
      const made = await Promise.all([
        confirmOn(here, world, one, `${one.executionId} a`),
        confirmOn(there, world, one, `${one.executionId} b`),
      ])
      assert.deepEqual(outcomesOf(made), ['execution_recorded', 'recorded'])
      assert.equal((await ledgerOf(world, one)).spent, one.amount)
    }
    assert.equal((await here.listLateFills({ after: null, limit: 100 })).length, PLANS)
  })

  test('an order id that two hosts hear for two executions is recorded for one of them', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (let i = 0; i < PLANS; i += 2) {
      const pair = due.slice(i, i + 2)
      const made = await Promise.all(
        pair.map((one, at) => confirmOn(at === 0 ? here : there, world, one, `o${i}`)),
      )
      assert.deepEqual(outcomesOf(made), ['order_id_taken', 'recorded'])
      const orders = await Promise.all(pair.map((one) => ledgerOf(world, one)))
      assert.equal(orders.filter(({ order }) => order === `o${i}`).length, 1)
    }
  })

  test('an execution that is confirmed while an operator cancels it is one or the other', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (const [i, one] of due.entries()) {
      const cancel = (meanwhile = () => {}) =>
        refusal(
          there.cancelExecution(
            one.executionId,
            (seen, at) => {
              meanwhile()
              return cancelByHand(seen, 'lost', at)
            },
            AUDIT,
          ),
          'execution_recorded',
        )
      const tell = () => confirmOn(here, world, one, one.executionId)
      const [cancelled, made] =
        i % 2 === 0 ? await during(cancel, tell) : await Promise.all([cancel(), tell()])
      const { status, reserved, spent } = await ledgerOf(world, one)
      const expected = made.kind === 'recorded' ? ['filled', 0n, one.amount] : ['cancelled', 0n, 0n]
      assert.deepEqual([status, reserved, spent], expected)
      assert.equal(cancelled, made.kind === 'recorded' ? 'execution_recorded' : null)
      if (made.kind === 'refused') assert.equal(made.reason, 'execution_cancelled')
    }
  })

  test('a trade that is adjusted while its window is confirmed on takes nothing of it away', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (const one of due) await confirmOn(here, world, one, one.executionId)
    world.advance(8 * HOUR_MS)
    await tick(world, '60000')
    const next = await poll(here, world.acme)
    assert.equal(next.length, PLANS)
    for (const [i, one] of due.entries()) {
      const other = next[i] as Execution
      assert.equal(other.windowId, one.windowId)
      await during(
        (meanwhile) => adjustOn(there, one.executionId, '3.00', meanwhile),
        () => confirmOn(here, world, other, other.executionId),
      )
      const { reserved, spent } = await ledgerOf(world, one)
      assert.deepEqual([reserved, spent], [0n, (usd('3.00') + other.amount) as Usd])
    }
  })

  test('a correction that two operators make at once is made once', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (const one of due.slice(0, 4)) {
      await confirmOn(here, world, one, one.executionId)
      const both = [here, there].map((store) => adjustOn(store, one.executionId, '4.00'))
      const ends = await Promise.all(both.map((work) => refusal(work, 'adjustment_conflict')))
      assert.deepEqual(ends.toSorted(), ['adjustment_conflict', null])
    }
  })

  test('adjustments that are made at once have numbers of their own', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (const one of due) await confirmOn(here, world, one, one.executionId)
    const made = await Promise.all(
      due.map(({ executionId }, i) => adjustOn(i % 2 === 0 ? here : there, executionId, '4.00')),
    )
    assert.equal(new Set(made.map(({ adjustment }) => adjustment.adjustmentId)).size, PLANS)
  })

  test('an order that an operator accepts while another execution is confirmed with it is held by one', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (let i = 0; i < PLANS; i += 2) {
      const [one, other] = due.slice(i, i + 2) as [Execution, Execution]
      const order = `o${i}`
      await confirmOn(here, world, one, `first ${i}`)
      assert.equal((await confirmOn(here, world, one, order)).kind, 'refused')
      const [made, accepted] = await Promise.all([
        confirmOn(here, world, other, order),
        refusal(accept({ store: there }, one.executionId), 'order_id_taken'),
      ])
      assert.deepEqual([made.kind, accepted], made.kind === 'recorded' ? RECORDED : ACCEPTED)
    }
  })

  test('an execution that is polled for while an operator accepts a report of it is not handed out afterwards', async (world) => {
    const { here, there } = await hostsWithDue(world, { delivered: false })
    const pending = await allExecutions(here)
    assert.equal(pending.length, PLANS)
    for (const one of pending) await confirmOn(here, world, one, one.executionId)
    await Promise.all([
      ...pending.map(() => poll(here, world.acme, 1)),
      ...pending.map((one) => accept({ store: there }, one.executionId)),
    ])
    world.advance(HOUR_MS)
    assert.deepEqual(await poll(here, world.acme), [])
    const filled = await allExecutions(here)
    assert.ok(filled.every(({ status }) => status === 'filled'))
  })

  test('a plan that is changed while it is confirmed keeps both', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    for (const [i, one] of due.entries()) {
      const change = i % 2 === 0 ? { amount: usd('90.00') } : { status: 'cancelled' as const }
      const [made] = await Promise.all([
        confirmOn(here, world, one, one.executionId),
        sendPlan(there, world.acme, { partnerPlanId: one.partnerPlanId, ...change }),
      ])
      const { status, reserved, spent } = await ledgerOf(world, one)
      const expected = made.kind === 'recorded' ? ['filled', 0n, one.amount] : ['cancelled', 0n, 0n]
      assert.deepEqual([status, reserved, spent], expected)
      if (i % 2 === 0) assert.equal(made.kind, 'recorded', 'a new amount cancels nothing')
      const [plan] = await here.findPlans(one.partnerPlanId)
      assert.equal(plan?.windows[0]?.closed?.at, world.now())
    }
  })

  test('plans that two hosts make under one name are one plan', async (world) => {
    const { here, there } = await hostsWithDue(world)
    for (let i = 0; i < PLANS; i++) {
      const partnerPlanId = `new ${i}`
      await link(here, world.acme, `other ${i}`)
      const refused = await Promise.all([
        refusal(sendPlan(here, world.acme, { partnerPlanId }), 'plan_bound_elsewhere'),
        refusal(
          sendPlan(there, world.acme, { partnerPlanId, partnerUserId: `other ${i}` }),
          'plan_bound_elsewhere',
        ),
      ])
      assert.deepEqual(refused.filter((code) => code === null).length, 1)
      const [plan, another] = await here.findPlans(partnerPlanId)
      assert.deepEqual([plan?.windows.length, another], [1, undefined])
    }
  })

  test('a confirmation while the window of its plan is rolled stays in the window it belongs to', async (world) => {
    const { here, there, due } = await hostsWithDue(world)
    world.advance(DAY_MS)
    const [pass, ...made] = await Promise.all([
      tick({ ...world, store: there }, '60000'),
      ...due.map((one) => confirmOn(here, world, one, one.executionId)),
    ])
    assert.deepEqual([pass.windowsRolled, outcomesOf(made)], [PLANS, due.map(() => 'recorded')])
    for (const one of due) {
      const { reserved, spent } = await ledgerOf(world, one)
      assert.deepEqual([reserved, spent], [0n, one.amount])
      const [plan] = await here.findPlans(one.partnerPlanId)
      assert.deepEqual([plan?.window?.spent, plan?.windows.length], [0n, 2])
    }
  })

  test('polls of two hosts at once share no execution, and miss none', async (world) => {
    const { here, there } = await hostsWithDue(world, { delivered: false })
    for (let round = 0; round < 3; round++) {
      const pages = await Promise.all(
        [here, there, here, there, here, there].map((store) => poll(store, world.acme, 3)),
      )
      const ids = pages.flat().map(({ executionId }) => executionId)
      assert.deepEqual([ids.length, new Set(ids).size], [PLANS, PLANS])
      assert.deepEqual(await poll(there, world.acme), [])
      world.advance(5 * MINUTE_MS)
    }
  })
}

const RECORDED = ['recorded', 'order_id_taken']
const ACCEPTED = ['refused', null]

// Several connections to the same data: a write answered to one is visible to the others, a clock in doubt too, and no
// write comes between.

/** The parameters of rival.ts. The places GO and DONE of `signals` are set to 1, and notified. */
export type RivalData = { backend: string; place: string; verb: 'raise' | 'lock'; signals: Int32Array }
export const GO = 0
export const DONE = 1

/** The time that a decision gives the other writer to come between. */
const CHANCE_MS = 150

/** Starts a thread that has the data open. */
async function rival(t: TestContext, { place }: World, backend: URL, verb: RivalData['verb']) {
  const signals = new Int32Array(new SharedArrayBuffer(8))
  const workerData: RivalData = { backend: backend.href, place, verb, signals }
  const thread = new Worker(new URL('./rival.ts', import.meta.url), { workerData })
  t.after(() => thread.terminate())
  assert.deepEqual(await once(thread, 'message'), ['ready'])
  const ended = once(thread, 'exit')
  const go = () => {
    Atomics.store(signals, GO, 1)
    Atomics.notify(signals, GO)
  }
  return { thread, ended, go, waitForIt: () => Atomics.wait(signals, DONE, 0, CHANCE_MS) }
}

export const connectionContract: Contract = (test) => {
  test('what was answered is there when the store is opened again', async (world) => {
    const { executionId, amount } = await firstTranche(world)
    await report(world.store, world.acme, executionId, filled(amount, 'o1'))
    world.store.close()
    world.store = await world.connect()
    const found = await world.store.findExecution(executionId)
    assert.deepEqual([found?.trade?.report.partnerOrderId, found?.window.spent], ['o1', amount])
  })

  test('a key that was revoked or used, and a partner that was disabled, are seen so at once, by whom it may be', async (world) => {
    const { store, acme, now } = world
    const other = await world.connect()
    for (const writer of [store, other]) {
      await writer.changePartner('acme', (seen) => ({ ...seen, status: 'active' }), AUDIT)
      const made = keyFor(acme)
      const { keyId } = await writer.addKey(made, AUDIT)
      const assertSeen = async (expected: object) => {
        for (const reader of [store, other]) {
          const seen = await reader.findKey(made.sha256)
          const { revokedAt, lastUsedAt } = seen?.key ?? {}
          assert.deepEqual({ revokedAt, lastUsedAt, status: seen?.partnerStatus }, expected)
        }
      }
      await assertSeen({ revokedAt: null, lastUsedAt: null, status: 'active' })
      await writer.markKeyUsed(acme, keyId)
      await assertSeen({ revokedAt: null, lastUsedAt: now(), status: 'active' })
      await writer.changeKey(keyId, (key) => ({ key: { ...key, revokedAt: now() }, successor: null }), AUDIT)
      await assertSeen({ revokedAt: now(), lastUsedAt: now(), status: 'active' })
      await writer.changePartner('acme', (seen) => ({ ...seen, status: 'disabled' }), AUDIT)
      await assertSeen({ revokedAt: now(), lastUsedAt: now(), status: 'disabled' })
    }
  })

  test('of two writers at once neither fails and neither is lost', async (world, { t, backend }) => {
    const { store } = world
    const before = (await store.findPartner('acme'))?.minTranche ?? 0n
    const other = await rival(t, world, backend, 'raise')
    let tries = 0
    await raise(store, () => {
      if (tries++ > 0) return
      other.go()
      other.waitForIt()
    })
    assert.deepEqual(await other.ended, [0])
    assert.equal((await store.findPartner('acme'))?.minTranche, before + 2n * CENT)
  })

  test('the lock of a pass keeps other processes out', async (world, { t, backend }) => {
    const other = await rival(t, world, backend, 'lock')
    const turn = await world.store.takePass()
    assert.ok(turn)
    other.go()
    assert.deepEqual(await once(other.thread, 'message'), ['refused'])
    await other.ended
    await turn.end()
  })
}

// A clock in doubt: the finding of one pass holds for every process, until it is settled.

export const clockContract: Contract = (test) => {
  test('a dispute stands until it is settled, for every connection', async (world) => {
    const { store } = world
    const other = await world.connect()
    const witness = { source: 'feed', at: plus(T0, DAY_MS) }
    const dispute = { clockAt: T0, witness }
    assert.deepEqual(await store.decideDispute((now) => decideDispute(now, witness, null)), dispute)
    for (const one of [store, other]) assert.deepEqual(await one.readClock(), { now: T0, standing: dispute })
    const silent = await other.decideDispute((now, standing) => decideDispute(now, 'silent', standing))
    assert.deepEqual(silent, dispute, 'a silent witness settles nothing')
    assert.equal(await store.decideDispute(() => null), null)
    assert.equal((await other.readClock()).standing, null)
  })

  test('a pass by a disputed clock leaves nothing but the dispute, and closes no month', async (world) => {
    const { store, machine } = await afterFirst(world)
    world.advance(27 * DAY_MS)
    const before = [await store.findPlans('p1'), await store.readMarks()]
    const testimony = { source: 'feed', at: plus(T0, HOUR_MS) }
    const pass = runPass({ store, machine, observe: async () => ({ price: null, testimony }) })
    await assert.rejects(pass, problem('clock_disputed'))
    assert.deepEqual([await store.findPlans('p1'), await store.readMarks()], before)
    const january = { month: '2026-01', start: plus(T0, -4 * DAY_MS), end: plus(T0, 27 * DAY_MS) }
    assert.equal((await store.fixPeriod(january)).final, false)
  })
}
