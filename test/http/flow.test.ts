// The integration flow of the contract, call by call.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fill, PLAN, startService, USER } from '../support/service.ts'

test('the integration flow of the contract: link, plan, poll, confirm', async (t) => {
  const service = await startService(t)
  assert.equal((await service.call('POST', '/partner/v1/users', USER)).status, 200)
  assert.equal((await service.call('POST', '/partner/v1/plans', PLAN)).status, 200)
  assert.deepEqual((await service.call('GET', '/partner/v1/executions/due')).body, [])

  assert.equal((await service.tick('60000')).executionsCreated, 1)
  const due = await service.call('GET', '/partner/v1/executions/due')
  assert.equal(due.body.length, 1)
  assert.equal(due.headers.get('x-due-remaining'), '0')
  const [execution] = due.body
  assert.equal(execution.amount_usd, '10.00')
  assert.equal(execution.idempotency_key, 'p1:2026-01-05T00:00:00.000Z:0')
  assert.equal(execution.delivered_count, 1)

  const path = `/partner/v1/executions/${execution.execution_id}/confirm`
  const confirmed = {
    ok: true,
    execution_id: execution.execution_id,
    status: 'filled',
    partner_order_id: 'o1',
  }
  assert.deepEqual((await service.call('POST', path, fill('o1', '10.00'))).body, confirmed)
  assert.deepEqual((await service.call('POST', path, fill('o1', '10'))).body, {
    ...confirmed,
    replayed: true,
  })
  assert.deepEqual(await service.store.findFaults(), [])
})
