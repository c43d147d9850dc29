// What the check has to say about the clock: traces of a time when it was wrong.

import { type Finding, tenantName, ticket } from '../../../core/findings.ts'
import { formatInstant, type Instant } from '../../../core/instant.ts'
import { spellSpan } from '../../../core/span.ts'
import { instantOrNull } from '../../rows/instant.ts'
import type { PlanAhead } from '../../windows.ts'
import type { Database } from '../file/connection.ts'
import { createLedger } from '../ledger/ledger.ts'
import { createAhead } from '../ledger/windows.ts'

type Look = (now: Instant) => Finding[]

export const clockLooks = (db: Database): Look[] => [setBack(db), rolledAhead(db)]

/** Only live business counts: a test environment may be led through time faster than the clock. */
function setBack(db: Database): Look {
  const sql = db
    .prepare<[], bigint | null>(
      `select max(at) from (
         select max(at) as at from ticks union all select max(at) from audit
         union all select max(at) from reported_until
         union all select (select max(created_at) from executions e where e.tenant_id = t.tenant_id)
           from tenants t where environment = 'live'
         union all select (select max(recorded_at) from trades d where d.tenant_id = t.tenant_id)
           from tenants t where environment = 'live')`,
    )
    .pluck()
  return (now) => {
    const latest = instantOrNull(sql.get() ?? null)
    if (latest === null || latest <= now) return []
    const message = `shows ${formatInstant(now)}, but the database holds records of ${formatInstant(latest)}, ${spellSpan(latest - now)} later`
    return [ticket('clock_back', 'clock', message, { severity: 'page', next: ['timedatectl', 'status'] })]
  }
}

/** One finding for each tenant, under the name of the first plan. */
function rolledAhead(db: Database): Look {
  const ahead = createAhead(db, createLedger(db))
  return (now) => {
    const found = new Map<string, { first: PlanAhead; n: number }>()
    for (const row of ahead.all(now)) {
      const plan = row.environment === 'live' ? ahead.judge(row, now) : null
      if (!plan) continue
      const place = tenantName(plan.tenant)
      const seen = found.get(place)
      if (seen) seen.n += 1
      else found.set(place, { first: plan, n: 1 })
    }
    return [...found].map(([place, { first, n }]) => {
      const { tenant, partnerPlanId, window } = first
      const message =
        `its window starts ${formatInstant(window.start)}, opened by a clock that was ahead, and it buys nothing ` +
        `until then; in all ${n} plans of ${place}`
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
}
