// Purchases that are reported of an execution before it is handed out: refused, kept, and recorded at most once.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { formatInstant } from '../../src/core/time.ts'
import { command, shell } from '../levers/steps.ts'
import { fill, startService } from '../support/service.ts'
import { billed, lateFills, nextPending, waiting } from './kept-steps.ts'
import { assertSound, confirmPath, type Json, plan, poll, sendFirst, succeed } from './steps.ts'

/** A service with a pending execution that a purchase of 9.00 was reported of, twice: refused both times. */
async function boughtWhilePending(t: TestContext) {
  const service = await startService(t, { environment: 'live' })
  const first = (await sendFirst(service, ['p'])).get('p') ?? ''
  await succeed(service, 'POST', confirmPath(first), fill('o1', '10.00'))
  const id = await nextPending(service)
  const said = fill('o2', '9.00')
  for (let time = 0; time < 2; time++) {
    const refused = await service.call('POST', confirmPath(id), said)
    assert.equal(refused.status, 409)
    assert.equal(
      refused.body.detail,
      'Execution cannot be confirmed while pending; poll due first; a purchase is kept as a late fill.',
    )
  }
  const listed = await lateFills(service)
  assert.deepEqual(
    listed.map((row) => [row.execution_id, row.partner_order_id, row.reason, row.status, row.decided_at]),
    [[id, 'o2', 'execution_pending', 'pending', null]],
  )
  assert.deepEqual(await waiting(service), [1, 1])
  return { service, id, said }
}

test('a purchase reported while pending is recorded once when it is delivered and confirmed, and settled', async (t) => {
  const { service, id, said } = await boughtWhilePending(t)
  assert.equal((await poll(service)).size, 1, 'it is handed out as ever')
  assert.equal((await succeed(service, 'POST', confirmPath(id), said)).replayed, undefined)
  assert.equal((await succeed(service, 'POST', confirmPath(id), said)).replayed, true)
  assert.deepEqual(await waiting(service), [0, 0])
  const [row] = await lateFills(service)
  assert.deepEqual(
    [row?.accepted_at, row?.decided_at === null, row?.decision_reason],
    [null, false, 'the same report was recorded'],
  )
  const again = await command(service, ['execution', 'accept-late', id, '--report', '1'])
  assert.deepEqual([again.code, /Report 1 is on record/.test(again.err)], [5, true])
  assert.deepEqual(await billed(service), ['19.00', 2])
  await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
  await assertSound(service)
})

test('a purchase that was kept, and is recorded when it is sent again, is dated by the first report', async (t) => {
  const { service, id, said } = await boughtWhilePending(t)
  const [kept] = await lateFills(service)
  service.advance(3_600_000)
  await poll(service)
  await succeed(service, 'POST', confirmPath(id), said)
  const trades = (await service.call('GET', '/partner/v1/trades?month=2026-01')).body
  const row = trades.trades.find((trade: Json) => trade.execution_id === id)
  assert.deepEqual([row?.executed_at, row?.recorded_at], [kept?.received_at, formatInstant(service.now())])
  await assertSound(service)
})

test('a purchase reported while pending that was another order than the one confirmed stays to be decided', async (t) => {
  const { service, id } = await boughtWhilePending(t)
  await poll(service)
  await succeed(service, 'POST', confirmPath(id), fill('o3', '9.00'))
  assert.deepEqual(await waiting(service), [1, 1])
  await shell(service, ['execution', 'accept-late', id])
  assert.deepEqual(await billed(service), ['28.00', 2])
  await assertSound(service)
})

test('a purchase accepted while pending is recorded, and the execution is never handed out', async (t) => {
  const { service, id, said } = await boughtWhilePending(t)
  await shell(service, ['execution', 'accept-late', id])
  assert.equal((await poll(service)).size, 0)
  service.advance(10 * 60_000)
  assert.equal((await poll(service)).size, 0)
  assert.equal((await succeed(service, 'POST', confirmPath(id), said)).replayed, true)
  const shown = JSON.parse(await shell(service, ['--json', 'execution', 'show', id]))
  assert.deepEqual(
    [shown.status, shown.delivered_count, shown.lease_expires_at, shown.trade.usd_amount],
    ['filled', 0, null, '9.00'],
  )
  assert.deepEqual(await waiting(service), [0, 0])
  assert.deepEqual(await billed(service), ['19.00', 2])
  await shell(service, ['billing', 'reconcile', '--month', '2026-01'])
  await assertSound(service)
})

test('a purchase reported while pending can be dismissed, and is confirmed all the same once it is delivered', async (t) => {
  const { service, id, said } = await boughtWhilePending(t)
  await shell(service, ['execution', 'dismiss-late', id, '--reason', 'not bought yet'])
  assert.deepEqual(await waiting(service), [0, 0])
  await poll(service)
  await succeed(service, 'POST', confirmPath(id), said)
  const [row] = await lateFills(service)
  assert.equal(row?.decision_reason, 'not bought yet')
  assert.deepEqual(await billed(service), ['19.00', 2])
  await assertSound(service)
})

test('a purchase reported while pending outlives the cancel of its plan, and can be accepted after it', async (t) => {
  const { service, id, said } = await boughtWhilePending(t)
  await plan(service, 'p', 'p', { status: 'cancelled' })
  assert.equal((await service.call('POST', confirmPath(id), said)).status, 409)
  assert.deepEqual(
    (await lateFills(service)).map((row) => [row.reason, row.status]),
    [['execution_pending', 'cancelled']],
  )
  await shell(service, ['execution', 'accept-late', id])
  assert.equal((await poll(service)).size, 0)
  assert.deepEqual(await billed(service), ['19.00', 2])
  assert.equal((await succeed(service, 'POST', confirmPath(id), said)).replayed, true)
  await assertSound(service)
})

test('why a late fill was accepted is optional, in the audit log, and shown with its execution', async (t) => {
  const { service, id } = await boughtWhilePending(t)
  const reason = 'seen on the statement of the venue'
  await shell(service, ['execution', 'accept-late', id, '--reason', reason])
  const shown = await shell(service, ['execution', 'show', id])
  assert.match(shown, /REPORT +ORDER +USD .*DECISION/)
  assert.match(shown, new RegExp(`1 +o2 .*execution_pending.*${reason}`))
  const json = JSON.parse(await shell(service, ['--json', 'execution', 'show', id]))
  assert.deepEqual(
    json.late_fills.map((late: Json) => [late.report_id, late.partner_order_id, late.decision_reason]),
    [[1, 'o2', reason]],
  )
  const audited = await service.store.listAudit({ after: null, limit: 100 })
  assert.deepEqual(audited.at(-1)?.detail, { report_id: 1, reason })
})
