// Late fills: the decisions an operator may take about a refused report of a purchase.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  type Confirmation,
  confirm,
  type Fill,
  type LateFill,
  type Report,
  spentBy,
  type Trade,
} from '../../src/core/confirmation.ts'
import { type Adjustment, adjust, amountsOf, feeOf } from '../../src/core/corrections/adjustment.ts'
import { acceptLate, chosen, undecided } from '../../src/core/corrections/late-fill.ts'
import { type Execution, type ExecutionId, isOpen } from '../../src/core/execution.ts'
import { btc, price, type Usd, usd } from '../../src/core/money.ts'
import { Problem } from '../../src/core/problem.ts'
import { type Instant, MINUTE_MS, plus } from '../../src/core/time.ts'
import { close, opening, reserve, settle, type Window } from '../../src/core/window.ts'

const NOW = Date.UTC(2026, 0, 5) as Instant
const RESERVED = usd('10.00')
const BUDGET = usd('60.00')
const TRANCHES = 4

/** A window, the outcomes of its executions, and the reports about them: all that a store would hold. */
type Book = {
  window: Window
  pages: { execution: Execution; trade: Trade | null; late: LateFill[]; adjustments: Adjustment[] }[]
  reports: number
  adjusted: number
}

type Step = {
  kind: 'fill' | 'fail' | 'cancel' | 'accept' | 'adjust' | 'close'
  page: number
  order: number
  cents: number
}
const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('fill', 'fill', 'fill', 'fail', 'cancel', 'accept', 'accept', 'adjust', 'close'),
  page: fc.nat(TRANCHES - 1),
  order: fc.nat(5),
  cents: fc.nat(2500),
})

function fresh(): Book {
  let window: Window = {
    windowId: 1,
    planId: 1,
    ...opening(NOW, 'daily', BUDGET),
    reserved: 0n as Usd,
    spent: 0n as Usd,
    excess: 0n as Usd,
    released: 0n as Usd,
    closed: null,
  }
  const pages = Array.from({ length: TRANCHES }, (_, i) => {
    window = reserve(window, RESERVED)
    const execution = {
      executionId: `exec_${i}` as ExecutionId,
      firing: { price: null },
      amount: RESERVED,
      status: 'sent',
      deliveredCount: 1,
    } as Execution
    return { execution, trade: null, late: [], adjustments: [] }
  })
  return { window, pages, reports: 0, adjusted: 0 }
}

test('whatever is confirmed, kept, accepted and adjusted: the budget holds, and spent + excess is what was bought', () => {
  const seenKinds = new Set<string>()
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const book = fresh()
      for (const each of steps) {
        try {
          seenKinds.add(take(book, each))
        } catch (error) {
          if (!(error instanceof Problem)) throw error
          seenKinds.add(error.code)
        }
        assertSound(book)
      }
    }),
    // Enough runs to show every outcome below, whatever the seed: 'replayed' is the rarest.
    { numRuns: 3_000 },
  )
  const kinds = ['recorded', 'refused', 'replayed', 'accepted as a trade', 'accepted as an adjustment']
  for (const kind of kinds) assert.ok(seenKinds.has(kind), `${kind} never came up`)
})

function assertSound({ window, pages }: Book): void {
  let bought = 0n
  for (const { trade, adjustments } of pages) if (trade) bought += amountsOf(trade, adjustments).usd
  assert.equal(window.spent + window.excess, bought)
  assert.equal(window.reserved, RESERVED * BigInt(pages.filter(({ execution }) => isOpen(execution)).length))
  assert.ok(window.reserved + window.spent + window.released <= BUDGET)
  assert.ok([window.spent, window.excess, window.released].every((amount) => amount >= 0n))
  const orders = pages.flatMap(({ trade, adjustments }) => ordersOf(trade, adjustments))
  assert.equal(new Set(orders).size, orders.length, 'an order is recorded once')
}

const ordersOf = (trade: Trade | null, adjustments: Adjustment[]): string[] => [
  ...(trade ? [trade.report.partnerOrderId] : []),
  ...adjustments.flatMap(({ partnerOrderId }) => partnerOrderId ?? []),
]

/** The reports of a partner and the decisions of an operator about an execution; the book records what core answers. */
function voicesOf(book: Book, number = 0) {
  const page = book.pages[number]
  assert.ok(page)
  const seen = (partnerOrderId: string) => ({
    execution: page.execution,
    window: book.window,
    trade: page.trade,
    lateFills: page.late,
    adjustments: page.adjustments,
    latestId: book.adjusted,
    latestRecordedAt: null,
    orderHeldBy:
      book.pages.find((one) => one !== page && ordersOf(one.trade, one.adjustments).includes(partnerOrderId))
        ?.execution.executionId ?? null,
  })
  return {
    page,

    report(said: Report, now = NOW): Confirmation['kind'] {
      const answer = confirm(seen(said.partnerOrderId), said, now)
      if (answer.kind === 'recorded') {
        book.window = answer.window
        Object.assign(page, { execution: answer.execution, trade: answer.trade })
      }
      if (answer.kind === 'refused' && answer.keeping === 'new') {
        book.reports += 1
        const { report, reason } = answer
        const undecided = { acceptedAt: null, decidedAt: null, decisionReason: null }
        page.late.push({ reportId: book.reports, report, reason, receivedAt: now, ...undecided })
      }
      return answer.kind
    },

    accept(one: LateFill, now = NOW): 'accepted as a trade' | 'accepted as an adjustment' {
      const made = acceptLate(seen(one.report.partnerOrderId), one, now)
      book.window = made.window
      one.acceptedAt = now
      if (made.kind === 'recorded') {
        Object.assign(page, { execution: made.execution, trade: made.trade })
        assert.equal(spentBy(made.trade.report), one.report.usdAmount)
        return 'accepted as a trade'
      }
      page.adjustments.push(made.adjustment)
      book.adjusted += 1
      return 'accepted as an adjustment'
    },

    adjust(dollars: Usd, now = NOW): void {
      const coins = btc(dollars === 0n ? '0' : '0.0001')
      const made = adjust(seen(''), { usd: dollars, btc: coins, reason: 'wrong' }, now)
      book.window = made.window
      page.adjustments.push(made.adjustment)
      book.adjusted += 1
      // An adjustment decides all late fills of its execution.
      for (const one of page.late) one.decidedAt ??= now
    },

    cancel(): void {
      book.window = settle(book.window, RESERVED, 0n as Usd)
      page.execution = { ...page.execution, status: 'cancelled', cancelledAt: NOW }
    },
  }
}

function take(book: Book, { kind, page: number, order, cents }: Step): string {
  const { page, ...voices } = voicesOf(book, number)
  const dollars = (BigInt(cents) * 1_000_000n) as Usd
  switch (kind) {
    case 'close':
      if (book.window.closed === null) book.window = close(book.window, NOW, 'ended')
      return kind
    case 'cancel':
      if (!isOpen(page.execution)) return 'nothing'
      voices.cancel()
      return kind
    case 'adjust':
      voices.adjust(dollars)
      return kind
    case 'accept': {
      const one = page.late[cents % (page.late.length || 1)]
      return one ? voices.accept(one) : 'nothing'
    }
    case 'fail':
      return voices.report(failed(`o${order}`))
    default:
      return voices.report(fill(`o${order}`, (dollars + 1n) as Usd))
  }
}

const fill = (partnerOrderId: string, usdAmount: Usd, partnerFee: Usd | null = null): Fill => ({
  status: 'filled',
  partnerOrderId,
  executedAt: null,
  usdAmount,
  btcAmount: btc('0.0001'),
  executionPrice: price('60000'),
  partnerFee,
})

const failed = (partnerOrderId: string): Report => ({
  status: 'failed',
  partnerOrderId,
  executedAt: null,
  failureReason: null,
})

// The results of single reports, once an operator accepts them.

type Voices = ReturnType<typeof voicesOf>
const LATER = plus(NOW, MINUTE_MS)

/** Reports of one execution in turn, the last of which is stored as a late fill. */
function kept(...said: Report[]): Voices & { book: Book; last: () => LateFill } {
  const book = fresh()
  const voices = voicesOf(book)
  const answers = said.map((one) => voices.report(one))
  assert.equal(answers.at(-1), 'refused')
  return { book, ...voices, last: () => voices.page.late.at(-1) ?? assert.fail('nothing is kept') }
}

const ACCEPTED: [what: string, said: Report[], as: string, spent: string, excess: string][] = [
  ['above the reservation', [fill('o1', usd('14'))], 'a trade', '10', '4'],
  ['after a failure', [failed('o1'), fill('o1', usd('9'))], 'an adjustment', '9', '0'],
  ['a further purchase', [fill('o1', usd('10')), fill('o2', usd('6'))], 'an adjustment', '10', '6'],
]
for (const [what, said, as, spent, excess] of ACCEPTED) {
  test(`a late fill is recorded to the cent once accepted: ${what}`, () => {
    const { book, page, accept, report, last } = kept(...said)
    assert.equal(accept(last(), LATER), `accepted as ${as}`)
    assert.deepEqual([book.window.spent, book.window.excess], [usd(spent), usd(excess)])
    assert.equal(report(last().report), 'replayed')
    assert.throws(() => accept(last()), /^Problem: Report 1 has been accepted already/)
    // Its time is when its report came, unless the report has another.
    assert.equal(page.adjustments[0]?.fill?.executedAt ?? page.trade?.receivedAt, NOW)
  })
}

type Kept = ReturnType<typeof kept>
const TWO = [fill('o1', usd('10')), fill('o2', usd('5'))]
const UNACCEPTABLE: [what: string, said: Report[], since: (seen: Kept) => void, why: RegExp][] = [
  [
    'an order that another execution holds',
    [fill('o1', usd('14'))],
    ({ book }) => voicesOf(book, 1).report(fill('o1', usd('10'))),
    /^Problem: partner_order_id o1 is already recorded for execution exec_1/,
  ],
  [
    'a further purchase in another version',
    TWO,
    ({ accept, report, last }) => {
      accept(last())
      report(fill('o2', usd('6')))
    },
    /o2 is recorded already as a further purchase: use "trade adjust".* dismiss report 2 with "execution dismiss-late"/,
  ],
  [
    'a further purchase from before an adjustment: it may be in that sum',
    TWO,
    ({ adjust }) => adjust(usd('15')),
    /o2 may be in the sum to which the execution was adjusted: use "trade adjust"/,
  ],
  [
    'the same, where the clock went back between the report and the adjustment',
    TWO,
    ({ adjust, report }) => {
      report(fill('o3', usd('3')), LATER)
      adjust(usd('18'), NOW)
    },
    /o3 may be in the sum to which the execution was adjusted: use "trade adjust"/,
  ],
  [
    'the first order, when all were adjusted together',
    TWO,
    ({ accept, adjust, report, last }) => {
      accept(last())
      adjust(usd('14'))
      report(fill('o1', usd('9')), LATER)
    },
    /o1 was adjusted together with others/,
  ],
  [
    'the first order without anything new',
    [fill('o1', usd('9'), usd('0.10')), fill('o1', usd('9'))],
    () => {},
    /o1 is on record with 9\.00 USD .*nothing is left to record: dismiss report 1 with "execution dismiss-late"/,
  ],
  [
    'more than anybody buys',
    [fill('o1', usd('1000000001'))],
    () => {},
    /A fill is at most 1,000,000,000 USD/,
  ],
]
for (const [what, said, since, why] of UNACCEPTABLE) {
  test(`it is not accepted, and why is said: ${what}`, () => {
    const seen = kept(...said)
    since(seen)
    const one = seen.last()
    assert.throws(() => seen.accept(one, LATER), why)
    assert.equal(one.acceptedAt, null)
  })
}

test('it is not accepted, and why is said: what was confirmed since', () => {
  const { page, accept, report } = voicesOf(fresh())
  for (const status of ['pending', 'sent'] as const) {
    page.execution = { ...page.execution, status }
    report(fill('o1', usd('9')))
  }
  const one = page.late[0] ?? assert.fail('nothing is kept')
  assert.throws(() => accept(one, LATER), /^Problem: Report 1 is on record: the partner sent it again/)
  assert.equal(one.acceptedAt, null)
})

test('amounts that no purchase can have, and the same again, are no correction', () => {
  const execution = { executionId: 'exec_0', amount: RESERVED, firing: { price: null } } as Execution
  const report = { ...fill('o1', usd('8')), btcAmount: btc('0.001') }
  const trade = { report } as unknown as Trade
  const { window } = fresh()
  const facts = { execution, window, trade, adjustments: [], latestId: 0, latestRecordedAt: null }
  const to = (dollars: string, coins: string, more: object = {}) =>
    adjust({ ...facts, ...more }, { usd: usd(dollars), btc: btc(coins), reason: 'wrong' }, NOW)
  for (const [dollars, coins, why] of [
    ['8', '0.001', /is already 8\.00 USD for 0\.00100000 BTC/],
    ['-1', '0.001', /never negative/],
    ['0', '0.001', /both dollars and bitcoin, or neither/],
    ['8', '0', /both dollars and bitcoin, or neither/],
    ['1000000000.01', '0.001', /at most 1,000,000,000 USD/],
    ['8', '21000000.00000001', /at most 21,000,000 BTC/],
  ] as const)
    assert.throws(() => to(dollars, coins), why)
  const open = { execution: { ...execution, status: 'sent' } as Execution, trade: null }
  assert.throws(
    () => to('1', '1', open),
    /exec_0 is sent: no report of it is recorded that could be adjusted/,
  )
  // A report without a purchase starts from nothing.
  for (const status of ['failed', 'cancelled'] as const) {
    const nothing = { report: { ...failed('o1'), status } } as Trade
    const { before, after } = to('9', '0.0002', { trade: nothing })
    assert.deepEqual([before.usd, after.usd], [0n, usd('9')])
  }
})

test('a further purchase that was reported after an adjustment is added to it', () => {
  const { book, page, accept, adjust, report, last } = kept(failed('o1'), fill('o2', usd('6')))
  adjust(usd('6'))
  report(fill('o3', usd('2')), LATER)
  accept(last(), LATER)
  assert.deepEqual([book.window.spent, page.adjustments.at(-1)?.partnerOrderId], [usd('8'), 'o3'])
})

test('another report of the same order replaces its fee, one without a fee leaves it, and so does an operator', () => {
  const { page, accept, adjust, report, last } = kept(
    fill('o1', usd('5'), usd('0.05')),
    fill('o1', usd('6'), usd('0.02')),
  )
  const fees = () => feeOf(page.trade ?? assert.fail('no trade'), page.adjustments)
  const after = (said: Report) => {
    report(said)
    accept(last())
    return fees()
  }
  accept(last())
  assert.equal(fees(), usd('0.02'))
  assert.equal(after(fill('o1', usd('7'))), usd('0.02'))
  assert.equal(after(fill('o2', usd('1'), usd('0.01'))), usd('0.03'))
  assert.equal(after(fill('o1', usd('7'), usd('0.09'))), usd('0.10'), 'the fee alone')
  assert.deepEqual(
    page.adjustments.map((one) => [one.usd, one.fill?.partnerFee]),
    [
      [usd('1'), usd('-0.03')],
      [usd('1'), null],
      [usd('1'), usd('0.01')],
      [usd('0'), usd('0.07')],
    ],
  )
  adjust(usd('4'))
  assert.deepEqual([fees(), page.adjustments.at(-1)?.fill], [usd('0.10'), null])
})

test('the late fill that is meant is the one that is named, or the only one that nobody has decided on', () => {
  const { page, report } = kept(failed('o0'), fill('o1', usd('1')))
  for (const order of ['o2', 'o3']) report(fill(order, usd('1')))
  const [first, second, third] = page.late
  assert.ok(first && second && third)
  const of = (reportId: number | null) => () => chosen({ executionId: 'exec_0', reportId }, page.late)
  const left = (reportId: number | null) =>
    undecided({ executionId: 'exec_0', reportId }, page.late, false).map((one) => one.reportId)
  assert.throws(of(null), /has several late fills to decide on \(1, 2, 3\): name one with --report/)
  first.decidedAt = NOW
  assert.equal(of(1)(), first, 'decided or not')
  assert.deepEqual([left(2), left(null)], [[2], [2, 3]])
  assert.throws(() => left(1), /has no late fill 1 to decide on/)
  second.decidedAt = NOW
  assert.equal(of(null)(), third)
  third.decidedAt = NOW
  assert.throws(of(null), /has no late fill left to decide on\. Decided already: 1, 2, 3\./)
  assert.throws(of(4), /has no late fill 4 to decide on/)
  assert.throws(() => left(null), /has no late fill to decide on/)
  assert.deepEqual(undecided({ executionId: 'exec_0', reportId: null }, page.late, true), [])
})
