// Windows and their ledger: no path of reservations, fills and refunds spends more than the budget.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Usd, usd } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, type Instant, later, plus } from '../../src/core/time.ts'
import {
  adjustSpent,
  close,
  FREQUENCIES,
  type Frequency,
  firstWindow,
  gridStart,
  openCell,
  opening,
  reserve,
  roll,
  settle,
  unreserved,
  WINDOW_MS,
  type Window,
} from '../../src/core/window.ts'

const T0 = Date.UTC(2026, 0, 5) as Instant
const BUDGET = usd('100.00')
const fresh = (budget: Usd = BUDGET): Window => ({
  windowId: 1,
  planId: 1,
  ...opening(T0, 'daily', budget),
  reserved: 0n as Usd,
  spent: 0n as Usd,
  excess: 0n as Usd,
  released: 0n as Usd,
  closed: null,
})
const days = (n: number): Instant => plus(T0, n * DAY_MS)

/** A step in the life of a window: which tranche it concerns, and which part of an amount in permille. */
type Step = { kind: 'reserve' | 'fill' | 'fail' | 'adjust' | 'close'; which: number; permille: number }

test('whatever happens to a window, its budget holds, and spent + excess is what was bought', () => {
  const step: fc.Arbitrary<Step> = fc.record({
    kind: fc.constantFrom('reserve', 'reserve', 'fill', 'fill', 'fail', 'adjust', 'adjust', 'close'),
    which: fc.nat(),
    // Up to three times a reservation: operators may exceed it.
    permille: fc.integer({ min: 0, max: 3000 }),
  })
  const budget = fc.bigInt({ min: 100_000_000n, max: 10n ** 14n }) as fc.Arbitrary<Usd>
  fc.assert(
    fc.property(budget, fc.array(step, { maxLength: 60 }), (amount, steps) => {
      const life: Life = { window: fresh(amount), open: [], over: [] }
      for (const each of steps) {
        take(life, each)
        const { window, open, over } = life
        assert.equal(window.reserved, sum(open))
        assert.equal(window.spent + window.excess, sum(over.map(({ total }) => total)))
        const accounted = window.reserved + window.spent + window.released
        assert.ok(accounted <= window.budget)
        assert.ok(window.spent >= 0n && window.excess >= 0n && window.released >= 0n)
        assert.equal(accounted === window.budget || window.closed === null, true)
        assert.equal(window.closed === null ? window.released : 0n, 0n)
      }
    }),
    { numRuns: 400 },
  )
})

/** A window, its open reservations, and the totals of the executions that are over. */
type Life = { window: Window; open: Usd[]; over: { reservation: Usd; total: Usd }[] }

const sum = (amounts: readonly Usd[]): bigint => amounts.reduce((all, one) => all + one, 0n)

function take(life: Life, { kind, which, permille }: Step): void {
  const part = (amount: bigint, most = 3000n): Usd => ((amount * BigInt(permille)) / most) as Usd
  if (kind === 'close') {
    if (life.window.closed === null) life.window = close(life.window, T0, 'ended')
    return
  }
  if (kind === 'reserve') {
    const amount = part(unreserved(life.window))
    if (life.window.closed !== null || amount === 0n) return
    life.window = reserve(life.window, amount)
    life.open.push(amount)
    return
  }
  if (kind === 'adjust') {
    const one = life.over[which % (life.over.length || 1)]
    if (!one) return
    const after = part(one.reservation, 1000n)
    life.window = adjustSpent(life.window, { before: one.total, after, reservation: one.reservation })
    one.total = after
    return
  }
  const [amount] = life.open.splice(which % (life.open.length || 1), 1)
  if (amount === undefined) return
  const spent = kind === 'fill' ? part(amount) : (0n as Usd)
  life.window = settle(life.window, amount, spent)
  life.over.push({ reservation: amount, total: spent })
}

const BEYOND: [what: string, act: () => Window, ledger: [spent: string, excess: string, left: string]][] = [
  ['within its reservation', () => entered('10', '9'), ['9', '0', '91']],
  ['above its reservation, though the window has more left', () => entered('10', '15'), ['10', '5', '90']],
  ['above what the window has left', () => entered('10', '9', '95'), ['5', '4', '0']],
  ['above both', () => entered('10', '15', '95'), ['5', '10', '0']],
  [
    'then less: the excess goes first',
    () => adjustSpent(entered('10', '15'), { before: usd('15'), after: usd('12'), reservation: usd('10') }),
    ['10', '2', '90'],
  ],
  [
    'then less than that: the rest goes back',
    () => adjustSpent(entered('10', '15'), { before: usd('15'), after: usd('4'), reservation: usd('10') }),
    ['4', '0', '96'],
  ],
  [
    'then a reservation that fails: it covers the excess first',
    () => settle(entered('10', '15', '95'), usd('95'), usd('0')),
    ['15', '0', '85'],
  ],
]

/** A window in which a late fill was entered, beside other reservations. */
const entered = (reservation: string, after: string, beside = '0'): Window =>
  adjustSpent(reserve(fresh(), usd(beside)), {
    before: usd('0'),
    after: usd(after),
    reservation: usd(reservation),
  })

test('what is beyond a reservation or a budget is excess, and goes first', () => {
  for (const [what, act, [spent, excess, left]] of BEYOND) {
    const window = act()
    assert.deepEqual([window.spent, window.excess, unreserved(window)], [spent, excess, left].map(usd), what)
  }
})

test('a refund goes to the window that reserved, and only the current one may spend it again', () => {
  const reserved = reserve(fresh(), usd('60.00'))
  assert.equal(unreserved(settle(reserved, usd('60.00'), usd('20.00'))), usd('80.00'))
  const over = close(reserved, days(1), 'ended')
  assert.deepEqual([over.reserved, over.released], [usd('60.00'), usd('40.00')])
  const refunded = settle(over, usd('60.00'), usd('20.00'))
  assert.deepEqual([refunded.reserved, refunded.spent, refunded.released], [0n, usd('20.00'), usd('80.00')])
  assert.equal(unreserved(refunded), usd('80.00'))
  assert.throws(() => reserve(refunded, usd('1.00')), /only the current window reserves/)
})

const IMPOSSIBLE: [what: string, act: () => Window, why: RegExp][] = [
  ['a reservation above the rest', () => reserve(fresh(), usd('100.01')), /at most the budget/],
  [
    'a fill above its reservation',
    () => settle(reserve(fresh(), usd('5')), usd('5'), usd('5.01')),
    /at most its/,
  ],
  ['a negative fill', () => settle(reserve(fresh(), usd('5')), usd('5'), usd('-1')), /at most its/],
  ['a settlement of what was never reserved', () => settle(fresh(), usd('5'), usd('0')), /negative/],
  [
    'a correction below what was ever spent',
    () => adjustSpent(fresh(), { before: usd('1'), after: usd('0'), reservation: usd('1') }),
    /negative/,
  ],
  ['a second end', () => close(close(fresh(), T0, 'ended'), T0, 'reset'), /closes once/],
]

test('what only a bug could bring about stops the program', () => {
  for (const [what, act, why] of IMPOSSIBLE) assert.throws(act, why, what)
})

const HALF = DAY_MS / 2
const ROLLS: [frequency: Frequency, afterStartMs: number, next: number | null][] = [
  ['daily', 0, null],
  ['daily', -DAY_MS, null],
  ['daily', DAY_MS - 1, null],
  ['daily', DAY_MS, 1],
  ['daily', DAY_MS + HALF, 1],
  ['daily', 2 * DAY_MS - 1, 1],
  // Windows missed while nothing ran are skipped: one budget, on the same grid.
  ['daily', 2 * DAY_MS, 2],
  ['daily', 40 * DAY_MS + HALF, 40],
  ['weekly', 7 * DAY_MS - 1, null],
  ['weekly', 7 * DAY_MS, 7],
  ['weekly', 30 * DAY_MS, 28],
  ['bi-weekly', 14 * DAY_MS - 1, null],
  ['bi-weekly', 14 * DAY_MS, 14],
  ['bi-weekly', 59 * DAY_MS, 56],
]

test('a window that is over is followed by the cell of its grid that contains now', () => {
  for (const [frequency, ms, next] of ROLLS) {
    const over = { ...opening(T0, frequency, BUDGET), frequency, amount: usd('70.00') }
    const start = next === null ? null : days(next)
    const expected = start && { start, end: plus(start, WINDOW_MS[frequency]), budget: usd('70.00') }
    assert.deepEqual(roll(over, plus(T0, ms)), expected, `${frequency} after ${ms / HOUR_MS} h`)
  }
})

test('rolling never leaves the grid and always lands on the cell of now', () => {
  const past = fc.integer({ min: -400 * DAY_MS, max: 400 * DAY_MS })
  fc.assert(
    fc.property(
      fc.constantFrom(...FREQUENCIES),
      past,
      fc.integer({ min: 0, max: 400 * DAY_MS }),
      (frequency, a, b) => {
        const start = plus(T0, a)
        const now = plus(start, b)
        const length = WINDOW_MS[frequency]
        const cell = gridStart(start, length, now)
        assert.equal((cell - start) % length, 0)
        assert.ok(cell <= now && now < cell + length)
        assert.equal(gridStart(now, length, start), now, 'a start ahead is kept')
        const next = roll({ ...opening(start, frequency, BUDGET), frequency, amount: BUDGET }, now)
        assert.equal(next?.start ?? start, cell)
      },
    ),
  )
})

test('a cell whose last millisecond began a window has no room for another', () => {
  const cell = opening(T0, 'daily', usd('60.00'))
  const after = (usedStart: Instant) => openCell(cell, { claimed: 0n as Usd, usedStart }, usd('5.00'))
  assert.equal(after(plus(cell.end, -1)), null)
  assert.deepEqual(after(plus(cell.end, -2)), { ...cell, start: plus(cell.end, -1) })
})

test('a first window is that of the grid, and starts after the last that a reset has removed', () => {
  const gap = fc.integer({ min: -40 * DAY_MS, max: 40 * DAY_MS })
  fc.assert(
    fc.property(fc.constantFrom(...FREQUENCIES), gap, gap, (frequency, date, used) => {
      const [startDate, usedUntil, length] = [plus(T0, date), plus(T0, used), WINDOW_MS[frequency]]
      const terms = { startDate, frequency, amount: BUDGET }
      const plain = firstWindow(terms, null, T0)
      assert.deepEqual(plain, opening(gridStart(startDate, length, T0), frequency, BUDGET))
      const window = firstWindow(terms, usedUntil, T0)
      if (used < plain.start - T0) assert.deepEqual(window, plain)
      else assert.equal(window.start, later(plain.start, plus(usedUntil, 1)))
      assert.equal((window.end - startDate) % length, 0)
      assert.ok(window.start < window.end && window.end - window.start <= length && T0 < window.end)
      assert.equal(window.budget, BUDGET)
    }),
  )
  // Nothing is left of the cell: the next one.
  const last = firstWindow({ startDate: T0, frequency: 'daily', amount: BUDGET }, plus(days(1), -1), T0)
  assert.deepEqual(last, opening(days(1), 'daily', BUDGET))
})
