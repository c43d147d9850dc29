// A plan whose row is damaged must not keep the plans beside it from buying.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { PLAN, startService, USER } from '../support/service.ts'

test('a plan that cannot be decided is named and stops nobody else', async (t) => {
  const service = await startService(t)
  await service.call('POST', '/partner/v1/users', USER)
  for (const id of ['p1', 'broken', 'p3']) {
    await service.call('POST', '/partner/v1/plans', { ...PLAN, partner_plan_id: id })
  }
  const db = openFile(service.file)
  // More left to fire than the window's budget: the reservation breaks the ledger's own rule.
  db.exec(`update schedules set fireable = budget * 9
    where plan_id = (select plan_id from plans where partner_plan_id = 'broken')`)
  db.close()

  const report = await service.tick('60000')
  assert.equal(report.executionsCreated, 2)
  assert.equal(report.failed.length, 1)
  const due = await service.call('GET', '/partner/v1/executions/due')
  assert.deepEqual(
    due.body.map((execution: { partner_plan_id: string }) => execution.partner_plan_id),
    ['p1', 'p3'],
  )
  const [found] = await service.store.findPlans('broken')
  assert.equal(report.failed[0]?.planId, found?.planId)
  assert.deepEqual(
    (await service.store.findFaults()).map(({ kind }) => kind),
    ['schedule'],
  )
})
