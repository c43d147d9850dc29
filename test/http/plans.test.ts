// Plans: every state against every request, with what becomes of the window and the executions.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, formatInstant, type Instant, MINUTE_MS } from '../../src/core/time.ts'
import { startBench } from '../sandbox/bench.ts'
import { AUDIT, fill, PLAN, type Service, startService, T0 } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  EXECUTIONS,
  executionsOf,
  type Json,
  LOW_PRICE,
  ledgerOf,
  link,
  PLANS,
  PRICE,
  plan,
  planPath,
  poll,
  setUser,
  succeed,
  windowsOf,
} from './steps.ts'

const STATES = ['none', 'active', 'paused', 'cancelled'] as const
type State = (typeof STATES)[number]

/** What a plan that has fired twice (10.00 sent, 10.00 pending, of 60.00) has in its windows afterwards. */
const WINDOWS = {
  none: [],
  opened: ['0.00 0.00 0.00 open'],
  kept: ['20.00 0.00 0.00 open'],
  reset: ['20.00 0.00 40.00 reset', '0.00 0.00 0.00 open'],
  // By a plan cancel: both reservations went back before the window closed.
  ended: ['0.00 0.00 60.00 cancelled'],
  // By a user disable: the window stays, its reservations are back.
  refunded: ['0.00 0.00 0.00 open'],
} as const
type Effect = keyof typeof WINDOWS

const EXECUTION_STATES: Record<Effect, readonly string[]> = {
  none: [],
  opened: [],
  kept: ['sent', 'pending'],
  reset: ['sent', 'pending'],
  ended: ['cancelled', 'cancelled'],
  refunded: ['cancelled', 'cancelled'],
}

type Cell = `${number} ${'none' | 'active' | 'paused' | 'cancelled'} ${Effect}`
type Verb = { name: string; body: Json | null; disabled?: true; cells: Record<State, Cell> }

const row = (name: string, body: Json | null, cells: [Cell, Cell, Cell, Cell], disabled?: true): Verb => ({
  name,
  body,
  cells: { none: cells[0], active: cells[1], paused: cells[2], cancelled: cells[3] },
  ...(disabled && { disabled }),
})

const AMOUNT = { amount_usd: '90.00' }
const WEEKLY = { frequency: 'weekly' }
const OFF = { smart_timing_enabled: false }
const FUTURE = { start_date: '2026-02-01' }

// biome-ignore format: a table is read by its columns
const VERBS: readonly Verb[] = [
  // The columns: none, active, paused, cancelled.
  row('sent again', {},                              ['200 active opened',    '200 active kept',      '200 paused kept',      '200 cancelled ended']),
  row('active', { status: 'active' },                ['200 active opened',    '200 active kept',      '200 active reset',     '409 cancelled ended']),
  row('paused', { status: 'paused' },                ['200 paused opened',    '200 paused kept',      '200 paused kept',      '409 cancelled ended']),
  row('cancelled', { status: 'cancelled' },          ['200 cancelled none',   '200 cancelled ended',  '200 cancelled ended',  '200 cancelled ended']),
  row('amount', AMOUNT,                              ['200 active opened',    '200 active reset',     '200 paused reset',     '200 cancelled ended']),
  row('amount, active', { ...AMOUNT, status: 'active' },       ['200 active opened',  '200 active reset',    '200 active reset',    '409 cancelled ended']),
  row('amount, paused', { ...AMOUNT, status: 'paused' },       ['200 paused opened',  '200 paused reset',    '200 paused reset',    '409 cancelled ended']),
  row('amount, cancelled', { ...AMOUNT, status: 'cancelled' }, ['200 cancelled none', '200 cancelled ended', '200 cancelled ended', '200 cancelled ended']),
  row('frequency', WEEKLY,                           ['200 active opened',    '200 active reset',     '200 paused reset',     '200 cancelled ended']),
  row('smart timing off', OFF,                       ['200 active opened',    '200 active kept',      '200 paused kept',      '200 cancelled ended']),
  row('smart timing off, active', { ...OFF, status: 'active' }, ['200 active opened', '200 active kept',     '200 active reset',    '409 cancelled ended']),
  row('start date', FUTURE,                          ['200 active opened',    '200 active kept',      '200 paused kept',      '200 cancelled ended']),
  row('another user', { partner_user_id: 'other' },  ['200 active opened',    '409 active kept',      '409 paused kept',      '409 cancelled ended']),
  row('a user never linked', { partner_user_id: 'x' }, ['404 none none',      '404 active kept',      '404 paused kept',      '404 cancelled ended']),
  row('user disabled', null,                         ['200 none none',        '200 paused refunded',  '200 paused refunded',  '200 cancelled ended'], true),
  row('disabled, sent again', {},                    ['403 none none',        '403 paused refunded',  '403 paused refunded',  '200 cancelled ended'], true),
  row('disabled, active', { status: 'active' },      ['403 none none',        '403 paused refunded',  '403 paused refunded',  '409 cancelled ended'], true),
  row('disabled, cancelled', { status: 'cancelled' }, ['403 none none',       '200 cancelled ended',  '200 cancelled ended',  '200 cancelled ended'], true),
  row('disabled, amount', AMOUNT,                    ['403 none none',        '403 paused refunded',  '403 paused refunded',  '200 cancelled ended'], true),
  row('disabled, paused', { status: 'paused' },      ['403 none none',        '403 paused refunded',  '403 paused refunded',  '409 cancelled ended'], true),
  row('disabled, amount, cancelled', { ...AMOUNT, status: 'cancelled' }, ['403 none none', '200 cancelled ended', '200 cancelled ended', '200 cancelled ended'], true),
  row('disabled, another user, cancelled', { partner_user_id: 'other', status: 'cancelled' },
                                                     ['200 cancelled none',   '409 paused refunded',  '409 paused refunded',  '409 cancelled ended'], true),
]

const idOf = (state: State, verb: Verb): string => `${state}: ${verb.name}`

/**
 * Brings a plan for every cell into its state: fired twice, one tranche sent, one pending, and then paused or
 * cancelled.
 */
async function prepare(service: Service): Promise<void> {
  await link(service, 'other')
  const cells = STATES.flatMap((state) => VERBS.map((verb) => ({ state, id: idOf(state, verb) })))
  await Promise.all(cells.map(({ id }) => link(service, id)))
  const fired = cells.filter(({ state }) => state !== 'none')
  await Promise.all(fired.map(({ id }) => plan(service, id, id)))
  await service.tick(PRICE)
  await poll(service)
  await service.tick(LOW_PRICE)
  for (const { state, id } of fired) {
    if (state !== 'active') await plan(service, id, id, { status: state })
  }
  service.advance(60_000)
}

test('every plan request in every state', async (t) => {
  const service = await startService(t)
  await prepare(service)
  for (const state of STATES) {
    for (const verb of VERBS) {
      const id = idOf(state, verb)
      const [status, planStatus, effect] = verb.cells[state].split(' ') as [string, string, Effect]
      if (verb.disabled) await setUser(service, id, 'disabled')
      const before = await service.store.findPlans(id)
      if (verb.body) {
        const body = { ...PLAN, partner_user_id: id, partner_plan_id: id, ...verb.body }
        const answer = await service.call('POST', PLANS, body)
        assert.equal(String(answer.status), status, `${id}: ${JSON.stringify(answer.body)}`)
        if (answer.status === 200) assert.equal(answer.body.status, planStatus, id)
        else assert.deepEqual(await service.store.findPlans(id), before, `${id} changes something`)
        checkDetail(answer.status, answer.body.detail, id)
      }
      const [stored] = await service.store.findPlans(id)
      assert.equal(stored?.status ?? 'none', planStatus, id)
      assert.deepEqual((await windowsOf(service, id)).map(ledgerOf), WINDOWS[effect], id)
      const statuses = (await executionsOf(service, id)).map((execution) => execution.status)
      assert.deepEqual(statuses, EXECUTION_STATES[effect], id)
    }
  }
  await assertSound(service)
})

function checkDetail(status: number, detail: unknown, id: string): void {
  if (status === 403) assert.equal(detail, 'Partner user is not active (disabled).', id)
  if (status === 404) assert.equal(detail, 'Partner user not found; create and link the user first.', id)
  if (status !== 409) return
  assert.ok(String(detail).includes(id), `${detail} names no plan`)
  const expected = id.includes('another user')
    ? /different partner_user_id.*cancel.*create a new plan/
    : /cancelled plan cannot be reactivated.*new partner_plan_id/
  assert.match(String(detail), expected)
}

test('a plan of a first request: defaults, the window of its start date', async (t) => {
  const service = await startService(t)
  await link(service, 'u')
  const created = await plan(service, 'u', 'p')
  assert.deepEqual(created, {
    ...PLAN,
    partner_user_id: 'u',
    partner_plan_id: 'p',
    smart_timing_enabled: true,
    start_date: '2026-01-05T00:00:00.000Z',
    status: 'active',
    created_at: '2026-01-05T00:00:00.000Z',
    updated_at: '2026-01-05T00:00:00.000Z',
  })
  const starts = [
    [{ start_date: null }, T0],
    [{ start_date: '2026-01-09T12:00:00Z' }, T0 + 4.5 * DAY_MS],
    // In the past: the cell of the grid that contains now.
    [{ start_date: '2025-12-01T18:00:00Z' }, T0 - 0.25 * DAY_MS],
    [{ start_date: '2025-12-31', frequency: 'weekly' }, T0 - 5 * DAY_MS],
    [{ start_date: '2025-12-31', frequency: 'bi-weekly' }, T0 - 5 * DAY_MS],
    [{ start_date: '2026-01-05' }, T0],
  ] as const
  for (const [row, [more, start]] of starts.entries()) {
    await plan(service, 'u', `start-${row}`, more)
    const [window] = await windowsOf(service, `start-${row}`)
    assert.equal(window?.start, start, JSON.stringify(more))
  }
})

test('smart timing off fires nothing, on again goes on in the window that runs', async (t) => {
  const service = await startService(t)
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await service.tick(PRICE)
  await plan(service, 'u', 'p', OFF)
  service.advance(DAY_MS / 2)
  assert.equal((await service.tick(LOW_PRICE)).executionsCreated, 0)
  // Left out, it keeps its value.
  assert.equal((await plan(service, 'u', 'p')).smart_timing_enabled, false)
  await plan(service, 'u', 'p', { smart_timing_enabled: true })
  assert.equal((await service.tick(PRICE)).executionsCreated, 1)
  assert.equal((await windowsOf(service, 'p')).length, 1)

  await plan(service, 'u', 'p', OFF)
  service.advance(2 * DAY_MS)
  await plan(service, 'u', 'p', { smart_timing_enabled: true })
  await service.tick(PRICE)
  const [ended, present] = await windowsOf(service, 'p')
  assert.equal(ended?.closed?.reason, 'ended')
  assert.equal(present?.start, T0 + 2 * DAY_MS)
  await assertSound(service)
})

// When a plan's next step comes: as long as the scheduler has to take it, that is never in the past.

test('a plan never looks for its next step in the past', async (t) => {
  const bench = await startBench(t)
  const here = await bench.store.findTenant('acme', 'test')
  assert.ok(here)
  /** The step and its time, in minutes from the time of the sandbox. */
  const next = async (id: string): Promise<[unknown, number | null]> => {
    const { as_of } = await succeed(bench, 'GET', EXECUTIONS)
    const { next_step, next_step_at: at } = await succeed(bench, 'GET', planPath(id))
    return [next_step, at === null ? null : (Date.parse(at) - Date.parse(as_of)) / MINUTE_MS]
  }
  const hold = (held: boolean) => bench.store.changePartner('acme', (seen) => ({ ...seen, held }), AUDIT)
  await link(bench, 'u')
  await plan(bench, 'u', 'on')
  await plan(bench, 'u', 'off', { smart_timing_enabled: false })
  await plan(bench, 'u', 'paused', { status: 'paused' })
  await plan(bench, 'u', 'spent', { amount_usd: '1.00' })
  await link(bench, 'other')
  await plan(bench, 'other', 'later', {
    start_date: formatInstant((bench.now() + 9 * DAY_MS) as Instant),
  })
  bench.advance(30_000)
  assert.deepEqual(await next('on'), ['buy', 0], 'no pass has looked at it yet')
  await bench.tick(PRICE)
  await reportBought(bench, ['1.00', '10.00'])
  assert.deepEqual(await next('spent'), ['next_window', 24 * 60 - 0.5])
  const [step, minutes] = await next('on')
  assert.ok(step === 'buy' && minutes !== null && minutes > 0, `${step} ${minutes}`)

  // The sandbox is three days ahead of the machine, and its passes have left what is off or paused alone.
  await bench.goAhead(here, 3 * DAY_MS)
  assert.deepEqual(await next('off'), ['enable_smart_timing', null])
  await plan(bench, 'u', 'off', { smart_timing_enabled: true })
  assert.deepEqual(await next('off'), ['next_window', 0], 'its window ended while it was off')
  await hold(true)
  assert.deepEqual(await next('off'), ['release_hold', null])
  await hold(false)
  await setUser(bench, 'u', 'disabled')
  assert.deepEqual(await next('off'), ['link_user', null])
  await setUser(bench, 'u', 'linked')
  assert.deepEqual(await next('off'), ['activate', null])
  await plan(bench, 'u', 'off', { status: 'active' })
  assert.deepEqual(await next('off'), ['buy', 0], 'a window that begins now')
  await plan(bench, 'u', 'paused', { status: 'active', smart_timing_enabled: false })
  await plan(bench, 'u', 'paused', { smart_timing_enabled: true })
  assert.deepEqual(await next('paused'), ['buy', 0])
  assert.deepEqual(await next('later'), ['buy', 6 * 24 * 60 - 0.5])

  // Nobody runs a pass for two days, and then one does: what was overdue is done.
  bench.advance(2 * DAY_MS)
  for (const id of ['off', 'paused']) assert.deepEqual(await next(id), ['next_window', 0], id)
  await bench.tick(PRICE)
  for (const id of ['off', 'paused']) assert.deepEqual(await next(id), ['confirm', null], id)
  await assertSound(bench)
})

/** Polls, and confirms everything of these amounts as bought whole. */
async function reportBought(service: Service, amounts: readonly string[]): Promise<void> {
  for (const { execution_id, amount_usd } of [...(await poll(service)).values()].flat())
    if (amounts.includes(String(amount_usd)))
      await succeed(
        service,
        'POST',
        confirmPath(String(execution_id)),
        fill(`o-${execution_id}`, String(amount_usd)),
      )
}
