// Invoices and credit notes: numbers without a gap, each given once however often it is requested, and never changed.

import assert from 'node:assert/strict'
import { creditOf, type Issued, type Series } from '../../../src/core/invoice.ts'
import { type Usd, usd } from '../../../src/core/money.ts'
import { periodOf } from '../../../src/core/month.ts'
import { DAY_MS, type Instant, plus } from '../../../src/core/time.ts'
import type { Store } from '../../../src/store/store.ts'
import { damage } from '../damage.ts'
import { AUDIT, type Contract, each, noted, problem, T0, tick, type World } from '../world.ts'

const SERIES: Series = { prefix: 'R-', first: 7, digits: 3 }
const OTHER: Series = { prefix: 'X-', first: 1, digits: 1 }
const EVER = { slug: null, from: 0 as Instant, before: Number.MAX_SAFE_INTEGER as Instant }
const ALL = { after: null, limit: 1_000 }

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
    const audited = (await store.listAudit(ALL)).length
    const again = await store.issueInvoice(
      { slug: 'acme', month: '2026-01', net: usd('1.00'), tax: usd('0.00'), details: '[]' },
      OTHER,
      noted,
    )
    assert.deepEqual(again, { ...first, isNew: false })
    assert.equal((await store.listAudit(ALL)).length, audited)
    assert.deepEqual(await store.findInvoice('R-007'), first.issued)
    assert.deepEqual(await store.findInvoiceOf('acme', '2026-01'), first.issued)
    assert.deepEqual(
      [await store.findInvoice('R-7'), await store.findInvoiceOf('acme', '2026-04')],
      [null, null],
    )
    const listed = await store.listInvoices(EVER, ALL)
    assert.deepEqual(numbersOf(listed), ['R-007', 'R-008', 'R-009', 'R-020', 'R-21', 'X-1'])
    const pages = []
    for (let after: Issued | null = null; ; ) {
      const page: Issued[] = await store.listInvoices(EVER, { after, limit: 2 })
      pages.push(...page)
      after = page.at(-1) ?? null
      if (after === null) break
    }
    assert.deepEqual(pages, listed)
    const { issuedAt } = first.issued
    const within = async (slug: string | null, from: number, before: number) =>
      numbersOf(await store.listInvoices({ slug, from: from as Instant, before: before as Instant }, ALL))
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
    assert.deepEqual(each((await store.listAudit(ALL)).slice(-2), 'at'), [plus(now(), -DAY_MS), now()])
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
    assert.deepEqual(await store.listInvoices(EVER, ALL), [])
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
