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
import { ofTenant } from '../../transaction.ts'
import { addAudit } from '../accounts/audit.ts'
import type { Connection } from '../server/connection.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { lockPlans } from './row-locks.ts'
import { ledger } from './windows-and-schedules.ts'

type Row = PlanRow & TenantRow & WindowRow & { min_tranche: bigint }

const PAGE = query<Row>(
  `${SELECT_FUTURE_WINDOW} and p.plan_id > :after and ${OF_TENANT} order by p.plan_id limit :limit`,
)
const ALL = query<Row>(`${SELECT_FUTURE_WINDOW} order by p.tenant_id, p.plan_id`)
const ONE = query<Row>(`${SELECT_FUTURE_WINDOW} and p.plan_id = :plan_id`)
const TENANT = query<{ tenant_id: bigint }>('select tenant_id from plans where plan_id = :plan_id')

/** Null for a window that is where it belongs: the slots before it have no money left. */
async function judge(tx: Tx, row: Row, now: Instant): Promise<PlanAhead | null> {
  const [plan, window] = [planOf(row), windowOf(row)]
  const slot = slotDue({ ...window, ...plan }, plan.startDate, now)
  const place = await ledger.freeSlot(
    tx,
    plan.planId,
    slot,
    leastInstruction(row.min_tranche as Usd, plan.amount),
  )
  return place.start < window.start && place.end < window.end
    ? { ...plan, tenant: tenantOf(row), window, place }
    : null
}

async function judged(tx: Tx, rows: readonly Row[], now: Instant): Promise<PlanAhead[]> {
  const found = await Promise.all(rows.map((row) => judge(tx, row, now)))
  return found.filter((plan) => plan !== null)
}

/** Every plan that is ahead, for the transactions of other files. */
export const plansAhead = async (tx: Tx, now: Instant): Promise<PlanAhead[]> =>
  judged(tx, await tx.all(ALL, { now }), now)

export function createWindowStore({ clock, look, read, write }: Connection): WindowStore {
  return {
    listAhead: (filter, { after, limit }) =>
      read(async (tx) => {
        const now = await clock.now(tx)
        const rows = await tx.all(PAGE, { ...filter, after: after ?? 0, limit, now })
        const last = rows.at(-1)
        return {
          plans: await judged(tx, rows, now),
          cursor: last && rows.length === limit ? Number(last.plan_id) : null,
        }
      }),

    async bringBack(planId, entryOf) {
      const owner = await look((tx) => tx.get(TENANT, { plan_id: planId }))
      if (!owner) return null
      return write(
        async (tx) => {
          const [{ real }] = await Promise.all([tx.times, lockPlans(tx, [planId])])
          const row = await tx.get(ONE, { plan_id: planId, now: real })
          const plan = row ? await judge(tx, row, real) : null
          if (!row || !plan) return null
          // Not `ended`: it never ran its course, and nobody missed the money that it leaves.
          const place = { planId, windowId: await ledger.nextId(tx) }
          const next = { ...place, opening: plan.place, minTranche: row.min_tranche as Usd }
          await ledger.replaceCurrent(tx, { reason: 'reset', now: real }, next)
          await ledger.wake(tx, [planId])
          await addAudit(tx, entryOf(plan, real), real)
          return plan
        },
        ofTenant({ tenantId: Number(owner.tenant_id) }),
      )
    },
  }
}
