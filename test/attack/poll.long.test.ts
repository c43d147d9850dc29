// Polls of a partner that has thousands of executions out under leases.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deliver, LEASE_MS } from '../../src/core/execution.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { HOUR_MS } from '../../src/core/time.ts'
import { type Service, startService } from '../support/service.ts'
import { addCrowd } from './crowd.ts'

const FEW = 100
const MANY = 15_000
const RATIO_MAX = 5

async function leased(t: Parameters<typeof startService>[0], plans: number) {
  const service = await startService(t)
  const tenant = (await service.store.findTenant('acme', 'test')) as Tenant
  addCrowd(service.file, tenant.tenantId, { user: 'crowd', plans, status: 'sent' })
  return { service, tenant }
}

const poll = ({ service, tenant }: { service: Service; tenant: Tenant }) =>
  service.store.deliverDue(tenant, 500, deliver)

test('a poll that finds nothing costs the same with 100 and with 15,000 executions under a lease', async (t) => {
  const both = [await leased(t, FEW), await leased(t, MANY)] as const
  const times: [number[], number[]] = [[], []]
  for (let turn = 0; turn < 50; turn++) {
    for (const i of [0, 1] as const) {
      const from = performance.now()
      assert.deepEqual(await poll(both[i]), { executions: [], remaining: 0 })
      times[i].push(performance.now() - from)
    }
  }
  const [few = 0, many = 0] = times.map((all) => all.sort((a, b) => a - b)[25])
  assert.ok(many / few < RATIO_MAX, `${few} ms and ${many} ms`)
})

test('what is due in each of the three ways comes in the order of creation, and is counted', async (t) => {
  const { service, tenant } = await leased(t, 700)
  addCrowd(service.file, tenant.tenantId, { user: 'fresh', plans: 600, status: 'pending' })
  const first = await service.store.deliverDue(tenant, 100, deliver)
  assert.deepEqual([first.executions.length, first.remaining], [100, 500])
  // The old leases are over, the first hundred of the new ones are not.
  service.advance(LEASE_MS - 1)
  service.advance(1)
  const second = await service.store.deliverDue(tenant, 1_000, deliver)
  const third = await service.store.deliverDue(tenant, 1_000, deliver)
  assert.deepEqual([second.executions.length, second.remaining], [1_000, 300])
  const inOrder = second.executions.map(({ createdAt, executionId }) => `${createdAt} ${executionId}`)
  assert.deepEqual(inOrder, [...inOrder].sort())
  assert.equal(third.executions.length, 300)
  // Every lease ends too late to be believed: the clock was wrong when it was taken.
  service.advance(-3 * HOUR_MS)
  const fourth = await service.store.deliverDue(tenant, 2_000, deliver)
  assert.deepEqual([fourth.executions.length, fourth.remaining], [1_300, 0])
})
