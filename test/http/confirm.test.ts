// Confirmations in time: what each refusal says, replays forever, refunds.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatUsd } from '../../src/core/money.ts'
import { DAY_MS } from '../../src/core/time.ts'
import { fill, type Service, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
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

test('every value a report carries belongs to what makes it identical', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['filled', 'failed'])
  const filled = { ...fill('o1', '9.00'), partner_fee_usd: '0.10' }
  const failed = { partner_order_id: 'o2', status: 'failed', failure_reason: 'no funds' }
  const others: [string, Json, Json[]][] = [
    [
      'filled',
      filled,
      [
        { ...filled, usd_amount: '9.01' },
        { ...filled, btc_amount: '0.00100001' },
        { ...filled, execution_price: '60000.01' },
        { ...filled, partner_fee_usd: '0.11' },
        { ...filled, partner_fee_usd: null },
        { ...filled, partner_order_id: 'O1' },
        { ...filled, status: 'partial' },
        { ...filled, executed_at: '2026-01-05T00:00:00Z' },
        { partner_order_id: 'o1', status: 'failed' },
      ],
    ],
    [
      'failed',
      failed,
      [
        { ...failed, failure_reason: 'No funds' },
        { ...failed, failure_reason: null },
        { ...failed, status: 'cancelled' },
      ],
    ],
  ]
  for (const [name, report, different] of others) {
    const path = confirmPath(sent.get(name) ?? '')
    await succeed(service, 'POST', path, report)
    for (const other of different) {
      assert.equal((await service.call('POST', path, other)).status, 409, JSON.stringify(other))
    }
    assert.equal((await succeed(service, 'POST', path, report)).replayed, true)
  }
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

test('a refund goes to the window that reserved it, and only the present one spends it again', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['kept', 'reset', 'rolled'])
  await plan(service, 'reset', 'reset', { amount_usd: '90.00' })
  const report = async (name: string) =>
    succeed(service, 'POST', confirmPath(sent.get(name) ?? ''), fill(`o-${name}`, '7.00', 'partial'))
  await report('kept')
  await report('reset')
  assert.deepEqual((await windowsOf(service, 'kept')).map(ledgerOf), ['0.00 7.00 0.00 open'])
  assert.deepEqual((await windowsOf(service, 'reset')).map(ledgerOf), [
    '0.00 7.00 53.00 reset',
    '0.00 0.00 0.00 open',
  ])
  service.advance(DAY_MS)
  await service.tick(PRICE)
  await report('rolled')
  const [over, present] = (await windowsOf(service, 'rolled')).map(ledgerOf)
  assert.equal(over, '0.00 7.00 53.00 ended')
  assert.equal(present, '10.00 0.00 0.00 open')
  await assertSound(service)
})

test('money that comes back is offered again before its window ends', async (t) => {
  const service = await startService(t)
  const id = await one(service)
  await succeed(service, 'POST', confirmPath(id), { partner_order_id: 'o', status: 'failed' })
  let offered = 0n
  for (let hour = 1; hour < 24; hour++) {
    service.advance(DAY_MS / 24)
    await service.tick(PRICE)
    for (const due of (await poll(service)).get('p') ?? []) {
      await succeed(
        service,
        'POST',
        confirmPath(String(due.execution_id)),
        fill(`o${offered}`, String(due.amount_usd)),
      )
      offered += 1n
    }
  }
  const [window] = await windowsOf(service, 'p')
  assert.equal(window && formatUsd(window.spent), '60.00')
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
