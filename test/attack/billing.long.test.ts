// Reports of a month in which thousands of trades were made on one day.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatUsd, usd } from '../../src/core/money.ts'
import { periodOf } from '../../src/core/month.ts'
import type { Tenant } from '../../src/core/partner.ts'
import { DAY_MS, plus } from '../../src/core/time.ts'
import { openFile } from '../../src/store/sqlite/file/connection.ts'
import { startService, T0 } from '../support/service.ts'
import { measure, watched } from '../support/within.ts'
import { addCrowd } from './crowd.ts'

const TRADES = 12_000
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
  const service = await startService(t)
  const tenant = (await service.store.findTenant('acme', 'test')) as Tenant
  addCrowd(service.file, tenant.tenantId, { user: 'crowd', plans: TRADES, status: 'sent' })
  fillAll(service.file)
  service.setClock(plus(T0, DAY_MS))
  const period = await service.store.fixPeriod(periodOf('2026-01'), tenant)
  const isFine = ({ tookMs, stallMs }: { tookMs: number; stallMs: number }) => stallMs < tookMs / 2
  const read = () => watched(() => service.store.readActivity(tenant, period))
  const seen = await measure(read, isFine)
  assert.ok(isFine(seen), `the loop was held for ${seen.stallMs} of ${seen.tookMs} ms`)

  const { body } = await service.call('GET', MONTHLY)
  const { trade_count, volume_usd, executions_created, active_plans, active_users } = body
  assert.deepEqual(
    { trade_count, volume_usd, executions_created, active_plans, active_users },
    {
      trade_count: TRADES,
      volume_usd: formatUsd((usd('10.00') * BigInt(TRADES)) as ReturnType<typeof usd>),
      executions_created: TRADES,
      active_plans: TRADES,
      active_users: 1,
    },
  )
})

test('reports of one key are made one after the other, and of more than a year of them at once some are put off', async (t) => {
  const service = await startService(t)
  const tenant = (await service.store.findTenant('acme', 'test')) as Tenant
  addCrowd(service.file, tenant.tenantId, { user: 'crowd', plans: 2_000, status: 'sent' })
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
