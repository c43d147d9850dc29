// What is known at a glance, and what of it every process can read: prices, feeds, polls, orders.

import assert from 'node:assert/strict'
import { LEASE_MS } from '../../../src/core/execution.ts'
import { FEED_PASSES_SEEN } from '../../../src/core/findings.ts'
import { price, usd } from '../../../src/core/money.ts'
import { DAY_MS, MINUTE_MS } from '../../../src/core/time.ts'
import { type Contract, filled, link, openWorld, poll, report, sendPlan, T0, tick } from '../world.ts'

export const vitalsContract: Contract = {
  'vitals: the newest price, the feed that was asked last and since when it is down': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, now } = world
    const vitals = async () => store.readVitals(now(), await store.takeStock(now()))
    const pass = async (failure: string | null) => {
      world.advance(MINUTE_MS)
      const seen = failure === null ? { price: price('60000'), source: 'median' } : null
      await store.beginPass(seen, { name: 'median', failure })
      return now()
    }
    assert.deepEqual([(await vitals()).feed, (await vitals()).price], [null, null])
    const priced = await pass(null)
    assert.deepEqual((await vitals()).feed, { name: 'median', askedAt: priced, down: null })
    const since = await pass('HTTP 500')
    const asked = await pass('HTTP 503')
    // A price given by hand and a pass without a feed say nothing of the feed.
    await tick(world, '61000')
    const { feed, price: newest } = await vitals()
    assert.deepEqual(feed, { name: 'median', askedAt: asked, down: { since, reason: 'HTTP 503' } })
    assert.deepEqual([newest?.at, newest?.source], [now(), 'test'])
    for (let passes = 1; passes < FEED_PASSES_SEEN; passes++) await tick(world)
    assert.equal((await vitals()).feed, null, 'no pass asks it any more')
  },

  'vitals: when a partner was heard of last, what waits for it, and what came of its orders': async (
    t,
    open,
  ) => {
    const world = await openWorld(t, open)
    const { store, acmeLive, now } = world
    const acme = async () => {
      const { partners } = await store.readVitals(now(), await store.takeStock(now()))
      assert.deepEqual(
        partners.map(({ tenant }) => tenant.environment),
        ['live', 'live'],
      )
      return partners.find(({ tenant }) => tenant.tenantId === acmeLive.tenantId)
    }
    const fresh = await acme()
    assert.deepEqual(
      [fresh?.polledAt, fresh?.confirmedAt, fresh?.due, fresh?.plansSince],
      [null, null, 0, null],
    )
    await link(store, acmeLive)
    for (const id of ['p1', 'p2', 'p3']) await sendPlan(store, acmeLive, { partnerPlanId: id })
    await tick(world, '60000')
    world.advance(MINUTE_MS)
    const due = await poll(store, acmeLive)
    const polledAt = now()
    const [first, second] = due
    await report(store, acmeLive, first?.executionId ?? '', filled(usd('10'), 'o1'))
    await report(store, acmeLive, second?.executionId ?? '', {
      status: 'failed',
      partnerOrderId: 'o2',
      executedAt: null,
      failureReason: 'venue closed',
    })
    world.advance(LEASE_MS)
    const seen = await acme()
    assert.deepEqual(
      [seen?.polledAt, seen?.confirmedAt, seen?.due, seen?.oldestDueAt, seen?.plansSince],
      [polledAt, polledAt, 1, T0, T0],
    )
    const reasoned = { commonestReason: 'venue closed' }
    assert.deepEqual(seen?.orders, { filled: 1, failed: 1, newestFailed: false, ...reasoned })
    const fail = async (executionId: string, partnerOrderId: string) =>
      report(store, acmeLive, executionId, {
        status: 'failed',
        partnerOrderId,
        executedAt: null,
        failureReason: 'venue closed',
      })
    const [third] = await poll(store, acmeLive)
    await fail(third?.executionId ?? '', 'o3')
    assert.equal((await acme())?.orders.newestFailed, false, 'one of the newest three was filled')
    world.advance(DAY_MS)
    const later = await acme()
    assert.deepEqual([later?.orders.filled, later?.orders.failed], [0, 0])
    await tick(world, '60000')
    const [next] = await poll(store, acmeLive)
    await fail(next?.executionId ?? '', 'o4')
    assert.deepEqual((await acme())?.orders, { filled: 0, failed: 1, newestFailed: true, ...reasoned })
    // More than the ledger holds: it cannot be kept.
    const executionId = next?.executionId ?? ''
    await report(store, acmeLive, executionId, filled(usd('92233720369'), 'o5'))
    const lateFills = { kept: 0, oldestAt: null, unkept: 1, firstUnkept: executionId }
    assert.deepEqual((await acme())?.lateFills, lateFills)
  },

  'a poll leaves its mark once a minute': async (t, open) => {
    const world = await openWorld(t, open)
    const { store, acmeLive, now } = world
    const polledAt = async () => {
      const { partners } = await store.readVitals(now(), await store.takeStock(now()))
      return partners.find(({ tenant }) => tenant.tenantId === acmeLive.tenantId)?.polledAt
    }
    const pollAfter = async (ms: number) => {
      world.advance(ms)
      await poll(store, acmeLive)
      // Any write behind it: the mark is written beside the poll.
      await store.probeWrite()
      return polledAt()
    }
    assert.equal(await pollAfter(0), T0)
    assert.equal(await pollAfter(MINUTE_MS - 1), T0)
    assert.equal(await pollAfter(1), T0 + MINUTE_MS)
  },

  'a store that is closed leaves the marks of the last polls': async (t, open) => {
    const world = await openWorld(t, open)
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
  },
}
