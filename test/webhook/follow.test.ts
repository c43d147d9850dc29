// Executions as `webhook listen` sees them come: each once, whatever the page, the failure or the hour, and leased to
// nobody.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { follow } from '../../src/cli/partners/webhook-listen.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { HOUR_MS } from '../../src/core/time.ts'
import { link, PRICE, plan, poll, sendFirst } from '../http/steps.ts'
import { addCrowd } from '../support/large-database.ts'
import { type Service, startService } from '../support/service.ts'

/** Follows a service; the call that `failAt` numbers fails, counted from when it is set. */
async function following(t: TestContext, prepare: (service: Service) => Promise<unknown>) {
  const service = await startService(t)
  await prepare(service)
  const state = { failAt: 0, calls: 0 }
  const follower = await follow(async (path) => {
    state.calls += 1
    if (--state.failAt === 0) throw new Error('planted')
    const { status, body } = await service.call('GET', `/partner/v1${path}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body
  })
  const fresh = async () => (await follower.fresh()).map(({ execution_id }) => execution_id)
  return { service, state, fresh }
}

test('what is there already is not fresh, what comes is fresh once, and a poll gets all of it', async (t) => {
  const { service, fresh } = await following(t, (service) => sendFirst(service, ['old']))
  assert.deepEqual(await fresh(), [])
  service.advance(1)
  await link(service, 'new')
  for (const id of ['p1', 'p2']) await plan(service, 'new', id)
  await service.tick(PRICE)
  const seen = await fresh()
  assert.equal(seen.length, 2)
  assert.deepEqual(await fresh(), [])
  const due = [...(await poll(service)).values()].flat()
  assert.deepEqual(
    due.map(({ execution_id, delivered_count }) => [execution_id, delivered_count]),
    seen.map((id) => [id, 1]),
  )
  assert.deepEqual(await fresh(), [])
})

test('more than a page comes whole, also when the reading fails in the middle of it', async (t) => {
  const { service, state, fresh } = await following(t, async () => {})
  const { tenantId } = (await service.store.findTenant('acme', 'test')) as Tenant
  addCrowd(service.file, tenantId, { user: 'crowd', plans: 350, status: 'pending' })
  service.advance(HOUR_MS)
  state.failAt = 3
  await assert.rejects(fresh(), /planted/)
  const first = await fresh()
  assert.equal(new Set(first).size, 350)
  assert.equal(first.length, 350)
  state.calls = 0
  assert.deepEqual(await fresh(), [])
  assert.equal(state.calls, 1, 'a look that finds nothing reads one page')
})

test('what was dated before others and stored after them is not missed', async (t) => {
  const { service, fresh } = await following(t, async () => {})
  const { tenantId } = (await service.store.findTenant('acme', 'test')) as Tenant
  service.advance(1_000)
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await service.tick(PRICE)
  assert.equal((await fresh()).length, 1)
  // They are dated from a millisecond after T0 on.
  addCrowd(service.file, tenantId, { user: 'late', plans: 3, status: 'pending' })
  assert.equal((await fresh()).length, 3)
})
