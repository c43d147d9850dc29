// A user with thousands of plans is disabled: nobody else waits for it, and it is whole when it is answered.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Tenant } from '../../src/core/partner.ts'
import { setUserStatus } from '../../src/core/user.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { assertSound, DUE, link, PRICE, plan, setUser, userPath } from '../http/steps.ts'
import { type Service, startService } from '../support/service.ts'
import { measure, watched } from '../support/within.ts'
import { addCrowd } from './crowd.ts'

const PLANS = 12_000

async function crowded(t: Parameters<typeof startService>[0], status: 'pending' | 'sent', plans = PLANS) {
  const service = await startService(t)
  const tenant = (await service.store.findTenant('acme', 'test')) as Tenant
  addCrowd(service.file, tenant.tenantId, { user: 'crowd', plans, status })
  return { service, tenant }
}

function rows(file: string, sql: string): unknown[] {
  const db = openFile(file)
  try {
    return db.prepare(sql).raw().all()
  } finally {
    db.close()
  }
}

/** Disables the crowd through a second connection that is closed after the first transaction, as a kill would. */
async function stoppedAfterOnePage({ file, now }: Service, tenant: Tenant): Promise<void> {
  const store = await openStore(file, { clock: now, create: false })
  await store.changeUser(tenant, 'crowd', (seen, at) => {
    queueMicrotask(() => store.close())
    return setUserStatus(seen, 'disabled', at)
  })
}

const statuses = (service: Service) =>
  rows(service.file, 'select status, count(*) from executions group by status order by status')

test('a disable of 12,000 plans holds the loop for a small part of its time, and counts them all', async (t) => {
  const first = async () => {
    const { service } = await crowded(t, 'sent')
    return { service, ...(await watched(() => setUser(service, 'crowd', 'disabled'))) }
  }
  const isFine = ({ stallMs, tookMs }: Awaited<ReturnType<typeof first>>) => stallMs < tookMs / 3
  const seen = await measure(first, isFine)
  const { service, value, tookMs } = seen
  assert.deepEqual([value.plans_paused, value.executions_cancelled], [PLANS, PLANS])
  assert.ok(isFine(seen), `the loop was held for ${seen.stallMs} of ${tookMs} ms`)
  assert.deepEqual(statuses(service), [['cancelled', BigInt(PLANS)]])
  await assertSound(service)

  const again = await watched(() =>
    Promise.all(Array.from({ length: 8 }, () => setUser(service, 'crowd', 'disabled'))),
  )
  assert.ok(again.value.every((answer) => answer.plans_paused === 0 && answer.executions_cancelled === 0))
  assert.ok(again.tookMs < tookMs / 2, `8 more took ${again.tookMs} ms, the first one ${tookMs} ms`)
})

test('a poll in the middle of a disable hands out nothing of that user, and the rest of the tenant', async (t) => {
  const { service } = await crowded(t, 'pending', 3_000)
  await link(service, 'u')
  await plan(service, 'u', 'p')
  await service.tick(PRICE)
  const disabled = setUser(service, 'crowd', 'disabled')
  let handed: { partner_user_id: string }[] = []
  while (rows(service.file, "select 1 from users where status = 'disabled'").length === 0)
    await new Promise((resolve) => setImmediate(resolve))
  while (handed.length === 0) handed = (await service.call('GET', DUE)).body
  assert.deepEqual(
    handed.map(({ partner_user_id }) => partner_user_id),
    ['u'],
  )
  assert.equal((await disabled).executions_cancelled, 3_000)
  await assertSound(service)
})

test('what a disable left undone when its process ended is done before anything is handed out or fired', async (t) => {
  const { service, tenant } = await crowded(t, 'pending', 1_000)
  await assert.rejects(stoppedAfterOnePage(service, tenant), /not open/)
  assert.deepEqual(statuses(service), [
    ['cancelled', 250n],
    ['pending', 750n],
  ])
  await assertSound(service)
  // All plans are due at half the price, and those of a user who is disabled do not fire.
  assert.equal((await service.tick('30000')).executionsCreated, 0)
  assert.deepEqual((await service.call('GET', DUE)).body, [])
  assert.deepEqual(statuses(service), [['cancelled', 1_000n]])
  assert.equal((await service.tick('30000')).plansEvaluated, 0)
  await assertSound(service)
})

test('a disable that is asked for again, or taken back, is finished first', async (t) => {
  for (const [next, answer] of [
    ['disabled', { status: 'disabled', paused: 1_000, cancelled: 1_000 }],
    ['linked', { status: 'linked', paused: undefined, cancelled: undefined }],
  ] as const) {
    const { service, tenant } = await crowded(t, 'sent', 1_000)
    await assert.rejects(stoppedAfterOnePage(service, tenant), /not open/)
    const { body } = await service.call('PATCH', userPath('crowd'), { status: next })
    assert.deepEqual(
      { status: body.status, paused: body.plans_paused, cancelled: body.executions_cancelled },
      answer,
    )
    assert.deepEqual(statuses(service), [['cancelled', 1_000n]])
    assert.deepEqual(rows(service.file, 'select distinct status from plans'), [['paused']])
    await assertSound(service)
  }
})
