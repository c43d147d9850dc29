// Partners with thousands of plans, executions and trades: their requests cost a page, and nobody else waits.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { DAY_MS, plus } from '../../src/core/time.ts'
import { setUserStatus } from '../../src/core/user.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { openStore } from '../../src/store/sqlite/open.ts'
import { assertSound, DUE, setUser, tenantOf, userPath } from '../http/steps.ts'
import { addCrowd } from '../support/large-database.ts'
import { type Service, startService, T0 } from '../support/service.ts'
import { measure, watched } from '../support/within.ts'

const TRADES_OF_A_DAY = 12_000
const MONTHLY = '/partner/v1/billing/monthly?month=2026-01'

/** Fills every execution of the crowd: the first 2,500 all at one instant, the others some milliseconds apart. */
function fillAll(file: string): void {
  const db = openFile(file)
  db.pragma('synchronous = off')
  db.exec(`begin;
    insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
      execution_price, recorded_at, digest)
    select execution_id, e.tenant_id, plan_id, user_id, execution_id, 'filled', e.amount_usd, 10000, 6000000000000,
      ${T0} + max(0, plan_id - 2500) * 7, printf('%064d', 0)
    from executions e join plans using (plan_id);
    update windows set reserved = 0, spent = ${usd('10.00')};
    update executions set status = 'filled';
    commit`)
  db.close()
}

test('a report of 12,000 trades of one day is read piece by piece, and adds up', async (t) => {
  const { service, tenant } = await crowded(t, 'sent', TRADES_OF_A_DAY)
  fillAll(service.file)
  service.setClock(plus(T0, DAY_MS))
  const period = await service.store.fixPeriod(periodOf('2026-01'), tenant)
  const isFine = ({ tookMs, stallMs }: { tookMs: number; stallMs: number }) => stallMs < tookMs / 2
  const read = () => watched(() => service.store.readActivity(tenant, period))
  const seen = await measure(read, isFine)
  assert.ok(isFine(seen), `the loop was held for ${seen.stallMs} of ${seen.tookMs} ms`)

  assert.equal((await service.call('GET', MONTHLY)).body.trade_count, TRADES_OF_A_DAY)
})

test('reports of one key are made one after the other, and of more than a year of them at once some are put off', async (t) => {
  const { service } = await crowded(t, 'sent', 2_000)
  fillAll(service.file)
  service.setClock(plus(T0, DAY_MS))
  const other = await service.issueKey('bolt', 'test')
  const flood = Promise.all(Array.from({ length: 60 }, () => service.call('GET', MONTHLY)))
  assert.equal((await service.call('GET', MONTHLY, undefined, { key: other })).status, 200)
  const answers = await flood
  const put = answers.filter(({ status }) => status === 429)
  assert.ok(put.length > 0 && put.length < 60 - 12, `${put.length} were put off`)
  assert.ok(put.every(({ headers }) => headers.get('retry-after') === '1'))
  assert.ok(answers.every(({ status }) => status === 200 || status === 429))
  assert.equal((await service.call('GET', MONTHLY)).status, 200)
})

// A user with thousands of plans is disabled: nobody else waits for it, and the change is complete when it is answered.

const CROWD = 12_000

async function crowded(t: Parameters<typeof startService>[0], status: 'pending' | 'sent', plans = CROWD) {
  const service = await startService(t)
  const tenant = await tenantOf(service)
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
  assert.deepEqual([value.plans_paused, value.executions_cancelled], [CROWD, CROWD])
  assert.ok(isFine(seen), `the loop was held for ${seen.stallMs} of ${tookMs} ms`)
  assert.deepEqual(statuses(service), [['cancelled', BigInt(CROWD)]])
  await assertSound(service)

  const again = await watched(() =>
    Promise.all(Array.from({ length: 8 }, () => setUser(service, 'crowd', 'disabled'))),
  )
  assert.ok(again.value.every((answer) => answer.plans_paused === 0 && answer.executions_cancelled === 0))
  assert.ok(again.tookMs < tookMs / 2, `8 more took ${again.tookMs} ms, the first one ${tookMs} ms`)
})

test('what a disable left undone when its process ended is done before anything is handed out or fired', async (t) => {
  const { service, tenant } = await crowded(t, 'pending', 1_000)
  await assert.rejects(stoppedAfterOnePage(service, tenant), /not open/)
  assert.deepEqual(statuses(service), [
    ['cancelled', 250n],
    ['pending', 750n],
  ])
  await assertSound(service)
  // All plans are due at half the price, and those of a disabled user do not fire.
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
