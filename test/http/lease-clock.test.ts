// A clock that ran ahead and was set right again must not keep money away from the partner.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { PLAN, startService, T0, USER } from '../support/service.ts'

test('a lease taken under a clock far ahead has ended; one a little ahead is waited for', async (t) => {
  const service = await startService(t)
  await service.call('POST', '/partner/v1/users', USER)
  await service.call('POST', '/partner/v1/plans', PLAN)
  await service.tick('60000')
  service.setClock(plus(T0, 40 * DAY_MS))
  const ahead = await service.call('GET', '/partner/v1/executions/due')
  assert.equal(ahead.body.length, 1)

  service.setClock(plus(T0, MINUTE_MS))
  // Status and metrics count what the poll will hand out.
  assert.equal((await service.store.readBacklog(service.now())).test.due, 1)
  const again = await service.call('GET', '/partner/v1/executions/due')
  assert.equal(again.body[0]?.execution_id, ahead.body[0].execution_id)
  assert.equal(again.body[0]?.idempotency_key, ahead.body[0].idempotency_key)
  assert.equal(again.body[0]?.delivered_count, 2)

  // Half an hour is what a time server may correct: the lease then simply lasts longer.
  service.setClock(plus(T0, -HOUR_MS / 2))
  assert.deepEqual((await service.call('GET', '/partner/v1/executions/due')).body, [])
})
