// Late fills: what an operator may make of a report of a purchase that a rule refused.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { confirm, type LateFill } from '../../src/core/confirmation.ts'
import { type Execution, type ExecutionId, isOpen } from '../../src/core/execution.ts'
import { type Adjustment, acceptLate, adjust, amountsOf } from '../../src/core/late-fill.ts'
import { btc, price, type Usd, usd } from '../../src/core/money.ts'
import { type Fill, spentBy, type Trade } from '../../src/core/partner-report.ts'
import { Problem } from '../../src/core/problem.ts'
import type { Instant } from '../../src/core/time.ts'
import { close, opening, reserve, settle, type Window } from '../../src/core/window.ts'

const NOW = Date.UTC(2026, 0, 5) as Instant
const RESERVED = usd('10.00')
const BUDGET = usd('60.00')
const TRANCHES = 4

/** One window, what its executions became, and what was reported of them: all that a store would hold. */
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
    // As many as show every outcome below, whatever the seed: 'replayed' is the rarest.
    { numRuns: 3_000 },
  )
  for (const kind of [
    'recorded',
    'refused',
    'replayed',
    'accepted as a trade',
    'accepted as an adjustment',
  ]) {
    assert.ok(seenKinds.has(kind), `${kind} never came up`)
  }
})

function assertSound({ window, pages }: Book): void {
  const bought = pages.reduce(
    (sum, { trade, adjustments }) => sum + (trade ? amountsOf(trade, adjustments).usd : 0n),
    0n,
  )
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

function take(book: Book, { kind, page: number, order, cents }: Step): string {
  const page = book.pages[number]
  assert.ok(page)
  const { execution, trade, late, adjustments } = page
  const seen = (partnerOrderId: string) => ({
    execution,
    window: book.window,
    trade,
    lateFills: late,
    adjustments,
    latestId: book.adjusted,
    latestRecordedAt: null,
    orderHeldBy:
      book.pages.find((one) => one !== page && ordersOf(one.trade, one.adjustments).includes(partnerOrderId))
        ?.execution.executionId ?? null,
  })
  const dollars = (BigInt(cents) * 1_000_000n) as Usd
  switch (kind) {
    case 'close':
      if (book.window.closed === null) book.window = close(book.window, NOW, 'ended')
      return kind
    case 'cancel':
      if (!isOpen(execution)) return 'nothing'
      book.window = settle(book.window, RESERVED, 0n as Usd)
      page.execution = { ...execution, status: 'cancelled', cancelledAt: NOW }
      return kind
    case 'adjust': {
      const right = { usd: dollars, btc: btc(cents === 0 ? '0' : '0.0001'), reason: 'wrong' }
      const made = adjust(seen(''), right, NOW)
      book.window = made.window
      page.adjustments.push(made.adjustment)
      book.adjusted += 1
      return kind
    }
    case 'accept': {
      const one = late[cents % (late.length || 1)]
      if (!one) return 'nothing'
      const made = acceptLate(seen(one.report.partnerOrderId), one, NOW)
      book.window = made.window
      one.acceptedAt = NOW
      if (made.kind === 'recorded') {
        Object.assign(page, { execution: made.execution, trade: made.trade })
        assert.equal(spentBy(made.trade.report), one.report.usdAmount)
        return 'accepted as a trade'
      }
      page.adjustments.push(made.adjustment)
      book.adjusted += 1
      return 'accepted as an adjustment'
    }
    default: {
      const partnerOrderId = `o${order}`
      const common = { partnerOrderId, executedAt: null }
      const said =
        kind === 'fail'
          ? ({ status: 'failed', ...common, failureReason: null } as const)
          : fillOf(common, (dollars + 1n) as Usd)
      const answer = confirm(seen(partnerOrderId), said, NOW)
      if (answer.kind === 'recorded') {
        book.window = answer.window
        Object.assign(page, { execution: answer.execution, trade: answer.trade })
      }
      if (answer.kind === 'refused' && answer.keeping === 'new') {
        book.reports += 1
        const { report, reason } = answer
        late.push({
          reportId: book.reports,
          report,
          reason,
          receivedAt: NOW,
          acceptedAt: null,
          decidedAt: null,
          decisionReason: null,
        })
      }
      return answer.kind
    }
  }
}

const fillOf = (common: { partnerOrderId: string; executedAt: null }, usdAmount: Usd): Fill => ({
  status: 'filled',
  ...common,
  usdAmount,
  btcAmount: btc('0.0001'),
  executionPrice: price('60000'),
  partnerFee: null,
})
