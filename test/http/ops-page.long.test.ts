// The operator's page over thousands of partners with tens of thousands of plans: it stays small and fast, and lets
// others be answered meanwhile.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS, MINUTE_MS, plus } from '../../src/core/time.ts'
import { addPlans, fill } from '../support/large-database.ts'
import { startMonitored } from './monitored.ts'

const PARTNERS = 4_000
const PLANS = 25_000

function workMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

test('4,000 partners and 25,000 plans with a trade each make a page of 100 kB that keeps nobody waiting', async (t) => {
  const service = await startMonitored(t)
  await service.issueKey('globex', 'live')
  const tenant = await service.store.findTenant('globex', 'live')
  assert.ok(tenant)
  const now = service.now()
  fill(service.file, (db) => {
    const names = { count: PARTNERS, now }
    const numbers = 'with recursive n (i) as (values (1) union all select i + 1 from n where i < :count)'
    db.prepare(
      `${numbers} insert into partners (partner_slug, name, status, min_tranche, created_at, updated_at)
       select 'many-' || i, 'Partner ' || i, 'active', 500000000, :now, :now from n`,
    ).run(names)
    db.prepare(
      `${numbers} insert into tenants (partner_slug, environment)
       select 'many-' || i, e.name from n, (select 'live' as name union all select 'test') e`,
    ).run({ count: PARTNERS })
    const layout = { tenantId: tenant.tenantId, users: 1_000, plans: PLANS, now, limits: 'in turns' } as const
    addPlans(db, { ...layout, executions: 'sent' })
    db.prepare(
      `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
         execution_price, recorded_at, digest)
       select e.execution_id, e.tenant_id, e.plan_id, p.user_id, 'o' || e.plan_id, 'filled', e.amount_usd, 20000,
         5000000000000, :now, printf('%064x', e.plan_id)
       from executions e join plans p using (plan_id)`,
    ).run({ now: plus(now, MINUTE_MS) })
  })
  service.advance(HOUR_MS)
  // In processor time, which other work on the machine does not lengthen.
  let longest = 0
  let last = workMs()
  const watch = setInterval(() => {
    const now = workMs()
    longest = Math.max(longest, now - last)
    last = now
  }, 1)
  t.after(() => clearInterval(watch))
  for (const look of ['first', 'next']) {
    longest = 0
    const begun = workMs()
    const answer = await fetch(`${service.opsUrl}/ops`)
    const text = await answer.text()
    const took = workMs() - begun
    t.diagnostic(
      `${look}: ${took.toFixed(0)} ms, at most ${longest.toFixed(0)} ms at a stretch, ${text.length} characters`,
    )
    assert.equal(answer.status, 200)
    assert.match(text, /<dt>Filled<\/dt><dd>25000<\/dd>/)
    assert.match(text, /3952 more: <code>tranche partner list</)
    assert.ok(text.length < 100_000, `${text.length} characters`)
    assert.ok(took < 3_000, `${took} ms of work`)
    assert.ok(longest < 300, `${longest} ms at a stretch`)
    service.advance(MINUTE_MS)
  }
  // Its totals cover all partners.
  const month = await (await fetch(`${service.opsUrl}/ops?month=2026-01`)).text()
  assert.match(month, /<strong>TOTAL<\/strong><\/td><td class="right">25000</)
  assert.match(month, /3802 more: <code>tranche billing show --month 2026-01</)
  assert.ok(month.length < 150_000, `${month.length} characters`)
  assert.ok(longest < 300, `${longest} ms at a stretch`)
})
