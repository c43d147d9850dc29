// The ledger of a window: whatever happens, its budget is reserved, spent, released or left.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DAY_MS, HOUR_MS, type Instant, plus } from '../../src/core/instant.ts'
import { type Usd, usd } from '../../src/core/money.ts'
import {
  adjustSpent,
  close,
  FREQUENCIES,
  type Frequency,
  gridStart,
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
  released: 0n as Usd,
  closed: null,
})
const days = (n: number): Instant => plus(T0, n * DAY_MS)

/** One step of a window's life: which of its tranches it concerns, and which part of an amount in permille. */
type Step = {
  kind: 'reserve' | 'fill' | 'fail' | 'cancel' | 'late' | 'close'
  which: number
  permille: number
}

test('whatever happens to a window, reserved + spent + released is at most its budget, and exactly that once closed', () => {
  const step: fc.Arbitrary<Step> = fc.record({
    kind: fc.constantFrom('reserve', 'reserve', 'fill', 'fill', 'fail', 'cancel', 'late', 'close'),
    which: fc.nat(),
    permille: fc.integer({ min: 0, max: 1000 }),
  })
  const budget = fc.bigInt({ min: 100_000_000n, max: 10n ** 14n }) as fc.Arbitrary<Usd>
  fc.assert(
    fc.property(budget, fc.array(step, { maxLength: 60 }), (amount, steps) => {
      const life = { window: fresh(amount), open: [] as Usd[], cancelled: [] as Usd[], trades: 0n }
      for (const each of steps) {
        take(life, each)
        const { window, open, trades } = life
        assert.equal(
          window.reserved,
          open.reduce((sum, one) => sum + one, 0n),
        )
        assert.equal(window.spent, trades)
        const accounted = window.reserved + window.spent + window.released
        assert.ok(accounted <= window.budget && window.released >= 0n)
        assert.equal(accounted === window.budget || window.closed === null, true)
        assert.equal(window.closed === null ? window.released : 0n, 0n)
      }
    }),
    { numRuns: 400 },
  )
})

function take(
  life: { window: Window; open: Usd[]; cancelled: Usd[]; trades: bigint },
  { kind, which, permille }: Step,
): void {
  const part = (amount: bigint): Usd => ((amount * BigInt(permille)) / 1000n) as Usd
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
  if (kind === 'late') {
    const [amount] = life.cancelled.splice(which % (life.cancelled.length || 1), 1)
    // A late fill is taken while the money it was given back is still there: after that it is refused.
    const left = life.window.closed ? life.window.released : unreserved(life.window)
    if (amount === undefined || part(amount) > left) return
    life.window = adjustSpent(life.window, part(amount))
    life.trades += part(amount)
    return
  }
  const [amount] = life.open.splice(which % (life.open.length || 1), 1)
  if (amount === undefined) return
  const spent = kind === 'fill' ? part(amount) : (0n as Usd)
  life.window = settle(life.window, amount, spent)
  life.trades += spent
  if (kind === 'cancel') life.cancelled.push(amount)
}

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
  ['a late fill without room', () => adjustSpent(reserve(fresh(), BUDGET), usd('1')), /at most the budget/],
  [
    'a late fill above what was released',
    () => adjustSpent(close(fresh(), T0, 'ended'), usd('101')),
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
  // Windows slept through are skipped: one budget, on the same grid.
  ['daily', 2 * DAY_MS, 2],
  ['daily', 40 * DAY_MS + HALF, 40],
  ['weekly', 7 * DAY_MS - 1, null],
  ['weekly', 7 * DAY_MS, 7],
  ['weekly', 30 * DAY_MS, 28],
  ['bi-weekly', 14 * DAY_MS - 1, null],
  ['bi-weekly', 14 * DAY_MS, 14],
  ['bi-weekly', 59 * DAY_MS, 56],
]

test('a window that is over is followed by the slot of its grid that contains now', () => {
  for (const [frequency, ms, next] of ROLLS) {
    const over = { ...opening(T0, frequency, BUDGET), frequency, amount: usd('70.00') }
    const start = next === null ? null : days(next)
    const expected = start && { start, end: plus(start, WINDOW_MS[frequency]), budget: usd('70.00') }
    assert.deepEqual(roll(over, plus(T0, ms)), expected, `${frequency} after ${ms / HOUR_MS} h`)
  }
})

test('rolling never leaves the grid and always lands on the slot of now', () => {
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
        const slot = gridStart(start, length, now)
        assert.equal((slot - start) % length, 0)
        assert.ok(slot <= now && now < slot + length)
        assert.equal(gridStart(now, length, start), now, 'a start ahead is kept')
        const next = roll({ ...opening(start, frequency, BUDGET), frequency, amount: BUDGET }, now)
        assert.equal(next?.start ?? start, slot)
      },
    ),
  )
})
