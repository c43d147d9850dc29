// Windows that were rolled ahead by a wrong clock: found plan by plan, and brought back to their place on the grid.

import type { Instant } from '../../../core/instant.ts'
import { leastInstruction } from '../../../core/least-instruction.ts'
import type { Usd } from '../../../core/money.ts'
import { slotDue } from '../../../core/next-window.ts'
import type { PlanAhead, WindowStore } from '../../bring-back-windows.ts'
import { type PlanRow, planOf } from '../../rows/plan.ts'
import { type TenantRow, tenantOf } from '../../rows/tenant.ts'
import { type WindowRow, windowOf } from '../../rows/window.ts'
import { SELECT_FUTURE_WINDOW } from '../../sql/plans.ts'
import { OF_TENANT } from '../../sql/which-tenants.ts'
import type { AuditLog } from '../accounts/audit.ts'
import type { Connection, Database } from '../file/connection.ts'
import type { Ledger } from './windows-and-schedules.ts'

type Row = PlanRow & TenantRow & WindowRow & { min_tranche: bigint }

/** For the transactions of other files. */
export function createAhead(db: Database, ledger: Ledger) {
  const sql = {
    page: db.prepare<object, Row>(
      `${SELECT_FUTURE_WINDOW} and p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
    ),
    all: db.prepare<object, Row>(`${SELECT_FUTURE_WINDOW} order by p.tenant_id, p.plan_id`),
    one: db.prepare<object, Row>(`${SELECT_FUTURE_WINDOW} and p.plan_id = :plan_id`),
  }

  /** Null for a window that is where it belongs: the slots before it have no money left. */
  function judge(row: Row, now: Instant): PlanAhead | null {
    const [plan, window] = [planOf(row), windowOf(row)]
    const slot = slotDue({ ...window, ...plan }, plan.startDate, now)
    const place = ledger.freeSlot(plan.planId, slot, leastInstruction(row.min_tranche as Usd, plan.amount))
    return place.start < window.start && place.end < window.end
      ? { ...plan, tenant: tenantOf(row), window, place }
      : null
  }

  return {
    page: (bounds: object, now: Instant) => sql.page.all({ ...bounds, now }),
    all: (now: Instant) => sql.all.all({ now }),
    judge,
    one(planId: number, now: Instant): { plan: PlanAhead; minTranche: Usd } | null {
      const row = sql.one.get({ plan_id: planId, now })
      const plan = row ? judge(row, now) : null
      return row && plan ? { plan, minTranche: row.min_tranche as Usd } : null
    },
  }
}

export function createWindowStore(connection: Connection, ledger: Ledger, audit: AuditLog): WindowStore {
  const { db, clock, read, write } = connection
  const ahead = createAhead(db, ledger)
  return {
    listAhead: (filter, { after, limit }) =>
      read(() => {
        const now = clock()
        const rows = ahead.page({ ...filter, after: after ?? 0, limit }, now)
        const last = rows.at(-1)
        return {
          plans: rows.flatMap((row) => ahead.judge(row, now) ?? []),
          cursor: last && rows.length === limit ? Number(last.plan_id) : null,
        }
      }),

    bringBack: (planId, entryOf) =>
      write((now) => {
        const found = ahead.one(planId, now)
        if (!found) return null
        const { plan, minTranche } = found
        // Not `ended`: it never ran its course, and nobody missed the money that it leaves.
        ledger.closeCurrent(planId, 'reset', now)
        ledger.open(planId, plan.place, minTranche)
        ledger.wake(planId)
        audit.add(entryOf(plan, now), now)
        return plan
      }),
  }
}
