// Billing months: half-open, closed for good with all before them, and the same to the line as in sum.

import assert from 'node:assert/strict'
import type { NoFill, Report } from '../../../src/core/confirmation.ts'
import { creditOf, type Issued, type Series } from '../../../src/core/invoice.ts'
import { isUsable } from '../../../src/core/key.ts'
import { btc, type Usd, usd } from '../../../src/core/money.ts'
import { type FixedPeriod, type Period, periodOf } from '../../../src/core/month.ts'
import { DAY_MS, HOUR_MS, type Instant, MINUTE_MS, plus } from '../../../src/core/time.ts'
import { advanceSandbox } from '../../../src/engine/sandbox.ts'
import type { Store, TenantFilter, TradeLine } from '../../../src/store/store.ts'
import { damage } from '../damage.ts'
import {
  AUDIT,
  adjustTo,
  allExecutions,
  allPages,
  type Contract,
  EVERYBODY,
  each,
  enrol,
  failed,
  filled,
  keyFor,
  link,
  noted,
  PAGE,
  poll,
  problem,
  report,
  sendPlan,
  setUser,
  T0,
  tick,
  type World,
} from '../world.ts'
import { adjusted, delivered } from './executions.ts'

const JANUARY = periodOf('2026-01')
const FEBRUARY = periodOf('2026-02')
const whole = (period: Period): FixedPeriod => ({ ...period, final: true })

const JANUARY_WHOLE = whole(JANUARY)

/** All trade lines of January, read in pages of `limit`. */
const linesOf = ({ store }: World, limit: number): Promise<TradeLine[]> =>
  allPages((after) => store.readTradeLines(JANUARY_WHOLE, EVERYBODY, { after, limit }))

export const monthContract: Contract = (test) => {
  test('a month has its first millisecond and not that of the next', async (world) => {
    const { store, acme } = world
    const instants = [plus(JANUARY.end, -1), JANUARY.end, plus(FEBRUARY.end, -1), FEBRUARY.end]
    for (const [i, at] of instants.entries()) {
      world.setClock(at)
      await link(store, acme, `u${i}`)
      const plan = { partnerUserId: `u${i}`, partnerPlanId: `p${i}` }
      await sendPlan(store, acme, plan)
      await tick(world, '60000')
      const [mine] = (await poll(store, acme)).filter(({ partnerPlanId }) => partnerPlanId === `p${i}`)
      await report(store, acme, mine?.executionId ?? '', filled(usd(`${i + 1}`)))
      await sendPlan(store, acme, { ...plan, status: 'paused' })
    }
    for (const [period, fills] of [
      [JANUARY, [0]],
      [FEBRUARY, [1, 2]],
    ] as const) {
      const { activity, users } = await store.readActivity(acme, whole(period))
      const volume = usd(`${fills.reduce<number>((sum, i) => sum + i + 1, 0)}`)
      assert.deepEqual([activity.executionsFilled, activity.volume], [fills.length, volume])
      assert.deepEqual([activity.activeUsers, activity.activePlans], [fills.length, fills.length])
      const lines = await store.readTradeLines(whole(period), EVERYBODY, { after: null, limit: 10 })
      const [names, times] = [fills.map((i) => `u${i}`), fills.map((i) => instants[i])]
      assert.deepEqual(each(users, 'partnerUserId'), names)
      assert.deepEqual(each(lines, 'recordedAt'), times)
      assert.equal(await store.countTradeLines(whole(period), EVERYBODY), fills.length)
    }
  })

  test('a month counts every outcome, of its own tenant', async (world) => {
    const { store, acme, acmeLive, bolt } = world
    const ids = await delivered(world, acme, 6)
    const calledOff: Report = { ...(failed() as NoFill), status: 'cancelled' }
    const said = [filled(usd('10')), filled(usd('4'), 'o2', 'partial'), failed(), calledOff]
    for (const [i, one] of said.entries()) await report(store, acme, ids[i] ?? '', one)
    await setUser(store, acme, 'u5', 'disabled')
    for (const stranger of [acmeLive, bolt]) {
      const [theirs = ''] = await delivered(world, stranger, 2)
      await report(store, stranger, theirs, filled(usd('9')))
      await setUser(store, stranger, 'u2', 'disabled')
    }
    const { activity, users } = await store.readActivity(acme, JANUARY_WHOLE)
    assert.deepEqual(activity, {
      activeUsers: 2,
      activePlans: 2,
      executionsCreated: 6,
      executionsFilled: 1,
      executionsPartial: 1,
      executionsFailed: 1,
      executionsCancelled: 2,
      volume: usd('14'),
      btc: btc('0.0002'),
      partnerFees: 0n,
    })
    assert.deepEqual(each(users, 'partnerUserId', 'trades', 'volume'), [
      ['u1', 1, usd('10')],
      ['u2', 1, usd('4')],
    ])
    const outside = await store.readActivity(acme, whole(FEBRUARY))
    assert.deepEqual([outside.users, outside.activity.executionsCancelled], [[], 0])
  })

  test('an adjustment counts in the month it was made in, and makes nobody active', async (world) => {
    const { store, acme } = world
    const [id = '', other = ''] = await delivered(world, acme, 2)
    for (const one of [id, other]) await report(store, acme, one, filled(usd('10')))
    world.setClock(plus(FEBRUARY.start, HOUR_MS))
    await adjustTo(world, id, '7')
    assert.equal((await store.readActivity(acme, JANUARY_WHOLE)).activity.volume, usd('20'))
    const { activity, users } = await store.readActivity(acme, whole(FEBRUARY))
    assert.deepEqual([activity.volume, activity.activeUsers, activity.executionsFilled], [usd('-3'), 0, 0])
    assert.deepEqual(each(users, 'partnerUserId', 'trades', 'volume'), [['u1', 0, usd('-3')]])
  })

  test('pages of trade lines neither repeat nor skip, whatever shares a millisecond', async (world) => {
    const { store, bolt } = world
    await adjusted(world)
    const all = await linesOf(world, 1_000)
    assert.equal(all.length, 16)
    assert.equal(await store.countTradeLines(JANUARY_WHOLE, EVERYBODY), all.length)
    const keys = all.map(({ recordedAt, executionId, entry }) =>
      [recordedAt, executionId, entry.kind === 'trade' ? 0 : entry.adjustment.adjustmentId].join(),
    )
    assert.deepEqual(keys, [...keys].sort(), 'by instant, execution, and the trade before its adjustments')
    assert.equal(new Set(keys).size, keys.length)
    for (const limit of [1, 2, 3, 5]) assert.deepEqual(await linesOf(world, limit), all)
    const mine = all.filter(({ tenant }) => tenant.tenantId === bolt.tenantId)
    const read = await store.readTradeLines(JANUARY_WHOLE, { slug: 'bolt', environment: 'test' }, PAGE)
    assert.deepEqual(read, mine)
  })

  test('a month that was reported as final gains nothing, whatever the clock does', async (world) => {
    const { store, acme } = world
    const [first = '', second = ''] = await delivered(world, acme, 2)
    await report(store, acme, first, filled(usd('10')))
    world.setClock(plus(JANUARY.end, MINUTE_MS))
    await tick(world, '60000')
    assert.deepEqual(await store.fixPeriod(JANUARY), JANUARY_WHOLE)
    const billed = await store.readActivity(acme, JANUARY_WHOLE)
    world.setClock(plus(JANUARY.end, -HOUR_MS))
    await report(store, acme, second, filled(usd('10')))
    await adjustTo(world, first, '9')
    await setUser(store, acme, 'u1', 'disabled')
    assert.deepEqual(await store.readActivity(acme, JANUARY_WHOLE), billed)
    assert.deepEqual(await store.fixPeriod(JANUARY), JANUARY_WHOLE, 'final for good')
    const february = await store.readActivity(acme, whole(FEBRUARY))
    assert.deepEqual([february.activity.executionsFilled, february.activity.volume], [1, usd('9')])
  })

  test('the clock alone makes no month final', async (world) => {
    const { store } = world
    world.setClock(plus(JANUARY.end, -1))
    await tick(world, '60000')
    world.setClock(JANUARY.end)
    assert.deepEqual(await store.fixPeriod(JANUARY), { ...JANUARY, final: false })
    assert.equal((await store.fixPeriod(FEBRUARY)).end, JANUARY.end)
    await tick(world, '60000')
    assert.equal((await store.fixPeriod(JANUARY)).final, true)
  })

  test('what a report of the present month covers gains nothing either', async (world) => {
    const { store, acme } = world
    const [first = '', second = ''] = await delivered(world, acme, 2)
    await report(store, acme, first, filled(usd('10')))
    const period = await store.fixPeriod(JANUARY)
    assert.deepEqual([period.final, period.end], [false, plus(world.now(), 1)])
    await report(store, acme, second, filled(usd('10')))
    assert.equal((await store.readActivity(acme, period)).activity.executionsFilled, 1)
    assert.equal(await store.countTradeLines(period, EVERYBODY), 1)
  })

  test('a sandbox closes its months for itself alone', async (world) => {
    const { store, machine, acme, acmeLive } = world
    const [mine = ''] = await delivered(world, acme, 1)
    const [live = ''] = await delivered(world, acmeLive, 1)
    const options = { store, machine, tenant: acme, price: null, audit: AUDIT, onProgress: () => {} }
    await advanceSandbox({ ...options, byMs: JANUARY.end - world.now() + HOUR_MS })
    assert.equal((await store.fixPeriod(JANUARY, acme)).final, true)
    assert.equal((await store.fixPeriod(JANUARY)).final, false)
    assert.equal((await store.fixPeriod(JANUARY, acmeLive)).final, false)
    await report(store, acme, mine, filled(usd('10')))
    await report(store, acmeLive, live, filled(usd('10')))
    const recordedAt = async (id: string): Promise<Instant | undefined> =>
      (await store.findExecution(id))?.trade?.recordedAt
    assert.equal(await recordedAt(live), world.now(), 'live business is where it was')
    assert.equal(await recordedAt(mine), plus(JANUARY.end, HOUR_MS))
    assert.equal((await allExecutions(store)).length > 2, true)
  })

  test('a partner is part of the months since it was there', async ({ store, setClock }) => {
    setClock(JANUARY.end)
    await store.addPartner({ partnerSlug: 'late', name: 'late' }, AUDIT)
    const named = async (filter: TenantFilter, before: Instant | null) =>
      (await store.listTenants(filter, before)).map((one) => `${one.partnerSlug} ${one.environment}`)
    const first = ['acme live', 'acme test', 'bolt live', 'bolt test']
    assert.deepEqual(await named(EVERYBODY, JANUARY.end), first)
    assert.deepEqual(await named(EVERYBODY, plus(JANUARY.end, 1)), [...first, 'late live', 'late test'])
    assert.deepEqual(await named({ slug: 'late', environment: 'live' }, null), ['late live'])
  })

  test('a key is judged by no time before what was reported, wherever the clock is', async (world) => {
    const { store, acme, now } = world
    const key = keyFor(acme, { lifetimeMs: JANUARY.end - now() })
    await store.addKey(key, AUDIT)
    world.setClock(JANUARY.end)
    await tick(world, '60000')
    assert.equal((await store.fixPeriod(JANUARY)).final, true)
    world.setClock(plus(JANUARY.start, HOUR_MS))
    const seen = await store.findKey(key.sha256)
    assert.deepEqual([seen?.now, seen && isUsable(seen.key, seen.now)], [JANUARY.end, false])
  })
}

// Months that are final because a later one is: they are not closed separately, and nothing is added to them.

/** An execution that waits to be confirmed. */
async function deliveredOne(world: World): Promise<string> {
  const { store, acmeLive } = world
  await enrol(store, acmeLive)
  await tick(world, '60000')
  return (await poll(store, acmeLive))[0]?.executionId ?? ''
}

export const earlierMonthContract: Contract = (test) => {
  test('a month before one that was reported as final is final as well', async (world) => {
    const { store, acmeLive } = world
    const id = await deliveredOne(world)
    world.setClock(plus(FEBRUARY.end, MINUTE_MS))
    await tick(world, '60000')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, FEBRUARY), whole(FEBRUARY))
    world.setClock(plus(JANUARY.end, -HOUR_MS))
    for (const period of [JANUARY, periodOf('0001-01')]) {
      assert.deepEqual(await store.fixTenantPeriod(acmeLive, period), whole(period))
      assert.deepEqual(await store.fixPeriod(period), whole(period))
    }
    await report(store, acmeLive, id, filled(usd('10')))
    assert.equal((await store.findExecution(id))?.trade?.recordedAt, FEBRUARY.end)
  })

  test('months before the first partner are closed together, and none after them', async (world) => {
    const { store, acmeLive } = world
    const id = await deliveredOne(world)
    world.setClock(plus(JANUARY.end, MINUTE_MS))
    await tick(world, '60000')
    const old = periodOf('1969-12')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, old), whole(old))
    const back = plus(JANUARY.end, -HOUR_MS)
    world.setClock(back)
    const december = periodOf('2025-12')
    assert.deepEqual(await store.fixTenantPeriod(acmeLive, december), whole(december))
    assert.equal((await store.fixTenantPeriod(acmeLive, JANUARY)).final, false)
    await report(store, acmeLive, id, filled(usd('10')))
    assert.equal((await store.findExecution(id))?.trade?.recordedAt, back)
  })
}

// Invoices and credit notes: numbers without a gap, each given once however often it is requested, and never changed.

const SERIES: Series = { prefix: 'R-', first: 7, digits: 3 }
const OTHER: Series = { prefix: 'X-', first: 1, digits: 1 }
const EVER = { slug: null, from: 0 as Instant, before: Number.MAX_SAFE_INTEGER as Instant }

/** A world in which January to March are final. */
async function spring(world: World): Promise<World> {
  world.advance(90 * DAY_MS)
  await tick(world)
  await world.store.fixPeriod(periodOf('2026-03'))
  return world
}

const issue = (store: Store, slug: string, month: string, series = SERIES) =>
  store.issueInvoice({ slug, month, net: usd('100.00'), tax: usd('19.00'), details: '{}' }, series, noted)

const credit = (store: Store, number: string, amount: string, reason = 'too much') =>
  store.creditInvoice(
    number,
    SERIES,
    (invoice, earlier) =>
      creditOf(invoice, {
        earlier,
        net: usd(amount),
        tax: { kind: 'rate', rateBps: 1_900 },
        details: JSON.stringify({ reason }),
      }),
    noted,
  )

const numbersOf = (issued: readonly Issued[]): string[] => issued.map(({ number }) => number)

export const invoiceContract: Contract = (test) => {
  test('numbers follow each other within a series, and an invoice keeps the one it got', async (world) => {
    const { store, now, advance } = await spring(world)
    const first = await issue(store, 'acme', '2026-01')
    assert.deepEqual(first, {
      issued: {
        number: 'R-007',
        partnerSlug: 'acme',
        month: '2026-01',
        corrects: null,
        issuedAt: now(),
        net: usd('100.00'),
        tax: usd('19.00'),
        details: '{}',
      },
      isNew: true,
    })
    advance(DAY_MS)
    const numbers = []
    for (const [slug, month, series] of [
      ['bolt', '2026-01', SERIES],
      ['acme', '2026-02', OTHER],
      ['acme', '2026-03', { ...SERIES, first: 1 }],
      ['bolt', '2026-02', { ...SERIES, first: 20 }],
      ['bolt', '2026-03', { ...SERIES, digits: 1 }],
    ] as const)
      numbers.push((await issue(store, slug, month, series)).issued.number)
    assert.deepEqual(numbers, ['R-008', 'X-1', 'R-009', 'R-020', 'R-21'])
    const audited = (await store.listAudit(PAGE)).length
    const again = await store.issueInvoice(
      { slug: 'acme', month: '2026-01', net: usd('1.00'), tax: usd('0.00'), details: '[]' },
      OTHER,
      noted,
    )
    assert.deepEqual(again, { ...first, isNew: false })
    assert.equal((await store.listAudit(PAGE)).length, audited)
    assert.deepEqual(await store.findInvoice('R-007'), first.issued)
    assert.deepEqual(await store.findInvoiceOf('acme', '2026-01'), first.issued)
    assert.equal(await store.findInvoice('R-7'), null)
    assert.equal(await store.findInvoiceOf('acme', '2026-04'), null)
    const listed = await store.listInvoices(EVER, PAGE)
    assert.deepEqual(numbersOf(listed), ['R-007', 'R-008', 'R-009', 'R-020', 'R-21', 'X-1'])
    assert.deepEqual(await allPages<Issued>((after) => store.listInvoices(EVER, { after, limit: 2 })), listed)
    const { issuedAt } = first.issued
    const within = async (slug: string | null, from: number, before: number) =>
      numbersOf(await store.listInvoices({ slug, from: from as Instant, before: before as Instant }, PAGE))
    assert.deepEqual(await within(null, issuedAt, issuedAt + 1), ['R-007'])
    assert.deepEqual(await within('bolt', issuedAt, now() + 1), ['R-008', 'R-020', 'R-21'])
    assert.deepEqual(await within(null, issuedAt + 1, now()), [])
    assert.deepEqual(await store.findFaults(), [])
  })

  test('dates follow the numbers of a series, and a credit note its invoice, where the clock goes back', async (world) => {
    const { store, now, advance } = await spring(world)
    advance(20 * DAY_MS)
    const first = await issue(store, 'acme', '2026-01')
    const dated = now()
    advance(-10 * DAY_MS)
    const later = [
      (await issue(store, 'bolt', '2026-01')).issued,
      await credit(store, 'R-007', '1.00'),
      await store.creditInvoice(
        'R-007',
        OTHER,
        () => ({ net: usd('1.00'), tax: usd('0.00'), details: '{}' }),
        noted,
      ),
    ]
    assert.deepEqual(
      each([first.issued, ...later], 'number', 'issuedAt'),
      ['R-007', 'R-008', 'R-009', 'X-1'].map((number) => [number, dated]),
    )
    // Another series has an order of its own, and the audit log has the time of issue.
    advance(DAY_MS)
    assert.equal((await issue(store, 'acme', '2026-02', { ...OTHER, prefix: 'Y-' })).issued.issuedAt, now())
    assert.deepEqual(each((await store.listAudit(PAGE)).slice(-2), 'at'), [plus(now(), -DAY_MS), now()])
    advance(30 * DAY_MS)
    assert.equal((await credit(store, 'R-008', '1.00')).issuedAt, now())
  })

  test('no number is given while a month can change, nor for nobody, nor where its entry cannot be kept', async (world) => {
    const { store } = await spring(world)
    await assert.rejects(issue(store, 'acme', '2026-04'), problem('invoice_conflict'))
    await assert.rejects(issue(store, 'nobody', '2026-01'), problem('partner_not_found'))
    await assert.rejects(credit(store, 'R-007', '1.00'), problem('invoice_not_found'))
    const unkept = { ...AUDIT, detail: { number: 1n } }
    const of = { slug: 'acme', month: '2026-01', net: usd('1.00'), tax: usd('0.00'), details: '{}' }
    await assert.rejects(store.issueInvoice(of, SERIES, () => unkept))
    assert.deepEqual(await store.listInvoices(EVER, PAGE), [])
    assert.equal((await issue(store, 'acme', '2026-01')).issued.number, 'R-007', 'what failed left no gap')
  })

  test('credit notes have numbers of the same kind, and give back no more than an invoice has', async (world) => {
    const { store } = await spring(world)
    const { issued } = await issue(store, 'acme', '2026-01')
    const first = await credit(store, issued.number, '33.33')
    assert.deepEqual(
      [first.number, first.corrects, first.month, first.partnerSlug, first.net, first.tax],
      ['R-008', 'R-007', '2026-01', 'acme', usd('33.33'), usd('6.33')],
    )
    for (const amount of ['66.68', '0.00', '100.00'])
      await assert.rejects(credit(store, issued.number, amount), problem('invoice_conflict'), amount)
    await assert.rejects(credit(store, first.number, '1.00'), problem('invoice_conflict'))
    const rest = await credit(store, issued.number, '66.67')
    assert.deepEqual(
      [rest.number, rest.tax, (first.tax + rest.tax) as Usd],
      ['R-009', usd('12.67'), issued.tax],
    )
    await assert.rejects(credit(store, issued.number, '0.01'), problem('invoice_conflict'))
    assert.deepEqual(await store.findInvoice('R-007'), issued)
    assert.deepEqual(await store.findInvoiceOf('acme', '2026-01'), issued)
  })

  test('a credit that is asked for again is refused, and one with another amount, reason or invoice is not', async (world) => {
    const { store } = await spring(world)
    for (const slug of ['acme', 'bolt']) await issue(store, slug, '2026-01')
    const first = await credit(store, 'R-007', '1.00')
    const refusal = (of: Issued, amount: string) => ({
      code: 'invoice_conflict',
      message: `${of.number} has already credited ${amount} for the same reason: give another reason to credit it again.`,
    })
    await assert.rejects(credit(store, 'R-007', '1.00'), refusal(first, '1.00'))
    for (const [number, amount, reason] of [
      ['R-007', '1.01', 'too much'],
      ['R-007', '1.00', 'too much, again'],
      ['R-008', '1.00', 'too much'],
    ] as const)
      assert.equal((await credit(store, number, amount, reason)).net, usd(amount))
    // A full credit note is named in the refusal of another one, rather than that nothing is left.
    const all = await credit(store, 'R-008', '99.00')
    await assert.rejects(credit(store, 'R-008', '99.00'), refusal(all, '99.00'))
    const answers = await Promise.allSettled(
      [store, await world.connect(), store].map((one) => credit(one, 'R-007', '2.00')),
    )
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1)
    assert.deepEqual(await store.findFaults(), [])
  })

  test('who asks at once gets no number twice and leaves none out, on every connection', async (empty) => {
    const world = await spring(empty)
    const other = await world.connect()
    const asked = ['2026-01', '2026-02', '2026-03'].flatMap((month) =>
      ['acme', 'bolt'].flatMap((slug) => [world.store, other].map((store) => issue(store, slug, month))),
    )
    const answers = await Promise.all(asked)
    assert.equal(answers.filter(({ isNew }) => isNew).length, 6)
    const numbers = numbersOf(answers.map(({ issued }) => issued))
    assert.deepEqual([...new Set(numbers)].sort(), ['R-007', 'R-008', 'R-009', 'R-010', 'R-011', 'R-012'])
    const [{ issued } = { issued: null }] = answers
    const credits = await Promise.allSettled(
      [world.store, other, world.store, other].map((store) => credit(store, issued?.number ?? '', '60.00')),
    )
    assert.equal(credits.filter(({ status }) => status === 'fulfilled').length, 1)
  })

  test('what had been issued before a restore is kept as it was, and its number goes to nothing else', async (world) => {
    const { store, now } = await spring(world)
    await issue(store, 'acme', '2026-01')
    const amounts = { net: usd('80.00'), tax: usd('0.00'), details: '{"kept":1}' }
    const kept = {
      number: 'R-009',
      partnerSlug: 'bolt',
      month: '2026-02',
      corrects: null,
      issuedAt: T0,
      ...amounts,
    }
    const credit = { ...kept, number: 'R-011', partnerSlug: 'acme', month: '2026-01', corrects: 'R-007' }
    // In a frozen database as well: that is when it is done.
    await store.freeze({ by: 'ops', reason: 'restored' }, AUDIT)
    const keep = (of: Issued, position: number) => store.keepIssued({ ...of, series: 'R-', position })
    assert.deepEqual([await keep(credit, 11), await keep(kept, 9)], [true, true])
    assert.deepEqual([await store.findInvoice('R-009'), await store.findInvoice('R-011')], [kept, credit])
    for (const [of, position] of [
      // Twice; another number in its place; a month that has one; a missing partner.
      [kept, 9],
      [{ ...kept, number: 'R-0009', month: '2026-03' }, 9],
      [{ ...kept, number: 'R-010' }, 10],
      [{ ...kept, number: 'R-012', partnerSlug: 'nobody' }, 12],
    ] as const)
      assert.equal(await keep(of, position), false, of.number)
    await store.resume(AUDIT)
    const { issued, isNew } = await issue(store, 'bolt', '2026-03')
    assert.deepEqual([issued.number, issued.issuedAt, isNew], ['R-012', now(), true])
    assert.deepEqual(await issue(store, 'bolt', '2026-02'), { issued: kept, isNew: false })
    assert.deepEqual(await store.findFaults(), [])
  })

  test('an invoice that was issued and is not there is found', async (world) => {
    const { store, place } = await spring(world)
    for (const month of ['2026-01', '2026-02'])
      await store.issueInvoice(
        { slug: 'acme', month, net: usd('100.00'), tax: usd('19.00'), details: '{}' },
        SERIES,
        ({ number }) => ({
          ...AUDIT,
          action: 'billing.issue',
          subject: 'acme',
          detail: { invoice_number: number, month },
        }),
      )
    assert.deepEqual(await store.findFaults(), [])
    await damage(place, `delete from invoices where number = 'R-008'`)
    assert.deepEqual(each(await store.findFaults(), 'kind', 'subject', 'message'), [
      ['invoice_gone', 'invoice R-008', 'was issued to acme, and is not there'],
    ])
  })

  test('no number is given while the database is frozen', async (world) => {
    const { store } = await spring(world)
    await issue(store, 'acme', '2026-01')
    await store.freeze({ by: 'ops', reason: 'restored' }, AUDIT)
    await assert.rejects(issue(store, 'bolt', '2026-01'), problem('database_frozen'))
    await assert.rejects(credit(store, 'R-007', '1.00'), problem('database_frozen'))
  })
}
