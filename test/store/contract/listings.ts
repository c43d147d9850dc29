// Listings in pages give every row once, in one order; prices are imported all or none, and never taken from the
// future.

import assert from 'node:assert/strict'
import { acceptLate } from '../../../src/core/corrections/late-fill.ts'
import { price, usd } from '../../../src/core/money.ts'
import { periodOf } from '../../../src/core/month.ts'
import { IMPORTED } from '../../../src/core/price.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../../src/core/time.ts'
import type { PageRequest, Store } from '../../../src/store/store.ts'
import {
  allPages,
  audited,
  type Contract,
  EVERYBODY,
  each,
  enrol,
  enrolAll,
  filled,
  noted,
  plansNamed,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
} from '../world.ts'

const ROWS = 5

const JANUARY = { ...periodOf('2026-01'), final: true }

/** The place that a cursor of this test writes as an instant and an id. */
function placeOf<Name extends string>(after: number | string | null, name: Name) {
  const [at = '0', executionId = ''] = String(after ?? '0').split(' ')
  return { [name]: Number(at) as Instant, executionId } as Record<Name, Instant> & { executionId: string }
}

type Listing = {
  page: (page: PageRequest) => Promise<unknown[]>
  cursor: (row: never) => number | string
}

export const listingContract: Contract = (test) => {
  test('an order leads to its executions: by a trade, a further purchase or a late fill, of whom was asked', async (world) => {
    const { store, acme, bolt } = world
    const ids: Record<string, string> = {}
    for (const [name, tenant] of [
      ['one', acme],
      ['other', bolt],
    ] as const) {
      await enrol(store, tenant)
      await tick(world, '60000')
      const [sent] = await poll(store, tenant)
      ids[name] = sent?.executionId ?? ''
      await report(store, tenant, ids[name], filled(usd('10'), 'o1'))
      await report(store, tenant, ids[name], filled(usd('5'), 'o2'))
    }
    const { one = '', other = '' } = ids
    const found = async (slug: string | null, order: string) =>
      (await store.findByOrder({ slug, environment: null }, order)).map(({ execution, orderIs }) => [
        execution.executionId,
        ...orderIs,
      ])
    assert.deepEqual(await found(null, 'o1'), [
      [one, 'trade'],
      [other, 'trade'],
    ])
    assert.deepEqual(await found('acme', 'o2'), [[one, 'late_fill']])
    await store.acceptLateFill({ executionId: one, reportId: null }, acceptLate, noted)
    assert.deepEqual(await found(null, 'o2'), [
      [one, 'further_purchase', 'late_fill'],
      [other, 'late_fill'],
    ])
    assert.deepEqual(await found('bolt', 'o1'), [[other, 'trade']])
    assert.deepEqual(await found(null, 'O1'), [])
    assert.deepEqual(await store.findByOrder({ slug: 'acme', environment: 'live' }, 'o1'), [])
  })

  test('every listing in pages gives each row once, in order', async (world) => {
    const { store, acme } = world
    for (let i = 0; i < ROWS; i++) {
      await enrol(store, acme, { partnerUserId: `u${i}`, partnerPlanId: `p${i}` })
      await store.addPrice({ price: price(`${60_000 + i}`), source: 'test' })
      world.advance(1)
    }
    await tick(world, '60000')
    const due = await poll(store, acme)
    for (let i = 0; i < ROWS; i++) await setUser(store, acme, `u${i}`, 'disabled')
    for (const one of due) await report(store, acme, one.executionId, filled(usd('10')))
    for (let i = 0; i < ROWS; i++) {
      await setUser(store, acme, `u${i}`, 'linked')
      await sendPlan(store, acme, { partnerUserId: `u${i}`, partnerPlanId: `p${i}`, status: 'active' })
    }
    await tick(world, '60000')
    for (const one of await poll(store, acme)) await report(store, acme, one.executionId, filled(usd('10')))

    const listings: Record<string, Listing> = {
      audit: { page: (page) => store.listAudit(page), cursor: (row: { auditId: number }) => row.auditId },
      users: { page: (page) => store.listUsers(acme, page), cursor: (row: { cursor: number }) => row.cursor },
      plans: {
        page: (page) => store.listPlans(EVERYBODY, page),
        cursor: (row: { planId: number }) => row.planId,
      },
      executions: {
        page: (page) => store.listExecutions({ ...EVERYBODY, status: null, stuck: false }, page),
        cursor: (row: { executionId: string }) => row.executionId,
      },
      "a tenant's plans": {
        page: ({ after, limit }) => store.readPlans(acme, { after: after as string | null, limit }),
        cursor: (row: { partnerPlanId: string }) => row.partnerPlanId,
      },
      "a tenant's users": {
        page: ({ after, limit }) => store.readUsers(acme, { after: after as string | null, limit }),
        cursor: (row: { partnerUserId: string }) => row.partnerUserId,
      },
      "a tenant's executions": {
        page: async ({ after, limit }) =>
          (await store.readExecutions(acme, { after: placeOf(after, 'createdAt'), limit })).executions,
        cursor: (row: { createdAt: number; executionId: string }) => `${row.createdAt} ${row.executionId}`,
      },
      "a tenant's lines": {
        page: ({ after, limit }) =>
          store.readTenantLines(acme, JANUARY, {
            after: { ...placeOf(after, 'recordedAt'), number: 0 },
            limit,
          }),
        cursor: (row: { recordedAt: number; executionId: string }) => `${row.recordedAt} ${row.executionId}`,
      },
      prices: { page: (page) => store.listPrices(page), cursor: (row: { at: number }) => row.at },
      'late fills': {
        page: (page) => store.listLateFills(page),
        cursor: (row: { reportId: number }) => row.reportId,
      },
    }
    for (const [name, { page, cursor }] of Object.entries(listings)) {
      const all = await page({ after: null, limit: 1_000 })
      if (name !== 'audit') assert.ok(all.length >= ROWS, name)
      const cursors = all.map((row) => cursor(row as never))
      const rising = cursors.every((one, i) => i === 0 || one > (cursors[i - 1] ?? one))
      assert.ok(rising, name)
      for (const limit of [1, 2, all.length]) {
        const rows = await allPages(async (last) => {
          const some = await page({ after: last === null ? null : cursor(last as never), limit })
          assert.ok(some.length <= limit, name)
          return some
        })
        assert.deepEqual(rows, all, `${name} by ${limit}`)
      }
    }
  })

  test('windows ahead of their place are listed in pages, to the last', async (world) => {
    const { store, acmeLive, bolt } = world
    for (const tenant of [acmeLive, bolt]) await enrolAll(store, tenant, plansNamed(ROWS))
    world.advance(DAY_MS)
    await tick(world, '60000')
    world.advance(-DAY_MS)
    const found: number[] = []
    for (let after: number | null = null; ; ) {
      const { plans, cursor }: Awaited<ReturnType<typeof store.listAhead>> = await store.listAhead(
        { slug: 'acme', environment: 'live' },
        { after, limit: 2 },
      )
      found.push(...plans.map(({ planId }) => planId))
      assert.ok(found.length <= ROWS, 'plans come twice')
      if (cursor === null) break
      after = cursor
    }
    const plans = await store.listPlans({ slug: 'acme', environment: 'live' }, { after: null, limit: 100 })
    assert.deepEqual(found, each(plans, 'planId'))
  })

  test('a plan is listed with its current window, and one that was cancelled with none', async (world) => {
    const { store, acme } = world
    await enrolAll(store, acme, ['p1', 'p2', 'p3'])
    world.advance(DAY_MS)
    await tick(world, '60000')
    await sendPlan(store, acme, { partnerPlanId: 'p2', status: 'cancelled' })
    const windows = (await store.listPlans(EVERYBODY, { after: null, limit: 10 })).map(({ window }) => window)
    assert.deepEqual(
      windows.map((window) => window && [window.start, window.closed]),
      [[plus(T0, DAY_MS), null], null, [plus(T0, DAY_MS), null]],
    )
  })

  test('executions are listed by their status', async (world) => {
    const { store, acme } = world
    await enrolAll(store, acme, ['p1', 'p2', 'p3'])
    await tick(world, '60000')
    const [first] = await poll(store, acme, 2)
    await report(store, acme, first?.executionId ?? '', filled(usd('10')))
    const count = async (status: 'pending' | 'sent' | 'filled' | 'failed') =>
      (await store.listExecutions({ ...EVERYBODY, status, stuck: false }, { after: null, limit: 10 })).length
    assert.deepEqual(
      [await count('pending'), await count('sent'), await count('filled'), await count('failed')],
      [1, 1, 1, 0],
    )
  })
}

// Prices: listed in order, imported all or none, and never taken from the future.

const at = (hours: number): Instant => plus(T0, hours * HOUR_MS)
const row = (hours: number, usd: string) => ({ at: at(hours), price: price(usd) })
async function* batches(...all: ReturnType<typeof row>[][]) {
  yield* all
}
const listed = async (store: Store) =>
  (await store.listPrices({ after: null, limit: 100 })).map((one) => [one.at, one.price, one.source])

export const priceContract: Contract = (test) => {
  test('a price is removed alone, audited, and the volatility is worked out anew', async (world) => {
    const { store, advance } = world
    for (let i = 0; i < 3; i++) {
      await store.addPrice({ price: price(`${60_000 + i}`), source: 'test' })
      if (i < 2) advance(HOUR_MS)
    }
    await assert.rejects(store.removePrice(at(9), noted), problem('price_not_found'))
    const before = await audited(world)
    const removed = await store.removePrice(at(2), noted)
    assert.deepEqual(removed, { at: at(2), price: price('60002'), source: 'test' })
    assert.equal(await audited(world), before + 1)
    const left = (await listed(store)).map(([when]) => when)
    assert.deepEqual(left, [at(0), at(1)])
    const { volatility } = await store.peekPass()
    assert.deepEqual([volatility.hours, volatility.last?.at], [1, at(1)])
  })

  test('a price ahead of the clock is no price yet, and one from a file hides no lost feed', async (world) => {
    const { store, advance } = world
    const seen = async () => {
      const { now } = await store.readClock()
      const { price: newest, fedAt } = await store.readVitals(now, await store.takeStock(now))
      return [newest?.at ?? null, fedAt]
    }
    assert.deepEqual(await seen(), [null, null])
    await store.addPrice({ price: price('60000'), source: 'coinbase' })
    await store.importPrices(batches([row(1, '61000'), row(2, '62000')]), IMPORTED)
    assert.deepEqual(await seen(), [at(0), at(0)])
    advance(HOUR_MS)
    assert.deepEqual(await seen(), [at(1), at(0)])
    const sampled = await store.samplePrices({ since: at(0), until: at(1) }, 1)
    assert.deepEqual(each(sampled, 'at'), [at(0), at(1)])
  })

  test('an import adds what is not there, and replaces nothing', async ({ store, advance }) => {
    await store.addPrice({ price: price('60000'), source: 'feed' })
    advance(MINUTE_MS)
    const rows = batches([row(1, '61000'), row(0, '50000')], [row(-2, '59000'), row(1, '61000')])
    assert.equal(await store.importPrices(rows, 'file'), 2)
    assert.deepEqual(await listed(store), [
      [at(-2), price('59000'), 'file'],
      [at(0), price('60000'), 'feed'],
      [at(1), price('61000'), 'file'],
    ])
    const { volatility } = await store.peekPass()
    assert.deepEqual([volatility.hours, volatility.last?.at], [3, at(1)], 'worked out anew')
  })

  test('an import that breaks off leaves nothing behind, and the next one may begin', async ({ store }) => {
    const stop = new Error('the file ends here')
    async function* broken() {
      yield [row(0, '60000')]
      const meanwhile = store.importPrices(batches([row(9, '1')]), 'other')
      await assert.rejects(meanwhile, problem('import_running'))
      yield [row(1, '61000')]
      throw stop
    }
    await assert.rejects(store.importPrices(broken(), 'file'), stop)
    assert.deepEqual(await listed(store), [])
    assert.equal(await store.importPrices(batches([row(2, '62000')]), 'file'), 1)
    assert.deepEqual(await listed(store), [[at(2), price('62000'), 'file']])
  })

  test('a pass takes no price that lies ahead of it', async ({ store, advance }) => {
    await store.importPrices(batches([row(0, '60000'), row(1, '61000')]), 'file')
    for (const known of [await store.peekPass(), await store.beginPass(null)])
      assert.deepEqual(known.price, { price: price('60000'), at: at(0) })
    advance(HOUR_MS)
    assert.equal((await store.peekPass()).price?.at, at(1))
  })
}
