// Monitoring: its counts, its vitals, and the findings of the check for every rule of the ledger.

import assert from 'node:assert/strict'
import {
  type Confirmation,
  confirm,
  type ExecutionFacts,
  type Report,
} from '../../../src/core/confirmation.ts'
import { adjust } from '../../../src/core/corrections/adjustment.ts'
import { cancelByHand, LEASE_MS } from '../../../src/core/execution.ts'
import { EARLY_FILL_DAYS, EARLY_FILL_MS, FEED_PASSES_SEEN } from '../../../src/core/findings.ts'
import { btc, price, type Usd, usd, ZERO_USD } from '../../../src/core/money.ts'
import { setPartnerStatus, type Tenant } from '../../../src/core/partner.ts'
import { writePlan } from '../../../src/core/plan.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { setUserStatus } from '../../../src/core/user.ts'
import { until } from '../../support/within.ts'
import {
  AUDIT,
  accept,
  afterFirst,
  type Contract,
  each,
  enrol,
  enrolAll,
  failed,
  filled,
  firstTranche,
  keyFor,
  link,
  noted,
  PLAN,
  plansNamed,
  poll,
  report,
  sendPlan,
  T0,
  tick,
  type World,
} from '../world.ts'

const kindsOf = (found: { kind: string }[]) => [...new Set(found.map(({ kind }) => kind))].sort()

type Recorded = Extract<Confirmation, { kind: 'recorded' }>

/** The faults after a confirmation of 10 dollars that `wrong` has changed. */
const afterConfirming = async (world: World, wrong: (made: Recorded) => Recorded): Promise<string[]> => {
  const { store, acme, executionId } = await afterFirst(world)
  const decide = (seen: ExecutionFacts, now: Instant): Confirmation => {
    const made = confirm(seen, filled(usd('10'), 'o1'), now)
    assert.ok(made.kind === 'recorded')
    return wrong(made)
  }
  await store.confirmExecution(acme, { executionId, partnerOrderId: 'o1' }, decide)
  return kindsOf(await store.findFaults())
}

const WRONG_CONFIRMATIONS: [kind: string, wrong: (made: Recorded) => Recorded][] = [
  ['window_spent', (made) => ({ ...made, window: { ...made.window, spent: usd('9') } })],
  ['window_reserved', (made) => ({ ...made, window: { ...made.window, reserved: usd('10') } })],
  ['window_excess', (made) => ({ ...made, window: { ...made.window, spent: usd('6'), excess: usd('4') } })],
  [
    'trade_amount',
    (made) => ({
      ...made,
      window: { ...made.window, spent: usd('11') },
      trade: { ...made.trade, report: filled(usd('11'), 'o1') },
    }),
  ],
  ['trade_received', (made) => ({ ...made, trade: { ...made.trade, receivedAt: made.trade.recordedAt } })],
  ['execution_trade', (made) => ({ ...made, execution: { ...made.execution, status: 'failed' } })],
]

/** A delivered execution of each of so many live plans, fired at a price of 60,000. */
async function liveOut(world: World, plans: number): Promise<string[]> {
  const { store, acmeLive } = world
  await enrolAll(store, acmeLive, plansNamed(plans, 1))
  await tick(world, '60000')
  return (await poll(store, acmeLive)).map(({ executionId }) => executionId)
}

export const monitoringContract: Contract = (test) => {
  test('the check names the rule that a wrong confirmation broke', async (world) => {
    for (const [kind, wrong] of WRONG_CONFIRMATIONS)
      assert.deepEqual(await afterConfirming(await world.another(), wrong), [kind])
    assert.deepEqual(await afterConfirming(world, (made) => made), [])
  })

  test('the check finds open executions of a plan that is cancelled and of a user who is disabled', async (ended) => {
    await firstTranche(ended)
    await ended.store.changePlan(ended.acme, PLAN, (seen, now) => ({
      ...writePlan(seen, { ...PLAN, status: 'cancelled' }, now),
      cancelsExecutions: false,
    }))
    assert.deepEqual(kindsOf(await ended.store.findFaults()), ['execution_open'])
    const left = await ended.another()
    await firstTranche(left)
    await left.store.changeUser(left.acme, 'u1', (seen, now) => ({
      ...setUserStatus(seen, 'disabled', now),
      stopsPlans: false,
    }))
    assert.deepEqual(kindsOf(await left.store.findFaults()), ['execution_open', 'plan_user'])
  })

  test('the check finds a plan without the window it must have, and an adjustment below nothing', async (plan) => {
    await enrol(plan.store, plan.acme)
    await plan.store.changePlan(plan.acme, PLAN, (seen, now) => ({
      ...writePlan(seen, { ...PLAN, amount: usd('70') }, now),
      open: null,
    }))
    assert.deepEqual(kindsOf(await plan.store.findFaults()), ['plan_window'])
    const world = await plan.another()
    const { executionId } = await firstTranche(world)
    await report(world.store, world.acme, executionId, filled(usd('10'), 'o1'))
    const none = { usd: ZERO_USD, btc: 0n as never }
    const origin = { reason: 'wrong', reportId: null, partnerOrderId: null, fill: null }
    const below = (text: string) =>
      world.store.adjustTrade(
        executionId,
        ({ window, latestId }, recordedAt) => {
          assert.ok(window)
          const change = { ...none, usd: usd(text), adjustmentId: latestId + 1, executionId, recordedAt }
          return {
            window: { ...window, spent: (window.spent + change.usd) as Usd },
            adjustment: { ...change, ...origin },
            before: none,
            after: none,
            odd: null,
          }
        },
        noted,
      )
    await assert.rejects(below('-11'), 'a window never spends less than nothing')
    await below('-10')
    assert.deepEqual(kindsOf(await world.store.findFaults()), ['adjustment_amount'])
  })

  test('warnings name keys that end, executions nobody confirms and fills nobody decided on', async (world) => {
    const { store, acme, acmeLive } = world
    for (const tenant of [acme, acmeLive]) await enrol(store, tenant)
    await tick(world, '60000')
    const named = ['executions_stuck', 'key_ends', 'late_fills']
    const warned = async () => kindsOf(await store.findWarnings()).filter((kind) => named.includes(kind))
    const neglect = async (tenant: Tenant) => {
      await store.addKey(keyFor(tenant, { lifetimeMs: HOUR_MS }), AUDIT)
      for (let i = 0; i < 5; i++) {
        world.advance(LEASE_MS)
        await poll(store, tenant)
      }
      const stuck = { slug: 'acme', environment: tenant.environment, status: null, stuck: true }
      const [execution] = await store.listExecutions(stuck, { after: null, limit: 1 })
      await report(store, tenant, execution?.executionId ?? '', filled(usd('11'), 'o1'))
    }
    assert.deepEqual(await warned(), [])
    await store.changePartner('acme', (seen) => ({ ...seen, held: true }), AUDIT)
    await poll(store, acmeLive)
    await neglect(acme)
    const ofTest = (await store.findWarnings()).filter(({ tenant }) => tenant?.environment === 'test')
    assert.deepEqual(ofTest, [], 'a test environment sets off no alarm')
    await neglect(acmeLive)
    assert.deepEqual(await warned(), named)
  })

  test('a fill from before its execution is named for thirty days, while it is one: recorded, or kept', async (world) => {
    const { store, acmeLive: tenant } = world
    const [early = '', timely = '', late = '', failing = ''] = await liveOut(world, 4)
    world.advance(MINUTE_MS)
    const dated = (ms: number, order: string) => ({ ...filled(usd('10'), order), executedAt: plus(T0, -ms) })
    const named = async () =>
      (await store.findWarnings()).filter(({ kind }) => kind === 'fill_early').map(({ subject }) => subject)
    await report(store, tenant, early, dated(EARLY_FILL_MS + 1, 'o1'))
    await report(store, tenant, timely, dated(EARLY_FILL_MS, 'o2'))
    await report(store, tenant, failing, { ...failed('o3'), executedAt: plus(T0, -HOUR_MS) })
    const subjects = [late, early].map((id) => `acme live execution ${id}`)
    assert.deepEqual(await named(), subjects.slice(1))
    await store.cancelExecution(late, (seen, at) => cancelByHand(seen, 'lost', at), AUDIT)
    await report(store, tenant, late, dated(HOUR_MS, 'o4'))
    assert.deepEqual((await named()).sort(), subjects.toSorted())
    await accept(world, late)
    assert.deepEqual((await named()).sort(), subjects.toSorted(), 'accepted as well')
    const none = { usd: ZERO_USD, btc: 0n as never, reason: 'of another order' }
    await store.adjustTrade(late, (seen, now) => adjust(seen, none, now), noted)
    assert.deepEqual(await named(), subjects.slice(1), 'nothing was bought for it')
    world.advance(EARLY_FILL_DAYS * DAY_MS)
    assert.deepEqual(await named(), subjects.slice(1))
    world.advance(1)
    assert.deepEqual(await named(), [])
  })

  test('a fill at an odd price is named, by the price its tranche saw or else the stored one, and as it was adjusted', async (world) => {
    const { store, acmeLive: tenant } = world
    await tick(world, '50000')
    world.advance(MINUTE_MS)
    const [saw = '', alike = ''] = await liveOut(world, 2)
    await sendPlan(store, tenant, { partnerPlanId: 'clock' })
    world.advance(12 * HOUR_MS)
    await tick(world)
    const blind = (await poll(store, tenant)).find(({ firing }) => firing.price === null)?.executionId ?? ''
    const at = (executionPrice: string, coins: string): Report => ({
      ...filled(usd('10')),
      executionPrice: price(executionPrice),
      btcAmount: btc(coins),
    })
    const named = async () =>
      (await store.findWarnings())
        .filter(({ kind }) => kind === 'trade_price')
        .map(({ subject, message }) => [subject, message])
    await report(store, tenant, alike, at('60000', '0.00016666'))
    for (const id of [saw, blind]) await report(store, tenant, id, at('0.00064', '15625'))
    const words =
      'is confirmed as 10.00 USD for 15625.00000000 BTC at 0.00064, while the market was at 60000.00' +
      ': ask the partner what unit its figures have'
    const odd = [saw, blind].map((id) => [`trade ${id}`, words])
    assert.deepEqual(await named(), odd)
    const to = (id: string, coins: string) =>
      store.adjustTrade(
        id,
        (seen, now) => adjust(seen, { usd: usd('10'), btc: btc(coins), reason: 'satoshis' }, now),
        noted,
      )
    for (const id of [saw, blind]) await to(id, '0.00016666')
    assert.deepEqual(await named(), [])
    await to(alike, '1000')
    const [[subject, message = ''] = []] = await named()
    assert.equal(subject, `trade ${alike}`)
    const contradict =
      /^is adjusted to 10\.00 USD for 1000\.0{8} BTC at 60000\.00, which contradict each other/
    assert.match(message, contradict)
  })

  test('the backlog is what is open and what a poll would be handed', async (world) => {
    const { store, acme, bolt, now } = world
    for (const tenant of [acme, bolt]) await enrol(store, tenant)
    await tick(world, '60000')
    const backlog = async () => {
      const { test, live } = await store.readBacklog(now())
      assert.deepEqual(live, { open: 0, due: 0, oldestDueAt: null })
      return [test.open, test.due, test.oldestDueAt]
    }
    assert.deepEqual(await backlog(), [2, 2, T0])
    world.advance(MINUTE_MS)
    const [mine] = await poll(store, acme)
    assert.deepEqual(await backlog(), [2, 1, T0])
    world.advance(LEASE_MS - 1)
    await poll(store, bolt)
    assert.deepEqual(await backlog(), [2, 0, null])
    world.advance(1)
    assert.deepEqual(await backlog(), [2, 1, T0])
    await report(store, acme, mine?.executionId ?? '', filled(usd('10')))
    assert.deepEqual(await backlog(), [1, 0, null])
    world.advance(LEASE_MS)
    assert.deepEqual(await backlog(), [1, 1, T0])
    // A disabled partner cannot poll.
    await store.changePartner('bolt', (partner, at) => setPartnerStatus(partner, 'disabled', at), AUDIT)
    assert.deepEqual(await backlog(), [1, 0, null])
  })

  test('counts go on from where they were read last', async (world) => {
    const { store, acme, acmeLive } = world
    assert.deepEqual(await store.readMarks(), { executionId: null, passId: 0 })
    await firstTranche(world)
    const marks = await store.readMarks()
    assert.deepEqual((await store.countExecutionsAfter(null)).created, { test: 1, live: 0 })
    await enrol(store, acmeLive)
    await sendPlan(store, acme, { partnerPlanId: 'paused', status: 'paused' })
    await sendPlan(store, acme, { partnerPlanId: 'over', status: 'cancelled' })
    world.advance(MINUTE_MS)
    await tick(world, '60000')
    const { created, last } = await store.countExecutionsAfter(marks.executionId)
    assert.deepEqual([created, last], [{ test: 0, live: 1 }, (await store.readMarks()).executionId])
    const passes = await store.listPassesAfter(marks.passId)
    assert.deepEqual(each(passes, 'at', 'finishedAt'), [[world.now(), world.now()]])
    assert.deepEqual((await store.takeStock(world.now())).plans, {
      test: { active: 1, paused: 1, cancelled: 1 },
      live: { active: 1, paused: 0, cancelled: 0 },
    })
  })

  test('a probe writes and leaves nothing, and no gap in the numbers of passes', async (world) => {
    const { store } = await afterFirst(world)
    const { passId } = await store.readMarks()
    const seen = async () => [
      await store.readMarks(),
      await store.listPassesAfter(0),
      await store.readScheduler(),
      await store.findFaults(),
    ]
    const before = await seen()
    await store.probeWrite()
    await Promise.all([store.probeWrite(), store.probeWrite()])
    assert.deepEqual(await seen(), before)
    assert.equal((await tick(world)).passId, passId + 1)
  })

  test('what happened lately is the latest there is: passes oldest first, executions newest first', async (world) => {
    const { store, acme } = world
    await link(store, acme)
    for (const id of ['p1', 'p2', 'p3']) {
      await sendPlan(store, acme, { partnerPlanId: id })
      await tick(world, '60000')
      world.advance(MINUTE_MS)
    }
    const { passes, executions } = await store.readRecent({ passes: 2, executions: 2 })
    const [second, third] = [plus(T0, MINUTE_MS), plus(T0, 2 * MINUTE_MS)]
    assert.deepEqual(each(passes, 'at', 'finishedAt', 'plansEvaluated', 'executionsCreated'), [
      [second, second, 1, 1],
      [third, third, 1, 1],
    ])
    assert.deepEqual(each(executions, 'partnerPlanId', 'tenant', 'status'), [
      ['p3', 'acme test', 'pending'],
      ['p2', 'acme test', 'pending'],
    ])
  })

  test('the latest tranche of live partners is the latest, whoever fired first', async (world) => {
    const { store, acme, acmeLive } = world
    const boltLive = await store.findTenant('bolt', 'live')
    assert.ok(boltLive)
    for (const [i, tenant] of [acmeLive, boltLive, acmeLive, acme].entries()) {
      await enrol(store, tenant, { partnerPlanId: `p${i + 1}` })
      await tick(world, '60000')
      world.advance(MINUTE_MS)
    }
    assert.deepEqual(each(await store.listTranches(1), 'partnerPlanId'), ['p3'])
    assert.equal((await store.readScheduler()).waitingSince, T0)
  })
}

// The vitals, and the part of them that every process can read: prices, feeds, polls, orders.

/** What is known of a live partner. */
export const vitalsOf = async ({ store, now }: World, { tenantId }: Tenant) => {
  const { partners } = await store.readVitals(now(), await store.takeStock(now()))
  assert.ok(partners.every(({ tenant }) => tenant.environment === 'live'))
  return partners.find(({ tenant }) => tenant.tenantId === tenantId)
}

export const vitalsContract: Contract = (test) => {
  test('vitals: the newest price, the feed that was asked last and since when it is down', async (world) => {
    const { store, now } = world
    const vitals = async () => store.readVitals(now(), await store.takeStock(now()))
    const pass = async (failure: string | null) => {
      world.advance(MINUTE_MS)
      const seen = failure === null ? { price: price('60000'), source: 'median' } : null
      await store.beginPass(seen, { name: 'median', failure })
      return now()
    }
    assert.deepEqual([(await vitals()).feed, (await vitals()).price], [null, null])
    const first = await pass('no answer')
    assert.deepEqual((await vitals()).feed?.down, { since: first, reason: 'no answer' }, 'never a price yet')
    const priced = await pass(null)
    assert.deepEqual((await vitals()).feed, { name: 'median', askedAt: priced, down: null })
    const since = await pass('HTTP 500')
    const asked = await pass('HTTP 503')
    // A manual price and a pass without a feed do not affect the feed.
    await tick(world, '61000')
    const { feed, price: newest } = await vitals()
    assert.deepEqual(feed, { name: 'median', askedAt: asked, down: { since, reason: 'HTTP 503' } })
    assert.deepEqual([newest?.at, newest?.source], [now(), 'test'])
    for (let passes = 1; passes < FEED_PASSES_SEEN; passes++) await tick(world)
    assert.equal((await vitals()).feed, null, 'no pass asks it any more')
  })

  test('vitals: when a partner was heard of last, what waits for it, and what came of its orders', async (world) => {
    const { store, acmeLive, now } = world
    const acme = () => vitalsOf(world, acmeLive)
    const fresh = await acme()
    assert.deepEqual(
      [fresh?.polledAt, fresh?.confirmedAt, fresh?.due, fresh?.plansSince],
      [null, null, 0, null],
    )
    await enrolAll(store, acmeLive, ['p1', 'p2', 'p3'])
    await tick(world, '60000')
    world.advance(MINUTE_MS)
    const due = await poll(store, acmeLive)
    const polledAt = now()
    const [first, second] = due
    await report(store, acmeLive, first?.executionId ?? '', filled(usd('10'), 'o1'))
    await report(store, acmeLive, second?.executionId ?? '', failed('o2'))
    world.advance(LEASE_MS)
    const seen = await acme()
    assert.deepEqual(
      [seen?.polledAt, seen?.confirmedAt, seen?.due, seen?.oldestDueAt, seen?.plansSince],
      [polledAt, polledAt, 1, T0, T0],
    )
    const reasoned = { commonestReason: 'venue is down' }
    assert.deepEqual(seen?.orders, { filled: 1, failed: 1, newestFailed: false, ...reasoned })
    const [third] = await poll(store, acmeLive)
    await report(store, acmeLive, third?.executionId ?? '', failed('o3'))
    assert.equal((await acme())?.orders.newestFailed, false, 'one of the newest three was filled')
    world.advance(DAY_MS)
    const later = await acme()
    assert.deepEqual([later?.orders.filled, later?.orders.failed], [0, 0])
    await tick(world, '60000')
    const [next] = await poll(store, acmeLive)
    await report(store, acmeLive, next?.executionId ?? '', failed('o4'))
    assert.deepEqual((await acme())?.orders, { filled: 0, failed: 1, newestFailed: true, ...reasoned })
    // More than the ledger holds: it cannot be stored.
    const executionId = next?.executionId ?? ''
    await report(store, acmeLive, executionId, filled(usd('92233720369'), 'o5'))
    const lateFills = { kept: 0, oldestAt: null, unkept: 1, firstUnkept: executionId }
    assert.deepEqual((await acme())?.lateFills, lateFills)
  })

  test('a poll leaves its mark once a minute', async (world) => {
    const { store, acmeLive } = world
    const polledAt = async () => (await vitalsOf(world, acmeLive))?.polledAt
    const pollAfter = (ms: number) => {
      world.advance(ms)
      return poll(store, acmeLive)
    }
    // The mark is written concurrently with the poll, on a server over another session.
    const isMarked = (at: Instant) => until(10_000, 'the mark', async () => (await polledAt()) === at)
    await pollAfter(0)
    await isMarked(T0)
    await pollAfter(MINUTE_MS - 1)
    await store.probeWrite()
    assert.equal(await polledAt(), T0)
    await pollAfter(1)
    await isMarked(plus(T0, MINUTE_MS))
  })

  test('a store that is closed leaves the marks of the last polls', async (world) => {
    const { acmeLive, now } = world
    const store = await world.connect()
    const boltLive = await store.findTenant('bolt', 'live')
    assert.ok(boltLive)
    await poll(store, acmeLive)
    world.advance(2_000)
    await poll(store, boltLive)
    await poll(store, acmeLive)
    await store.close()
    const { partners } = await world.store.readVitals(now(), await world.store.takeStock(now()))
    const marks = partners.map(({ tenant, polledAt }) => [tenant.partnerSlug, polledAt])
    assert.deepEqual(marks.sort(), [
      ['acme', T0 + 2_000],
      ['bolt', T0 + 2_000],
    ])
  })
}

// Results of the jobs beside the scheduler: the newest of each on each host, for every process.

const RESULT = { host: '', beginsAt: null, endsAt: plus(T0, HOUR_MS), message: '' }
const resultsOf = async ({ store }: World) => {
  const { now } = await store.readClock()
  return (await store.readVitals(now, await store.takeStock(now))).results
}

export const resultsContract: Contract = (test) => {
  test('the newest result of a job replaces the one before, and keeps when it last went well', async (world) => {
    const { store } = world
    assert.deepEqual(await resultsOf(world), [])
    const check = { ...RESULT, job: 'check', backups: null } as const
    await store.noteResult({ ...check, ok: true })
    assert.deepEqual(await resultsOf(world), [{ ...check, ok: true, at: T0, wellAt: T0 }])
    world.advance(HOUR_MS)
    const failed = { ...check, ok: false, endsAt: null, message: '1 error (trade_changed)' }
    await (await world.connect()).noteResult(failed)
    assert.deepEqual(await resultsOf(world), [{ ...failed, at: plus(T0, HOUR_MS), wellAt: T0 }])
    // A message that is too long to store is cut between two characters.
    await store.noteResult({ ...failed, message: '\u{1f4b0}'.repeat(1_000) })
    assert.equal((await resultsOf(world))[0]?.message, '\u{1f4b0}'.repeat(300))
  })

  test('a backup that failed keeps the newest good one, and on which host it is', async (world) => {
    const { store } = world
    const backup = { ...RESULT, job: 'backup' } as const
    const seen = async () => (await resultsOf(world))[0]?.backups
    const made = { folder: '/b', newest: { file: '/b/1.db', host: 'a' } }
    await store.noteResult({ ...backup, ok: true, backups: made })
    assert.deepEqual(await seen(), made)
    await store.noteResult({ ...backup, ok: false, backups: { folder: '/c', newest: null } })
    assert.deepEqual(await seen(), { ...made, folder: '/c' })
    assert.deepEqual((await store.findResult('backup', ''))?.backups, { ...made, folder: '/c' })
    const next = { folder: '/c', newest: { file: '/c/2.db', host: null } }
    await store.noteResult({ ...backup, ok: true, backups: next })
    assert.deepEqual(await seen(), next)
  })

  test('each host has a result of its own, and a machine forgets its certificates', async (world) => {
    const { store } = world
    const certificate = {
      job: 'certificate',
      ok: true,
      endsAt: T0,
      message: 'DNS:api.example',
      backups: null,
    } as const
    for (const host of ['b:1', 'a:1', 'a:2', 'a.b:1']) await store.noteResult({ ...certificate, host })
    await store.noteResult({ ...certificate, job: 'check', host: 'a:1' })
    const names = async () => (await resultsOf(world)).map(({ job, host }) => `${job} ${host}`)
    assert.deepEqual(await names(), [
      'certificate a.b:1',
      'certificate a:1',
      'certificate a:2',
      'certificate b:1',
      'check a:1',
    ])
    await store.forgetCertificates('a')
    await store.forgetCertificates('nobody')
    assert.deepEqual(await names(), ['certificate a.b:1', 'certificate b:1', 'check a:1'])
  })
}
