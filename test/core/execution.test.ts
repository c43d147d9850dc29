// Executions: their ids, the changes by a report, a cancellation and a late fill, and when two reports are equal.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  confirm,
  type ExecutionFacts,
  type Fill,
  isFill,
  type KeptFor,
  LATE_FILLS_MAX,
  type LateFill,
  type NoFill,
  type Report,
  reportFingerprint,
  sameReport,
} from '../../src/core/confirmation.ts'
import {
  cancel,
  cancelByHand,
  deliver,
  EXECUTION_STATUSES,
  type Execution,
  type ExecutionId,
  type ExecutionStatus,
  LEASE_MS,
  nextExecutionId,
} from '../../src/core/execution.ts'
import { btc, price, usd } from '../../src/core/money.ts'
import { Problem, type ProblemCode } from '../../src/core/problem.ts'
import { type Instant, plus } from '../../src/core/time.ts'
import type { Window } from '../../src/core/window.ts'

const NOW = Date.UTC(2026, 0, 5) as Instant
const FILL: Fill = {
  status: 'filled',
  partnerOrderId: 'o1',
  executedAt: null,
  usdAmount: usd('9.00'),
  btcAmount: btc('0.0001'),
  executionPrice: price('60000'),
  partnerFee: null,
}
const PART: Report = { ...FILL, status: 'partial' }
const REST = { partnerOrderId: 'o1', executedAt: null, failureReason: null }
const FAILED: Report = { ...REST, status: 'failed' }
const CANCELLED: Report = { ...REST, status: 'cancelled' }
const REPORTS = [FILL, PART, FAILED, CANCELLED]

function executionIn(status: ExecutionStatus): Execution {
  return {
    executionId: 'exec_1' as ExecutionId,
    amount: usd('10.00'),
    status,
    deliveredCount: status === 'pending' ? 0 : 1,
    leaseExpiresAt: status === 'pending' ? null : plus(NOW, LEASE_MS),
    cancelledAt: null,
    cancelReason: null,
  } as Execution
}

/** An execution in its window, with the trade that its status requires. */
function seenIn(status: ExecutionStatus, recorded: Report | null = null): ExecutionFacts {
  const open = status === 'pending' || status === 'sent'
  // Without a report of its own, a cancellation is an operator's or a plan's.
  const said = recorded ?? REPORTS.find((one) => one.status === status && one !== CANCELLED) ?? null
  return {
    execution: executionIn(status),
    window: {
      budget: usd('60.00'),
      reserved: open ? usd('10.00') : usd('0'),
      spent: said && 'usdAmount' in said ? said.usdAmount : usd('0'),
      excess: usd('0'),
      released: usd('0'),
      closed: null,
    } as Window,
    trade: said && { executionId: 'exec_1' as ExecutionId, recordedAt: NOW, receivedAt: null, report: said },
    lateFills: [],
    orderHeldBy: null,
    latestRecordedAt: null,
  }
}

const lateFill = (report: Fill, reportId: number): LateFill => ({
  reportId,
  report,
  reason: 'execution_cancelled',
  receivedAt: NOW,
  acceptedAt: null,
  decidedAt: null,
  decisionReason: null,
})

/** What comes of a report: the kind of its confirmation, why it is kept, or the code of its refusal. */
const outcomeOf = (seen: ExecutionFacts, said: Report): string => {
  try {
    const answer = confirm(seen, said, NOW)
    return answer.kind === 'refused' ? `kept ${answer.reason}` : answer.kind
  } catch (error) {
    if (error instanceof Problem) return error.code
    throw error
  }
}

/** A report that is filled, partial, failed or cancelled, refused. A refused fill is stored, whatever the reason. */
const refused = (by: ProblemCode & KeptFor): string[] => [`kept ${by}`, `kept ${by}`, by, by]
const CONFIRMED: Record<ExecutionStatus, string[]> = {
  pending: refused('execution_pending'),
  sent: Array(4).fill('recorded'),
  filled: refused('execution_recorded').with(0, 'replayed'),
  partial: refused('execution_recorded').with(1, 'replayed'),
  failed: refused('execution_recorded').with(2, 'replayed'),
  cancelled: refused('execution_cancelled'),
}

test('every report on every state of an execution has its one answer', () => {
  for (const status of EXECUTION_STATUSES) {
    const answers = REPORTS.map((said) => outcomeOf(seenIn(status), said))
    assert.deepEqual(answers, CONFIRMED[status], status)
  }
  const byPartner = REPORTS.map((said) => outcomeOf(seenIn('cancelled', CANCELLED), said))
  assert.deepEqual(byPartner, refused('execution_recorded').with(3, 'replayed'))
})

test('of one execution so many reports are kept, a repeated one once, and the rest are counted', () => {
  const seen = seenIn('cancelled')
  const late: LateFill[] = []
  const keepings: string[] = []
  for (let order = 0; order < LATE_FILLS_MAX + 3; order++) {
    for (let time = 0; time < 2; time++) {
      const answer = confirm({ ...seen, lateFills: late }, { ...FILL, partnerOrderId: `o${order}` }, NOW)
      assert.ok(answer.kind === 'refused')
      keepings.push(answer.keeping)
      if (answer.keeping === 'new') late.push(lateFill(answer.report, order))
    }
  }
  const kept = Array(LATE_FILLS_MAX).fill(['new', 'known']).flat()
  assert.deepEqual(keepings, [...kept, ...Array(6).fill('counted')])
})

test('what was accepted is answered from the record, whatever the trade says', () => {
  const late = { ...lateFill({ ...FILL, partnerOrderId: 'o2' }, 1), acceptedAt: NOW }
  const seen = { ...seenIn('filled'), lateFills: [late] }
  assert.equal(outcomeOf(seen, late.report), 'replayed')
  assert.equal(outcomeOf(seen, FILL), 'replayed')
})

test('what was kept while an execution was pending is settled once the same report is recorded, and by no other', () => {
  const settledBy = (said: Report, known: Partial<LateFill> = {}) => {
    const late = { ...lateFill(FILL, 7), reason: 'execution_pending' as const, ...known }
    const answer = confirm({ ...seenIn('sent'), lateFills: [late] }, said, NOW)
    assert.ok(answer.kind === 'recorded')
    return answer.settles
  }
  assert.equal(settledBy(FILL), 7)
  assert.equal(settledBy({ ...FILL, usdAmount: usd('8') }), null, 'the order came to something else')
  assert.equal(settledBy({ ...FILL, partnerOrderId: 'o2' }), null, 'a purchase of its own')
  assert.equal(settledBy(FILL, { decidedAt: NOW }), null, 'decided already')
})

test('a confirmation is refused before it can spend more than was reserved, or another order', () => {
  const over = { ...FILL, usdAmount: usd('10.00000001') } as Report
  assert.equal(outcomeOf(seenIn('sent'), over), 'kept amount_over_reservation')
  assert.equal(outcomeOf(seenIn('sent'), { ...FILL, usdAmount: usd('10') } as Report), 'recorded')
  const held = { ...seenIn('sent'), orderHeldBy: 'exec_2' as ExecutionId }
  for (const said of REPORTS)
    assert.equal(outcomeOf(held, said), isFill(said) ? 'kept order_id_taken' : 'order_id_taken')
})

test('of several reasons to refuse a report the first is told: no execution, a replay, its state, its order, its amount', () => {
  const over: Fill = { ...FILL, usdAmount: usd('999') }
  const held = { orderHeldBy: 'exec_2' as ExecutionId }
  const told: [seen: ExecutionFacts, said: Report, code: string][] = [
    [{ ...seenIn('sent'), ...held, execution: null }, over, 'execution_not_found'],
    [{ ...seenIn('filled', over), ...held }, over, 'replayed'],
    [{ ...seenIn('filled'), window: { ...seenIn('filled').window, closed: {} } as Window }, FILL, 'replayed'],
    [{ ...seenIn('filled'), ...held }, over, 'kept execution_recorded'],
    [{ ...seenIn('pending'), ...held }, over, 'kept execution_pending'],
    [{ ...seenIn('cancelled'), ...held }, over, 'kept execution_cancelled'],
    [{ ...seenIn('sent'), ...held }, over, 'kept order_id_taken'],
  ]
  for (const [seen, said, code] of told) assert.equal(outcomeOf(seen, said), code)
})

test('only what differs in a value that counts is another report', () => {
  const seen = seenIn('filled')
  const others: Report[] = [
    { ...FILL, partnerOrderId: 'o2' },
    { ...FILL, executedAt: NOW },
    { ...FILL, usdAmount: usd('9.01') },
    { ...FILL, btcAmount: btc('0.0002') },
    { ...FILL, executionPrice: price('60001') },
    { ...FILL, partnerFee: usd('0') },
  ]
  for (const other of others) assert.equal(outcomeOf(seen, other), 'kept execution_recorded')
  assert.equal(outcomeOf(seen, { ...FILL, usdAmount: usd('9') } as Report), 'replayed')
})

test('each report settles the reservation: what was spent is spent, the rest goes back', () => {
  for (const said of REPORTS) {
    const answer = confirm(seenIn('sent'), said, NOW)
    assert.ok(answer.kind === 'recorded')
    const spent = usd(said === FILL || said === PART ? '9' : '0')
    assert.deepEqual([answer.window.reserved, answer.window.spent], [usd('0'), spent], said.status)
    assert.equal(answer.execution.status, said.status)
  }
})

test('delivery, its lease and the end of an execution', () => {
  const sent = deliver(executionIn('pending'), NOW)
  assert.deepEqual([sent.status, sent.deliveredCount, sent.leaseExpiresAt], ['sent', 1, plus(NOW, 300_000)])
  const { window } = seenIn('sent')
  assert.ok(window)
  const ended = cancel(sent, window, NOW)
  assert.deepEqual(
    [ended.execution.status, ended.execution.cancelledAt, ended.window.reserved],
    ['cancelled', NOW, 0n],
  )
})

test('an operator ends what is open, and neither what has an outcome nor what was ended before', () => {
  for (const status of EXECUTION_STATUSES) {
    const { execution, window, trade } = seenIn(status)
    assert.ok(execution && window)
    const end = () => cancelByHand({ execution, window, trade }, 'nobody there', NOW)
    if (status === 'pending' || status === 'sent') {
      const ended = end()
      assert.deepEqual(ended.window, cancel(execution, window, NOW).window)
      const { status: after, cancelledAt, cancelReason } = ended.execution
      assert.deepEqual([after, cancelledAt, cancelReason], ['cancelled', NOW, 'nobody there'])
    } else {
      const code = trade ? 'execution_recorded' : 'execution_cancelled'
      assert.throws(end, (error) => error instanceof Problem && error.code === code, status)
    }
  }
  // A report of its own cancellation is an outcome.
  const { execution, window, trade } = seenIn('cancelled', CANCELLED)
  assert.ok(execution && window)
  assert.throws(() => cancelByHand({ execution, window, trade }, 'x', NOW), /recorded as cancelled/)
})

// Execution ids rise strictly, whatever the clock does, and cannot be guessed.

const SHAPE = /^exec_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/
const ONES = new Uint8Array(10).fill(255)
const ZEROS = new Uint8Array(10)

test('an id is a version 7 UUID of its instant behind a prefix', () => {
  const id = nextExecutionId(null, NOW, randomBytes(10))
  assert.match(id, SHAPE)
  assert.equal(Number.parseInt(id.slice(5, 17), 16), NOW)
})

test('ids rise strictly, as numbers and as text, whatever the clock and the entropy do', () => {
  const step = fc.record({
    ms: fc.oneof(fc.constant(0), fc.integer({ min: -100_000, max: 100_000 })),
    bytes: fc.oneof(fc.constant(ONES), fc.constant(ZEROS), fc.uint8Array({ minLength: 10, maxLength: 16 })),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      let previous = null as ExecutionId | null
      let now: number = NOW
      for (const { ms, bytes } of steps) {
        now += ms
        const id = nextExecutionId(previous, now as Instant, bytes)
        assert.match(id, SHAPE)
        assert.ok(previous === null || id > previous, `${id} after ${previous}`)
        previous = id
      }
    }),
    { numRuns: 300 },
  )
})

test('when the random part of a millisecond is used up, the next id moves on to the next millisecond', () => {
  const last = `exec_${NOW.toString(16).padStart(12, '0')}7fffbfffffffffffffff` as ExecutionId
  assert.match(last, SHAPE)
  for (const now of [NOW, (NOW - 60_000) as Instant]) {
    const id = nextExecutionId(last, now, ONES)
    assert.ok(id > last)
    assert.match(id, SHAPE)
    assert.equal(Number.parseInt(id.slice(5, 17), 16), NOW + 1)
  }
})

// Reports: when two are equal, and the text whose digest is stored with every trade.

const TOLD: Report = {
  ...FILL,
  executedAt: 1_767_571_200_000 as Instant,
  usdAmount: usd('10'),
  btcAmount: btc('0.001'),
}
const failed = (failureReason: string | null): NoFill => ({ ...REST, status: 'failed', failureReason })

/** Fixed forever: databases have digests of these texts, and `check` computes them again. */
const FINGERPRINTS: [Report, string][] = [
  [TOLD, '["filled","o1",1767571200000,"1000000000","100000","6000000000000",null]'],
  [
    { ...TOLD, status: 'partial', executedAt: null, partnerFee: usd('0.05') },
    '["partial","o1",null,"1000000000","100000","6000000000000","5000000"]',
  ],
  [failed(null), '["failed","o1",null,null]'],
  [failed(''), '["failed","o1",null,""]'],
  [{ ...failed('no "funds"\n'), status: 'cancelled' }, '["cancelled","o1",null,"no \\"funds\\"\\n"]'],
]

test('the text that a digest is made of never changes', () => {
  for (const [report, text] of FINGERPRINTS) assert.equal(reportFingerprint(report), text)
})

test('an empty reason says what none says, and every other difference counts', () => {
  assert.ok(sameReport(failed(''), failed(null)))
  assert.ok(sameReport(failed(null), failed('')))
  assert.ok(!sameReport(failed(' '), failed(null)))
  assert.ok(sameReport(TOLD, { ...TOLD }))
  for (const [a] of FINGERPRINTS.slice(0, 3))
    for (const [b] of FINGERPRINTS.slice(0, 3)) assert.equal(sameReport(a, b), a === b)
})
