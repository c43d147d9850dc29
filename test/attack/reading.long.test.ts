// Lists of a partner with forty thousand plans, executions and trades: they give every row once, a page costs the
// same at the end as at the start, and a small partner beside it pays nothing for it.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Tenant } from '../../src/core/partner.ts'
import { EXECUTIONS, PLANS, TRADES } from '../http/steps.ts'
import { addPlans, fill } from '../support/large-database.ts'
import { type Service, startService } from '../support/service.ts'
import { measure } from '../support/within.ts'

const ROWS = 40_000
const PAGE = 400
/** So many pages at either end are compared. */
const SAMPLE = 15
const RATIO_MAX = 3

const LISTS = [
  { path: `${PLANS}?`, rows: 'plans', id: 'partner_plan_id' },
  { path: `${EXECUTIONS}?`, rows: 'executions', id: 'execution_id' },
  { path: `${TRADES}?month=2026-01&`, rows: 'trades', id: 'execution_id' },
] as const

/** Every plan has an execution out, and a trade of it: what the lists read, if not what a partner could bring about. */
async function crowded(t: TestContext): Promise<Service> {
  const service = await startService(t)
  const { tenantId } = (await service.store.findTenant('acme', 'test')) as Tenant
  const now = service.now()
  fill(service.file, (db) => {
    addPlans(db, { tenantId, users: 100, plans: ROWS, now, limits: 'alike', executions: 'sent' })
    db.prepare(
      `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount, btc_amount,
         execution_price, recorded_at, digest)
       select e.execution_id, e.tenant_id, e.plan_id, p.user_id, 'o' || e.plan_id, 'filled', 1000000000, 20000,
         5000000000000, e.created_at + e.plan_id, printf('%064x', e.plan_id)
       from executions e join plans p on p.plan_id = e.plan_id`,
    ).run()
  })
  service.advance(ROWS + 1)
  return service
}

/** A page without what a test checks of every other answer: that takes longer than the page. */
async function pageOf({ url }: Service, path: string, key: string) {
  const from = performance.now()
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } })
  const body = (await response.json()) as Record<string, unknown> & { next_cursor: string | null }
  assert.equal(response.status, 200, JSON.stringify(body))
  return { body, ms: performance.now() - from }
}

const median = (times: number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0

test('lists of 40,000 rows, page by page', async (t) => {
  const service = await crowded(t)
  const small = await service.issueKey('small', 'test')
  for (const { path, rows, id } of LISTS) {
    const walk = async () => {
      const [seen, times] = [new Set<unknown>(), [] as number[]]
      let count = 0
      for (let cursor = ''; ; ) {
        const { body, ms } = await pageOf(service, `${path}limit=${PAGE}${cursor}`, service.key)
        for (const row of body[rows] as Record<string, unknown>[]) seen.add(row[id])
        count += (body[rows] as unknown[]).length
        times.push(ms)
        if (body.next_cursor === null) break
        cursor = `&cursor=${body.next_cursor}`
      }
      assert.deepEqual([seen.size, count, times.length], [ROWS, ROWS, ROWS / PAGE], path)
      return { first: median(times.slice(0, SAMPLE)), last: median(times.slice(-SAMPLE)) }
    }
    const { first, last } = await measure(walk, (taken) => taken.last / taken.first < RATIO_MAX)
    assert.ok(last / first < RATIO_MAX, `${path} ${first} ms at the start, ${last} ms at the end`)

    const ofSmall = async () => {
      const times: number[] = []
      for (let n = 0; n < SAMPLE; n++) {
        const { body, ms } = await pageOf(service, `${path}limit=${PAGE}`, small)
        assert.deepEqual([body[rows], body.next_cursor], [[], null])
        times.push(ms)
      }
      return median(times)
    }
    const alone = await measure(ofSmall, (ms) => ms < first)
    assert.ok(alone < first, `${path} ${alone} ms for nothing, ${first} ms for ${PAGE} rows`)
  }
})
