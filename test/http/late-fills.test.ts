// Reports on executions that a plan cancel or a user disable had ended: refused, kept, and decided by an operator.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acceptLate } from '../../src/core/late-fill.ts'
import { AUDIT, fill, startService } from '../support/service.ts'
import {
  assertSound,
  confirmPath,
  type Json,
  ledgerOf,
  PRICE,
  plan,
  poll,
  sendFirst,
  setUser,
  succeed,
  windowsOf,
} from './steps.ts'

test('a late fill is refused, kept once, and answered as a replay once an operator accepts it', async (t) => {
  const service = await startService(t)
  const sent = await sendFirst(service, ['cancelled', 'disabled'])
  await plan(service, 'cancelled', 'cancelled', { status: 'cancelled' })
  await setUser(service, 'disabled', 'disabled')
  const lateFills = () => service.store.listLateFills({ after: null, limit: 100 })
  for (const name of ['cancelled', 'disabled']) {
    const id = sent.get(name) ?? ''
    const report = fill(`late-${name}`, '9.50')
    for (const spelling of [report, report, { ...report, usd_amount: '9.5' }]) {
      const { status, body } = await service.call('POST', confirmPath(id), spelling)
      assert.equal(status, 409)
      assert.match(body.detail, /cancelled before it was confirmed/)
    }
    const kept = (await lateFills()).filter(({ execution }) => execution.executionId === id)
    assert.equal(kept.length, 1)
    assert.equal((await service.store.findExecution(id))?.trade, null)
    await service.store.acceptLateFill({ executionId: id, reportId: null }, acceptLate, () => AUDIT)
    const answer = await succeed(service, 'POST', confirmPath(id), report)
    assert.deepEqual(answer, {
      ok: true,
      execution_id: id,
      status: 'filled',
      partner_order_id: `late-${name}`,
      replayed: true,
    })
    const other = await service.call('POST', confirmPath(id), fill(`late-${name}`, '9.00'))
    assert.equal(other.status, 409)
    assert.match(other.body.detail, /filled.*late-/)
  }
  assert.deepEqual((await windowsOf(service, 'cancelled')).map(ledgerOf), ['0.00 9.50 50.50 cancelled'])
  assert.deepEqual((await windowsOf(service, 'disabled')).map(ledgerOf), ['0.00 9.50 0.00 open'])
  // The order is now spoken for.
  await plan(service, 'cancelled', 'another')
  await service.tick(PRICE)
  const [next] = (await poll(service)).get('another') ?? []
  const taken = await service.call(
    'POST',
    confirmPath(String(next?.execution_id)),
    fill('late-cancelled', '1.00'),
  )
  assert.equal(taken.status, 409)
  await assertSound(service)
})

test('a failure reported late is not a late fill, and different late fills are all kept', async (t) => {
  const service = await startService(t)
  const id = (await sendFirst(service, ['p'])).get('p') ?? ''
  await plan(service, 'p', 'p', { status: 'cancelled' })
  const reports: Json[] = [
    { partner_order_id: 'o1', status: 'failed' },
    fill('o1', '10.00'),
    fill('o1', '9.00', 'partial'),
    fill('o2', '10.00'),
    fill('o3', '10.01'),
  ]
  for (const report of reports)
    assert.equal((await service.call('POST', confirmPath(id), report)).status, 409)
  const fills = await service.store.listLateFills({ after: null, limit: 100 })
  const listed = fills.map(({ report }) => `${report.partnerOrderId} ${report.status}`)
  assert.deepEqual(listed, ['o1 filled', 'o1 partial', 'o2 filled', 'o3 filled'])
  await assertSound(service)
})
