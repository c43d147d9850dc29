// What takes reading many rows, in pages: how many plans there are, and which windows ended with money left.

import { UNSPENT_DAYS } from '../../../core/alarm-thresholds.ts'
import { DAY_MS, earlier, type Instant, plus } from '../../../core/instant.ts'
import type { Usd } from '../../../core/money.ts'
import type { Environment } from '../../../core/partner.ts'
import type { UnspentSeen } from '../../../core/vitals.ts'
import type { MonitoringStore, PlanCounts, Stock } from '../../monitoring.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { breathe, PAGE_ROWS, type Reader, sql } from '../reader.ts'

type PlanRow = {
  tenant_id: bigint
  environment: Environment
  status: keyof PlanCounts
  n: bigint
  timed_since: bigint | null
}
type UnspentRow = TenantRow & {
  closed_at: bigint
  window_id: bigint
  released: bigint
  partner_plan_id: string
}

/**
 * Whether a window `w` ran its course, at `:since` or later, and left money unspent. Phrased exactly like the condition
 * of an index.
 */
const ENDED_UNSPENT = `w.close_reason = 'ended' and w.released > 0 and w.closed_at >= :since`

const NEWEST_PLAN = sql<{ newest: bigint | null }>('select max(plan_id) as newest from plans')
const PLANS_BETWEEN = sql<PlanRow>(
  `select p.tenant_id, t.environment, p.status, count(*) as n,
     min(case when p.status = 'active' and p.smart_timing_enabled = 1 then p.created_at end) as timed_since
   from plans p join tenants t on t.tenant_id = p.tenant_id
   where p.plan_id > :from and p.plan_id <= :to group by p.tenant_id, t.environment, p.status`,
)
const UNSPENT_AFTER = sql<UnspentRow>(
  `select w.closed_at, w.window_id, w.released, p.partner_plan_id, t.*
   from windows w join plans p on p.plan_id = w.plan_id join tenants t on t.tenant_id = p.tenant_id
   where ${ENDED_UNSPENT} and (w.closed_at, w.window_id) > (:closed_at, :window_id)
   order by w.closed_at, w.window_id limit :limit`,
)

export function stockTaker(reader: Reader): MonitoringStore['takeStock'] {
  async function countPlans(): Promise<Pick<Stock, 'plans' | 'plansSince'>> {
    const none = (): PlanCounts => ({ active: 0, paused: 0, cancelled: 0 })
    const plans = { test: none(), live: none() }
    const plansSince = new Map<number, Instant>()
    const newest = (await reader.get(NEWEST_PLAN))?.newest ?? 0n
    for (let from = 0n; from < newest; from += BigInt(PAGE_ROWS)) {
      const rows = await reader.all(PLANS_BETWEEN, { from, to: from + BigInt(PAGE_ROWS) })
      for (const { tenant_id, environment, status, n, timed_since } of rows) {
        plans[environment][status] += Number(n)
        const since = instantOrNull(timed_since)
        if (environment === 'test' || since === null) continue
        const tenantId = Number(tenant_id)
        plansSince.set(tenantId, earlier(since, plansSince.get(tenantId) ?? since))
      }
      await breathe()
    }
    return { plans, plansSince }
  }

  async function listUnspent(since: Instant): Promise<UnspentSeen[]> {
    const ofPlans = new Map<
      string,
      UnspentSeen['worst'] & { tenant: UnspentSeen['tenant']; windows: number }
    >()
    let after = { closed_at: BigInt(since) - 1n, window_id: -1n }
    for (;;) {
      const rows = await reader.all(UNSPENT_AFTER, { since, ...after, limit: PAGE_ROWS })
      for (const row of rows) {
        // Nobody's money was left unspent in a test environment.
        if (row.environment === 'test') continue
        const key = `${row.tenant_id} ${row.partner_plan_id}`
        const plan = ofPlans.get(key) ?? {
          tenant: tenantOf(row),
          partnerPlanId: row.partner_plan_id,
          released: 0n as Usd,
          windows: 0,
        }
        plan.released = (plan.released + row.released) as Usd
        plan.windows += 1
        ofPlans.set(key, plan)
      }
      const last = rows.at(-1)
      if (rows.length < PAGE_ROWS || last === undefined) break
      after = last
      await breathe()
    }
    return byTenant([...ofPlans.values()])
  }

  return async (now) => ({
    ...(await countPlans()),
    unspent: await listUnspent(plus(now, -UNSPENT_DAYS * DAY_MS)),
  })
}

/** One entry a tenant, under the name of the plan that left the most. */
function byTenant(
  plans: readonly (UnspentSeen['worst'] & { tenant: UnspentSeen['tenant']; windows: number })[],
): UnspentSeen[] {
  const found = new Map<number, UnspentSeen>()
  for (const { tenant, windows, partnerPlanId, released } of plans) {
    const seen = found.get(tenant.tenantId)
    if (!seen) found.set(tenant.tenantId, { tenant, windows, released, worst: { partnerPlanId, released } })
    else {
      seen.windows += windows
      seen.released = (seen.released + released) as Usd
      if (released > seen.worst.released) seen.worst = { partnerPlanId, released }
    }
  }
  return [...found.values()].sort((a, b) => a.tenant.tenantId - b.tenant.tenantId)
}
