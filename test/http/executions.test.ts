// Executions: what can be asked of one in every state, what each refusal says, and replays forever.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LEASE_MS } from '../../src/core/execution.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { fill, type Service, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  DUE,
  executionsOf,
  type Json,
  LOW_PRICE,
  ledgerOf,
  link,
  PRICE,
  plan,
  poll,
  sendFirst,
  setUser,
  succeed,
  windowsOf,
} from './steps.ts'

/**
 * The states an execution may be in; `lapsed` is sent with its lease over, `withdrawn` and `ended` by a plan cancel.
 */
const STATES = [
  'pending',
  'sent',
  'lapsed',
  'filled',
  'partial',
  'failed',
  'cancelled',
  'withdrawn',
  'ended',
] as const
type State = (typeof STATES)[number]

/** The report that brings a sent execution of 10.00 into its recorded state. */
const reportOf = (state: State, order: string): Json => {
  if (state === 'partial') return fill(order, '4.00', 'partial')
  if (state === 'failed') return { partner_order_id: order, status: 'failed', failure_reason: 'no funds' }
  if (state === 'cancelled') return { partner_order_id: order, status: 'cancelled' }
  return fill(order, '8.00')
}

/** What is asked of the execution; a number is the status of the answer. */
const VERBS: Record<
  string,
  (service: Service, id: string, at: { plan: string; state: State }) => Promise<number>
> = {
  'the same report': (service, id, { plan, state }) =>
    confirm(service, id, reportOf(state, `order of ${plan}`)),
  'another fill': (service, id) => confirm(service, id, fill(`new ${id}`, '9.00')),
  'another partial fill': (service, id) => confirm(service, id, fill(`new ${id}`, '3.00', 'partial')),
  'another failure': (service, id) =>
    confirm(service, id, { partner_order_id: `new ${id}`, status: 'failed', failure_reason: 'venue down' }),
  'another cancellation': (service, id) =>
    confirm(service, id, { partner_order_id: `new ${id}`, status: 'cancelled' }),
  'more than reserved': (service, id) => confirm(service, id, fill(`new ${id}`, '10.01')),
  'an order id of another': (service, id) => confirm(service, id, fill('taken', '9.00')),
  'plan paused': (service, _, { plan, state }) =>
    rewrite(service, plan, isOver(state) ? {} : { status: 'paused' }),
  'plan reset': (service, _, { plan }) => rewrite(service, plan, { amount_usd: '90.00' }),
  'plan cancelled': (service, _, { plan }) => rewrite(service, plan, { status: 'cancelled' }),
  'user disabled': async (service, _, { plan }) => {
    await setUser(service, plan, 'disabled')
    return 200
  },
}

const isOver = (state: State): boolean => state === 'withdrawn' || state === 'ended'

const confirm = async (service: Service, id: string, report: Json): Promise<number> =>
  (await service.call('POST', confirmPath(id), report)).status

async function rewrite(service: Service, id: string, more: Json): Promise<number> {
  await plan(service, id, id, more)
  return 200
}

type Expected = `${number} ${string}: ${string}`

/** Where nothing changes, whatever is asked: the state, and the window's reserved, spent and released dollars. */
const STAY: Record<State, string> = {
  pending: 'pending: 10.00 0.00 0.00 open',
  sent: 'sent: 10.00 0.00 0.00 open',
  lapsed: 'sent: 10.00 0.00 0.00 open',
  filled: 'filled: 0.00 8.00 0.00 open',
  partial: 'partial: 0.00 4.00 0.00 open',
  failed: 'failed: 0.00 0.00 0.00 open',
  cancelled: 'cancelled: 0.00 0.00 0.00 open',
  withdrawn: 'cancelled: 0.00 0.00 60.00 cancelled',
  ended: 'cancelled: 0.00 0.00 60.00 cancelled',
}

/** What a report does to an execution that is out with the partner; everywhere else it is 409 and changes nothing. */
const OF_SENT: Record<string, Expected> = {
  'the same report': '200 filled: 0.00 8.00 0.00 open',
  'another fill': '200 filled: 0.00 9.00 0.00 open',
  'another partial fill': '200 partial: 0.00 3.00 0.00 open',
  'another failure': '200 failed: 0.00 0.00 0.00 open',
  'another cancellation': '200 cancelled: 0.00 0.00 0.00 open',
  'more than reserved': `400 ${STAY.sent}` as Expected,
  'an order id of another': `409 ${STAY.sent}` as Expected,
}

const OF_PLAN: Record<string, Record<State, string>> = {
  'plan paused': STAY,
  'plan reset': {
    pending: 'pending: 10.00 0.00 50.00 reset',
    sent: 'sent: 10.00 0.00 50.00 reset',
    lapsed: 'sent: 10.00 0.00 50.00 reset',
    filled: 'filled: 0.00 8.00 52.00 reset',
    partial: 'partial: 0.00 4.00 56.00 reset',
    failed: 'failed: 0.00 0.00 60.00 reset',
    cancelled: 'cancelled: 0.00 0.00 60.00 reset',
    withdrawn: STAY.withdrawn,
    ended: STAY.ended,
  },
  'plan cancelled': {
    pending: 'cancelled: 0.00 0.00 60.00 cancelled',
    sent: 'cancelled: 0.00 0.00 60.00 cancelled',
    lapsed: 'cancelled: 0.00 0.00 60.00 cancelled',
    filled: 'filled: 0.00 8.00 52.00 cancelled',
    partial: 'partial: 0.00 4.00 56.00 cancelled',
    failed: 'failed: 0.00 0.00 60.00 cancelled',
    cancelled: 'cancelled: 0.00 0.00 60.00 cancelled',
    withdrawn: STAY.withdrawn,
    ended: STAY.ended,
  },
  'user disabled': {
    ...STAY,
    pending: 'cancelled: 0.00 0.00 0.00 open',
    sent: 'cancelled: 0.00 0.00 0.00 open',
    lapsed: 'cancelled: 0.00 0.00 0.00 open',
  },
}

function expected(verb: string, state: State): string {
  const ofPlan = OF_PLAN[verb]
  if (ofPlan) return `200 ${ofPlan[state]}`
  if (state === 'sent' || state === 'lapsed') return OF_SENT[verb] ?? ''
  const recorded = ['filled', 'partial', 'failed', 'cancelled'].includes(state)
  return `${verb === 'the same report' && recorded ? 200 : 409} ${STAY[state]}`
}

/** One execution of 10.00 for each verb, all brought into the state; returns them by verb. */
async function prepare(service: Service, state: State): Promise<Map<string, string>> {
  await link(service, 'holder')
  await plan(service, 'holder', 'holder')
  await service.tick(PRICE)
  const held = String((await poll(service)).get('holder')?.[0]?.execution_id)
  await succeed(service, 'POST', confirmPath(held), fill('taken', '10.00'))

  const names = Object.keys(VERBS)
  await Promise.all(names.map((name) => link(service, name)))
  await Promise.all(names.map((name) => plan(service, name, name)))
  await service.tick(PRICE)
  if (state !== 'pending' && state !== 'withdrawn') await poll(service)
  const ids = new Map<string, string>()
  for (const name of names) {
    const [execution] = await executionsOf(service, name)
    const id = execution?.executionId ?? ''
    ids.set(name, id)
    if (isOver(state)) await plan(service, name, name, { status: 'cancelled' })
    else if (!['pending', 'sent', 'lapsed'].includes(state)) {
      await succeed(service, 'POST', confirmPath(id), reportOf(state, `order of ${name}`))
    }
  }
  if (state === 'lapsed') service.advance(LEASE_MS)
  return ids
}

for (const state of STATES) {
  test(`an execution that is ${state}: every request, and the poll`, async (t) => {
    const service = await startService(t)
    const ids = await prepare(service, state)
    for (const [verb, ask] of Object.entries(VERBS)) {
      const id = ids.get(verb) ?? ''
      const status = await ask(service, id, { plan: verb, state })
      const found = await service.store.findExecution(id)
      assert.ok(found)
      const is = `${status} ${found.execution.status}: ${ledgerOf(found.window)}`
      assert.equal(is, expected(verb, state), `${verb} when ${state}`)
      const recorded = ['filled', 'partial', 'failed'].includes(found.execution.status)
      assert.equal(
        found.trade !== null,
        recorded || (found.execution.status === 'cancelled' && !found.execution.cancelledAt),
      )
    }
    // Of the verbs, the refused ones and the plan's pause and reset leave an execution open; a lease in force holds it.
    const open = state === 'pending' ? 9 : state === 'lapsed' ? 4 : 0
    const due = [...(await poll(service)).values()].flat()
    assert.equal(due.length, open)
    for (const one of due) assert.equal(one.delivered_count, state === 'lapsed' ? 2 : 1)
    await assertSound(service)
  })
}

// Confirmations in time: what each refusal says, replays forever, refunds.

const DUE_FIELDS = [
  ...[
    'execution_id',
    'partner_slug',
    'partner_user_id',
    'partner_plan_id',
    'side',
    'asset',
    'spend_currency',
  ],
  ...['amount_usd', 'reason', 'idempotency_key', 'created_at', 'lease_expires_at', 'delivered_count'],
]

async function one(service: Service, id = 'p'): Promise<string> {
  return (await sendFirst(service, [id])).get(id) ?? ''
}

test('each refusal of a confirmation says what it is about', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['a', 'b', 'c'])
  await service.tick(LOW_PRICE)
  const [a, b, c] = ['a', 'b', 'c'].map((name) => sent.get(name) ?? '')
  assert.ok(a && b && c)
  const pending =
    (await executionsOf(service, 'b')).find(({ status }) => status === 'pending')?.executionId ?? ''
  await succeed(service, 'POST', confirmPath(a), fill('order-a', '10.00'))
  await plan(service, 'c', 'c', { status: 'cancelled' })
  const cases: [string, Json, number, RegExp[]][] = [
    ['exec_nowhere', fill('x', '1.00'), 404, [/^Execution not found\.$/]],
    [a.toUpperCase(), fill('x', '1.00'), 404, [/^Execution not found\.$/]],
    [
      pending,
      fill('x', '1.00'),
      409,
      [/^Execution cannot be confirmed while pending; poll due first; a purchase is kept as a late fill\.$/],
    ],
    [
      pending,
      { partner_order_id: 'x', status: 'failed' },
      409,
      [/^Execution cannot be confirmed while pending; poll due first\.$/],
    ],
    [a, fill('order-a', '9.99'), 409, [/filled/, /order-a/, /different values/]],
    [a, fill('order-z', '10.00'), 409, [/filled/, /order-a/]],
    [b, fill('order-a', '10.00'), 409, [/order-a/, new RegExp(a)]],
    [b, { partner_order_id: 'order-a', status: 'failed' }, 409, [/order-a/, new RegExp(a)]],
    [b, fill('order-b', '10.01'), 400, [/\b10\.00\b/, /\b10\.01\b/]],
    [c, fill('order-c', '10.00'), 409, [/was cancelled before it was confirmed/]],
  ]
  for (const [id, report, status, said] of cases) {
    const answer = await service.call('POST', confirmPath(id), report)
    assert.equal(answer.status, status, JSON.stringify(answer.body))
    assert.deepEqual(Object.keys(answer.body), ['detail'])
    for (const pattern of said) assert.match(answer.body.detail, pattern)
  }
  await assertSound(service)
})

test('what a report does not need may be sent as anything, is not kept, and makes no difference', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['filled', 'failed', 'cancelled'])
  const junk = { usd_amount: '-1', btc_amount: 7, execution_price: [], partner_fee_usd: 'x' }
  const reports: Record<string, [Json, Json]> = {
    filled: [{ ...fill('o1', '10'), failure_reason: 17 }, fill('o1', '10.00')],
    failed: [
      { partner_order_id: 'o2', status: 'failed', ...junk },
      { partner_order_id: 'o2', status: 'failed' },
    ],
    cancelled: [
      { partner_order_id: 'o3', status: 'cancelled', ...junk },
      { partner_order_id: 'o3', status: 'cancelled' },
    ],
  }
  for (const [name, [first, again]] of Object.entries(reports)) {
    const path = confirmPath(sent.get(name) ?? '')
    assert.equal('replayed' in (await succeed(service, 'POST', path, first)), false)
    assert.equal((await succeed(service, 'POST', path, again)).replayed, true)
    // But a missing one is as good as null.
    assert.equal((await succeed(service, 'POST', path, { ...again, executed_at: null })).replayed, true)
  }
  assert.deepEqual((await windowsOf(service, 'failed')).map(ledgerOf), ['0.00 0.00 0.00 open'])
  await assertSound(service)
})

test('a replay is answered forever: after a roll, a plan cancel, a user disable', async (t) => {
  const service = await startService(t)
  const id = await one(service)
  const report = fill('o', '7.50', 'partial')
  const first = await succeed(service, 'POST', confirmPath(id), report)
  assert.deepEqual(first, { ok: true, execution_id: id, status: 'partial', partner_order_id: 'o' })
  const replay = async () =>
    assert.deepEqual(await succeed(service, 'POST', confirmPath(id), report), { ...first, replayed: true })
  await replay()
  service.advance(3 * DAY_MS)
  await service.tick(PRICE)
  await replay()
  await plan(service, 'p', 'p', { status: 'cancelled' })
  await replay()
  await setUser(service, 'p', 'disabled')
  service.advance(400 * DAY_MS)
  await replay()
  await assertSound(service)
})

test('an instruction carries the fields of the contract, and leases run five minutes', async (t) => {
  const service = await startService(t)
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await service.tick(PRICE)
  service.advance(1500)
  const [first] = (await poll(service)).get('p') ?? []
  assert.deepEqual(Object.keys(first ?? {}), DUE_FIELDS)
  assert.match(String(first?.execution_id), /^exec_[0-9a-f]{32}$/)
  const { execution_id, ...rest } = first ?? {}
  assert.deepEqual(rest, {
    partner_slug: 'acme',
    partner_user_id: 'u',
    partner_plan_id: 'p',
    side: 'buy',
    asset: 'BTC',
    spend_currency: 'USD',
    amount_usd: '10.00',
    reason: 'smart_timing',
    idempotency_key: 'p:2026-01-05T00:00:00.000Z:0',
    created_at: '2026-01-05T00:00:00.000Z',
    lease_expires_at: '2026-01-05T00:05:01.500Z',
    delivered_count: 1,
  })
  service.advance(299_999)
  assert.equal((await poll(service)).size, 0)
  service.advance(1)
  const [second] = (await poll(service)).get('p') ?? []
  assert.deepEqual(second, { ...first, lease_expires_at: '2026-01-05T00:10:01.500Z', delivered_count: 2 })
  // The lease only says who may be working on it: a report is taken after its end too.
  service.advance(DAY_MS / 4)
  await succeed(service, 'POST', confirmPath(String(execution_id)), fill('o', '10.00'))
  await assertSound(service)
})

// Many requests at once: each execution to one poll, each report to one trade.

/** Fires one tranche for each of `count` plans of one user, all pending. */
async function fire(service: Service, count: number): Promise<void> {
  await link(service, 'u')
  const ids = Array.from({ length: count }, (_, i) => `p${i}`)
  for (let from = 0; from < count; from += 64) {
    await Promise.all(ids.slice(from, from + 64).map((id) => plan(service, 'u', id)))
  }
  assert.equal((await service.tick(PRICE)).executionsCreated, count)
}

test('a poll hands out 500 at most, oldest first, and tells how many are left', async (t) => {
  const service = await startService(t)
  await fire(service, 503)
  const first = await service.call('GET', DUE)
  const second = await service.call('GET', DUE)
  const third = await service.call('GET', DUE)
  const seen = [first, second, third].map(({ body, headers }) => [
    body.length,
    headers.get('x-due-remaining'),
  ])
  assert.deepEqual(seen, [
    [500, '3'],
    [3, '0'],
    [0, '0'],
  ])
  const ids: string[] = [...first.body, ...second.body].map(({ execution_id }) => execution_id)
  assert.deepEqual(ids, [...new Set(ids)].sort())
  await assertSound(service)
})
