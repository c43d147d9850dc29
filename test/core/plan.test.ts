// Plans: every state of POST /plans, and when a window is reset.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { usd } from '../../src/core/money.ts'
import {
  nextStep,
  PLAN_START_MAX,
  type Plan,
  type PlanChange,
  type PlanFacts,
  type PlanRequest,
  type PlanState,
  type PlanStatus,
  writePlan,
} from '../../src/core/plan.ts'
import { Problem } from '../../src/core/problem.ts'
import { DAY_MS, formatInstant, HOUR_MS, type Instant, plus } from '../../src/core/time.ts'
import type { User, UserStatus } from '../../src/core/user.ts'
import { FREQUENCIES, WINDOW_MS, type Window } from '../../src/core/window.ts'

/** A millisecond, in hours. */
const MS = 1 / HOUR_MS
const T0 = Date.UTC(2026, 0, 5) as Instant
const NOW = plus(T0, 3 * DAY_MS + 5 * HOUR_MS)
const user = (status: UserStatus = 'linked') => ({ partnerUserId: 'u1', status }) as User
const PLAN: Plan = {
  planId: 7,
  partnerUserId: 'u1',
  partnerPlanId: 'p1',
  amount: usd('60.00'),
  frequency: 'weekly',
  smartTimingEnabled: true,
  startDate: T0,
  status: 'active',
  createdAt: T0,
  updatedAt: T0,
}
const { partnerUserId, partnerPlanId, amount, frequency } = PLAN
const REQUEST: PlanRequest = { partnerUserId, partnerPlanId, amount, frequency }
const SEEN: PlanFacts & { plan: Plan } = {
  user: user(),
  plan: PLAN,
  window: { start: T0, end: plus(T0, WINDOW_MS.weekly) },
  usedStarts: [],
  usedBeforeReset: null,
}

const PAUSED = { status: 'paused' } as const
const UNTIMED = { smartTimingEnabled: false }
const OTHER = { amount: usd('61') }

/** A request for a plan that differs so from the usual one, and what becomes of its window and its executions. */
const RESENDS: [
  what: string,
  plan: Partial<Plan>,
  request: Partial<PlanRequest>,
  outcome: 'kept' | 'reset' | 'cancelled',
  window?: null,
][] = [
  ['the same again', {}, {}, 'kept'],
  ['the same amount written otherwise', {}, { amount: usd('60') }, 'kept'],
  ['another amount', {}, { amount: usd('60.01') }, 'reset'],
  ['another frequency', {}, { frequency: 'daily' }, 'reset'],
  ['a paused plan made active', PAUSED, { status: 'active' }, 'reset'],
  ['a plan without a window', {}, {}, 'reset', null],
  ['a pause', {}, PAUSED, 'kept'],
  ['a pause of a paused plan', PAUSED, PAUSED, 'kept'],
  ['a paused plan re-sent without status', PAUSED, {}, 'kept'],
  ['an active plan made active', {}, { status: 'active' }, 'kept'],
  ['smart timing off', {}, UNTIMED, 'kept'],
  ['smart timing on again', UNTIMED, { smartTimingEnabled: true }, 'kept'],
  ['another start_date alone', {}, { startDate: plus(NOW, DAY_MS) }, 'kept'],
  ['a paused plan with another amount', PAUSED, OTHER, 'reset'],
  ['a pause with another amount', {}, { ...PAUSED, ...OTHER }, 'reset'],
  ['a paused plan made active with smart timing off', PAUSED, { status: 'active', ...UNTIMED }, 'reset'],
  ['a cancel', {}, { status: 'cancelled' }, 'cancelled'],
  ['a cancel with another amount', {}, { status: 'cancelled', ...OTHER }, 'cancelled'],
  ['a cancel of a paused plan', PAUSED, { status: 'cancelled' }, 'cancelled'],
]

test('the window is reset on the four conditions of the contract and on no other', () => {
  for (const [what, plan, request, outcome, window = SEEN.window] of RESENDS) {
    const seen = { ...SEEN, plan: { ...PLAN, ...plan }, window }
    const asked = { ...REQUEST, ...request }
    const change = writePlan(seen, asked, NOW)
    const { start, end, budget } = change.open ?? {}
    const opened = change.open && { start, end, budget }
    const expected = {
      kept: { close: null, open: null },
      reset: {
        close: 'reset',
        open: { start: NOW, end: plus(NOW, WINDOW_MS[asked.frequency]), budget: asked.amount },
      },
      cancelled: { close: 'cancelled', open: null },
    }[outcome]
    assert.deepEqual({ close: change.close, open: opened }, expected, what)
    assert.equal(change.cancelsExecutions, outcome === 'cancelled', what)
    assert.equal(change.plan.status, asked.status ?? seen.plan.status, what)
    assert.equal(change.plan.amount, outcome === 'cancelled' ? PLAN.amount : asked.amount, what)
    assert.equal(change.plan.createdAt, T0, what)
  }
})

test('a re-send that changes nothing answers the plan as it is, untouched', () => {
  assert.equal(writePlan(SEEN, REQUEST, NOW).plan, PLAN)
  assert.equal(writePlan(SEEN, { ...REQUEST, startDate: plus(NOW, DAY_MS) }, NOW).plan, PLAN)
})

const created = (request: Partial<PlanRequest>): PlanChange =>
  writePlan(
    { user: user(), plan: null, window: null, usedStarts: [], usedBeforeReset: null },
    { ...REQUEST, ...request },
    NOW,
  )

const ANCHORS: [what: string, startDate: number | null | undefined, windowStart: number][] = [
  ['none', undefined, NOW],
  ['null', null, NOW],
  ['now', NOW, NOW],
  ['a future one', NOW + DAY_MS, NOW + DAY_MS],
  ['a future one beyond a window', NOW + 30 * DAY_MS, NOW + 30 * DAY_MS],
  ['one within the last window', NOW - DAY_MS, NOW - DAY_MS],
  ['one a millisecond short of a window ago', NOW - WINDOW_MS.weekly + 1, NOW - WINDOW_MS.weekly + 1],
  ['one exactly a window ago', NOW - WINDOW_MS.weekly, NOW],
  ['one long ago', T0 - 100 * WINDOW_MS.weekly, T0],
]

test('the first window opens at a future start_date, else in the cell of its grid that contains now', () => {
  for (const [what, startDate, windowStart] of ANCHORS) {
    const change = created({ startDate: startDate as Instant | null | undefined })
    assert.equal(change.open?.start, windowStart, what)
    assert.equal(change.open?.end, windowStart + WINDOW_MS.weekly, what)
    assert.equal(change.plan.startDate, startDate ?? NOW, what)
  }
})

test('a new plan takes its defaults only when they are left out', () => {
  const { plan } = created({})
  assert.deepEqual([plan.status, plan.smartTimingEnabled], ['active', true])
  const paused = created({ status: 'paused', smartTimingEnabled: false })
  assert.deepEqual([paused.plan.status, paused.plan.smartTimingEnabled], ['paused', false])
  assert.notEqual(paused.open, null)
  assert.equal(created({ status: 'cancelled' }).open, null)
})

/** By the plan's own start_date and that of the request, in hours from now; and by the starts with executions. */
const RESET_STARTS: [
  what: string,
  stored: number,
  asked: number | null,
  used: number[] | number | null,
  start: number,
][] = [
  ['now', -77, null, -77, 0],
  ['a past start_date of the request does not count', -77, -77, -77, 0],
  ['a future one does', -77, 24, -77, 24],
  ['a future one of the plan counts on', 24, null, null, 24],
  ['beyond its window, too', 9000, null, null, 9000],
  ['unless the request has an earlier one', 24, 2, null, 2],
  ['or a past one', 24, -2, null, 0],
  ['or a later one', 24, 48, null, 48],
  ['no window ever fired', -77, null, null, 0],
  ['a window with executions began this very millisecond', -77, null, 0, MS],
  ['the clock went back behind a used window', -77, null, 1, 1 + MS],
  ['and behind it lies the future start_date', -77, 24, 1, 24],
  ['and the future start_date is a used start', -77, 1, 1, 1 + MS],
  ['the clock went back behind the start of the plan', 1, null, 1, 1 + MS],
  ['a start_date weeks ahead is a used start', -77, 500, 500, 500 + MS],
  ['windows of a clock far ahead are not waited for', -77, null, 9000, 0],
  ['and the next start is not one of them', -77, null, [335, 336 - MS, 336], 336 + MS],
]

test('a reset starts now or at a start_date ahead, and never where a window with executions started', () => {
  const inHours = (hours: number) => Math.round(NOW + hours * HOUR_MS) as Instant
  for (const [what, stored, asked, used, start] of RESET_STARTS) {
    const usedStarts = [used ?? []].flat().map(inHours)
    const seen = { ...SEEN, plan: { ...PLAN, startDate: inHours(stored) }, usedStarts }
    const asks = asked === null ? null : inHours(asked)
    for (const startDate of asks === null ? [null, undefined] : [asks]) {
      const change = writePlan(seen, { ...REQUEST, amount: usd('61.00'), startDate }, NOW)
      assert.equal(change.open?.start, inHours(start), what)
      assert.equal(change.plan.startDate, asks ?? inHours(stored), what)
    }
  }
})

test('a reset starts after every window that a reset of the sandbox has removed', () => {
  const startOf = (used: Instant, startDate: Instant) =>
    writePlan(
      { ...SEEN, plan: { ...PLAN, startDate }, usedBeforeReset: used },
      { ...REQUEST, amount: usd('61.00') },
      NOW,
    ).open?.start
  assert.equal(startOf(plus(NOW, -1), T0), NOW)
  assert.equal(startOf(NOW, T0), plus(NOW, 1))
  assert.equal(startOf(plus(NOW, DAY_MS), plus(NOW, DAY_MS)), plus(NOW, DAY_MS + 1))
  assert.equal(startOf(NOW, plus(NOW, DAY_MS)), plus(NOW, DAY_MS))
})

const REFUSALS: [
  plan: Partial<Plan> | null,
  by: Partial<PlanRequest>,
  user: UserStatus | null,
  code: string | null,
][] = [
  [null, {}, null, 'user_never_linked'],
  [null, {}, 'disabled', 'user_not_linked'],
  [null, { status: 'cancelled' }, 'disabled', 'user_not_linked'],
  [{}, {}, 'disabled', 'user_not_linked'],
  [{}, { status: 'active' }, 'disabled', 'user_not_linked'],
  [{}, { status: 'paused' }, 'disabled', 'user_not_linked'],
  [{}, { amount: usd('61') }, 'disabled', 'user_not_linked'],
  [{ status: 'cancelled' }, { status: 'active' }, 'disabled', 'plan_cancelled'],
  [{}, { partnerUserId: 'u2', status: 'cancelled' }, 'disabled', 'plan_bound_elsewhere'],
  [{ status: 'cancelled' }, { status: 'cancelled' }, 'disabled', null],
  [{ status: 'cancelled' }, {}, 'disabled', null],
  [{ status: 'cancelled' }, { status: 'paused' }, 'disabled', 'plan_cancelled'],
  [{}, {}, null, 'user_never_linked'],
  [{}, { partnerUserId: 'u2' }, 'linked', 'plan_bound_elsewhere'],
  [{ status: 'cancelled' }, { partnerUserId: 'u2' }, 'linked', 'plan_bound_elsewhere'],
  [{ status: 'cancelled' }, { status: 'active' }, 'linked', 'plan_cancelled'],
  [{ status: 'cancelled' }, { status: 'paused' }, 'linked', 'plan_cancelled'],
  [{ status: 'cancelled' }, { status: 'cancelled' }, 'linked', null],
  [{ status: 'cancelled' }, { amount: usd('1') }, 'linked', null],
]

test('what a plan refuses, and that a cancelled one may be re-sent', () => {
  for (const [plan, by, status, code] of REFUSALS) {
    const seen: PlanFacts = {
      ...SEEN,
      user: status && user(status),
      plan: plan && { ...PLAN, ...plan },
      window: plan?.status === ('cancelled' satisfies PlanStatus) ? null : SEEN.window,
    }
    const write = () => writePlan(seen, { ...REQUEST, ...by }, NOW)
    if (code) assert.throws(write, (error) => error instanceof Problem && error.code === code, code)
    else assert.equal(write().plan, seen.plan)
  }
})

test('the windows of the latest start_date end in a year of four digits', () => {
  for (const frequency of FREQUENCIES) {
    const { open } = created({ startDate: PLAN_START_MAX, frequency })
    assert.match(formatInstant(open?.end ?? NOW), /^9999-/, frequency)
  }
  const past = created({ startDate: plus(PLAN_START_MAX, 1), frequency: 'bi-weekly' })
  assert.doesNotMatch(formatInstant(past.open?.end ?? NOW), /^9999-/)
})

test('a plan of a disabled user can be cancelled', () => {
  for (const status of ['active', 'paused'] as const) {
    const seen = { ...SEEN, user: user('disabled'), plan: { ...PLAN, status } }
    const change = writePlan(seen, { ...REQUEST, amount: usd('61'), status: 'cancelled' }, NOW)
    assert.deepEqual(change.plan, { ...seen.plan, status: 'cancelled', updatedAt: NOW })
    assert.deepEqual([change.close, change.open, change.cancelsExecutions], ['cancelled', null, true])
  }
})

// The next step of a plan: a single one, and never one in the past.

const SOON = plus(NOW, HOUR_MS)
const WAITING: PlanState = {
  ...PLAN,
  userStatus: 'linked',
  window: { start: T0, end: plus(T0, WINDOW_MS.weekly), reserved: 0n } as Window,
  schedule: { nextRunAt: SOON, fireable: usd('60.00'), floor: usd('5.00') },
  held: false,
  now: NOW,
}
const { window: OPEN, schedule: NEXT } = WAITING
assert.ok(OPEN && NEXT)

/** Each with all the conditions of the later ones as well. */
const STEPS: [step: string, of: Partial<PlanState>][] = [
  ['none', { status: 'cancelled' }],
  ['confirm', { window: { ...OPEN, reserved: usd('10.00') } }],
  ['link_user', { userStatus: 'disabled' }],
  ['activate', { status: 'paused' }],
  ['enable_smart_timing', { smartTimingEnabled: false }],
  ['release_hold', { held: true }],
  ['next_window', { window: null }],
]

test('of all that a plan waits for the first is told', () => {
  let all: Partial<PlanState> = {}
  for (const [step, of] of STEPS.toReversed()) {
    // A missing window has no reservation.
    all = { ...all, ...of }
    assert.deepEqual(nextStep({ ...WAITING, ...of }), { step, at: null })
    assert.deepEqual(nextStep({ ...WAITING, ...all }), { step, at: null })
  }
  assert.deepEqual(nextStep({ ...WAITING, schedule: null }), { step: 'next_window', at: null })
})

const END = plus(T0, WINDOW_MS.weekly)
const WHEN: [what: string, of: Partial<PlanState>, step: string, at: Instant][] = [
  ['a tranche is to come', {}, 'buy', SOON],
  ['no pass has looked at it yet', { schedule: { ...NEXT, nextRunAt: T0 } }, 'buy', NOW],
  ['as much as a tranche is left', { schedule: { ...NEXT, fireable: usd('5.00') } }, 'buy', SOON],
  ['less than a tranche is left', { schedule: { ...NEXT, fireable: usd('4.99') } }, 'next_window', END],
  ['its window is over', { now: END }, 'next_window', END],
  ['its window is long over', { now: plus(END, DAY_MS) }, 'next_window', plus(END, DAY_MS)],
]
for (const [what, of, step, at] of WHEN) {
  test(`a step that the scheduler takes has its time: ${what}`, () => {
    assert.deepEqual(nextStep({ ...WAITING, ...of }), { step, at })
  })
}
