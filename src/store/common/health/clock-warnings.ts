// What the check has to say about the clock: traces of a time when it was wrong.

import { counted } from '../../../core/counted.ts'
import { spellSpan } from '../../../core/duration-words.ts'
import { ticket } from '../../../core/findings.ts'
import { formatInstant } from '../../../core/instant.ts'
import { tenantName } from '../../../core/tenant-words.ts'
import type { PlanAhead, WindowStore } from '../../bring-back-windows.ts'
import type { Look } from '../../check.ts'
import { instantOrNull } from '../../rows/instant.ts'
import { type Reader, sql } from '../reader.ts'

const LIVE = { slug: null, environment: 'live' } as const

/** Only live business counts: a test environment may be led through time faster than the clock. */
const LATEST_RECORD = sql<{ at: bigint | null }>(
  `select max(x.at) as at from (
     select max(at) as at from ticks union all select max(at) from audit
     union all select max(at) from reported_until
     union all select (select max(created_at) from executions e where e.tenant_id = t.tenant_id)
       from tenants t where environment = 'live'
     union all select (select max(recorded_at) from trades d where d.tenant_id = t.tenant_id)
       from tenants t where environment = 'live') x`,
)

export const setBack =
  (reader: Reader): Look =>
  async (clock) => {
    const latest = instantOrNull((await reader.get(LATEST_RECORD))?.at ?? null)
    // The clock is read afterwards; otherwise, what was just written would lie ahead of it.
    const now = await clock()
    if (latest === null || latest <= now) return []
    const message = `shows ${formatInstant(now)}, but the database holds records of ${formatInstant(latest)}, ${spellSpan(latest - now)} later`
    return [ticket('clock_back', 'clock', message, { severity: 'page', next: ['timedatectl', 'status'] })]
  }

const PLANS_PER_READ = 1_000

/** One finding for each tenant, under the name of the first plan. */
export const rolledAhead =
  (listAhead: WindowStore['listAhead']): Look =>
  async () => {
    const found = new Map<string, { first: PlanAhead; n: number }>()
    for (let after: number | null = null; ; ) {
      const page: Awaited<ReturnType<WindowStore['listAhead']>> = await listAhead(LIVE, {
        after,
        limit: PLANS_PER_READ,
      })
      for (const plan of page.plans) {
        const place = tenantName(plan.tenant)
        const seen = found.get(place)
        if (seen) seen.n += 1
        else found.set(place, { first: plan, n: 1 })
      }
      if (page.cursor === null) break
      after = page.cursor
    }
    const byTenant = [...found].sort(([, a], [, b]) => a.first.tenant.tenantId - b.first.tenant.tenantId)
    return byTenant.map(([place, { first, n }]) => {
      const { tenant, partnerPlanId, window } = first
      const message =
        `its window starts ${formatInstant(window.start)}, opened by a clock that was ahead, and it buys nothing ` +
        `until then; in all ${counted(n, 'plan')} of ${place}`
      const next = [
        'tranche',
        'plan',
        'bring-back',
        '--partner',
        tenant.partnerSlug,
        '--env',
        tenant.environment,
      ]
      return ticket('windows_ahead', `${place} plan ${partnerPlanId}`, message, { tenant, next })
    })
  }
