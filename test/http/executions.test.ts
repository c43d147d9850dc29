// Executions: the fields of an instruction, the message of each refusal of a confirmation, and replays forever. Every
// report in every state is in test/core/execution.test.ts, every request of a plan in plans.test.ts.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS } from '../../src/core/time.ts'
import { plansNamed, sendPlan } from '../store/world.ts'
import { fill, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  DUE,
  type Json,
  ledgerOf,
  link,
  PRICE,
  plan,
  poll,
  sendFirst,
  succeed,
  tenantOf,
  windowsOf,
} from './steps.ts'

test('what a report does not need may be sent as anything, is not kept, and makes no difference', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['filled', 'failed', 'cancelled'])
  const junk = { usd_amount: '-1', btc_amount: 7, execution_price: [], partner_fee_usd: 'x' }
  const [failed, cancelled] = ['failed', 'cancelled'].map((status) => ({ partner_order_id: status, status }))
  const reports: Record<string, [Json, Json]> = {
    filled: [{ ...fill('o1', '10'), failure_reason: 17 }, fill('o1', '10.00')],
    failed: [{ ...failed, ...junk }, { ...failed }],
    cancelled: [{ ...cancelled, ...junk }, { ...cancelled }],
  }
  for (const [name, [first, again]] of Object.entries(reports)) {
    const path = confirmPath(sent.get(name) ?? '')
    assert.equal('replayed' in (await succeed(service, 'POST', path, first)), false)
    assert.equal((await succeed(service, 'POST', path, again)).replayed, true)
    // But a missing one equals null.
    assert.equal((await succeed(service, 'POST', path, { ...again, executed_at: null })).replayed, true)
  }
  assert.deepEqual((await windowsOf(service, 'failed')).map(ledgerOf), ['0.00 0.00 0.00 open'])
  await assertSound(service)
})

test('an instruction carries the fields of the contract, and leases run five minutes', async (t) => {
  const service = await startService(t)
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await service.tick(PRICE)
  service.advance(1500)
  const [first] = (await poll(service)).get('p') ?? []
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
  // The lease only says who may be working on it: a report is accepted after its end too.
  service.advance(DAY_MS / 4)
  const [second] = (await poll(service)).get('p') ?? []
  assert.deepEqual(second, { ...first, lease_expires_at: '2026-01-05T06:05:01.500Z', delivered_count: 2 })
  service.advance(DAY_MS / 4)
  await succeed(service, 'POST', confirmPath(String(execution_id)), fill('o', '10.00'))
  await assertSound(service)
})

test('a poll hands out 500 at most, oldest first, and tells how many are left', async (t) => {
  const service = await startService(t)
  const tenant = await tenantOf(service)
  await link(service, 'u1')
  await Promise.all(
    plansNamed(503).map((partnerPlanId) => sendPlan(service.store, tenant, { partnerPlanId })),
  )
  await service.tick(PRICE)
  const polls = []
  for (let n = 0; n < 3; n++) polls.push(await service.call('GET', DUE))
  assert.deepEqual(
    polls.map(({ body, headers }) => [body.length, headers.get('x-due-remaining')]),
    [
      [500, '3'],
      [3, '0'],
      [0, '0'],
    ],
  )
  const ids: string[] = polls.flatMap(({ body }) => body).map(({ execution_id }) => execution_id)
  assert.deepEqual(ids, [...new Set(ids)].sort())
  await assertSound(service)
})
