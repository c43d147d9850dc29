// What the check has to say about the clock: a dispute that stands, and traces of a time when it was wrong.

import { inWords } from '../../../core/clock.ts'
import { counted } from '../../../core/counted.ts'
import { formatInstant, type Instant } from '../../../core/instant.ts'
import { spellSpan } from '../../../core/span.ts'
import type { Finding } from '../../check.ts'
import { instantOrNull } from '../../rows/instant.ts'
import type { PlanAhead } from '../../windows.ts'
import type { Database } from '../file/connection.ts'
import { createLedger } from '../ledger/ledger.ts'
import { createAhead } from '../ledger/windows.ts'
import { createDisputes } from '../pass/disputes.ts'

type Look = (now: Instant) => Finding[]

export const clockLooks = (db: Database): Look[] => [disputed(db), setBack(db), rolledAhead(db)]

function disputed(db: Database): Look {
  const { standing } = createDisputes(db)
  return () => {
    const dispute = standing()
    if (dispute === null) return []
    const message = `at the last pass ${inWords(dispute)}; nothing fires and no window rolls until they agree`
    return [{ kind: 'clock_disputed', subject: 'clock', message }]
  }
}

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
    return [{ kind: 'clock_back', subject: 'clock', message }]
  }
}

/** One finding for each tenant, under the name of the first plan. */
function rolledAhead(db: Database): Look {
  const ahead = createAhead(db, createLedger(db))
  return (now) => {
    const found = new Map<string, { first: PlanAhead; n: number }>()
    for (const row of ahead.all(now)) {
      const plan = ahead.judge(row, now)
      if (!plan) continue
      const place = `${plan.tenant.partnerSlug} ${plan.tenant.environment}`
      const seen = found.get(place)
      if (seen) seen.n += 1
      else found.set(place, { first: plan, n: 1 })
    }
    return [...found].map(([place, { first, n }]) => ({
      kind: 'windows_ahead',
      subject: `${place} plan ${first.partnerPlanId}`,
      message:
        `its window starts ${formatInstant(first.window.start)}, opened by a clock that was ahead, and it buys nothing ` +
        `until then; in all ${counted(n, 'plan')} of ${place}`,
    }))
  }
}
