// A confirmation: reads everything that decides a report of an execution, lets core decide, and stores the outcome.

import { type ExecutionFacts, RECORDED_SINCE, type Recorded, type Refused } from '../../core/confirmation.ts'
import type { ExecutionId } from '../../core/execution.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import { executionOf, keptParams, lateFillOf, tradeOf, tradeParams, windowOf } from '../rows/ledger.ts'
import { IN_REAL_TIME, SELECT_EXECUTION } from '../sql/fragments.ts'
import { atOrNull, query } from '../statement.ts'
import type { ExecutionStore } from '../store.ts'
import { insertInto } from '../tables.ts'
import { type Base, callOf, NOTHING, type Step, type Steps, type Tx } from '../transaction.ts'
import { lockExecutions, writeWindow } from './ledger.ts'

const scopeOf = (tenant: Parameters<typeof callOf>[0]) => ({ ...callOf(tenant), onceMore: true })

export const createConfirmationStore = ({ write }: Base): Pick<ExecutionStore, 'confirmExecution'> => ({
  confirmExecution: (tenant, ids, decide) =>
    write(function* (tx) {
      const [times, , seen] = yield* tx.together(
        tx.times,
        lockExecutions(tx, tenant.tenantId, [ids.executionId]),
        seenFor(tx, tenant, ids),
      )
      const now = times.of(tenant.tenantId)
      const confirmation = decide(seen, now)
      if (confirmation.kind === 'recorded') {
        const { settles } = confirmation
        yield* tx.together(
          recordTrade(tx, tenant, confirmation),
          // Decides a late fill of the same order.
          settles === null ? NOTHING : tx.run(DECIDE, { report_id: settles, now, reason: RECORDED_SINCE }),
        )
      }
      if (confirmation.kind === 'refused') yield* keep(tx, tenant, confirmation, now)
      return confirmation
    }, scopeOf(tenant)),
})

export const KEEP = query(`${insertInto('late_reports')} on conflict (execution_id, fingerprint) do nothing`)
const COUNT = query(
  'update executions set unkept_reports = unkept_reports + 1 where execution_id = :execution_id',
)

/** Keeps a refused fill as a late fill, or counts it; does nothing if it is kept already. */
function keep(tx: Tx, { tenantId }: Tenant, refused: Refused, now: Instant): Step<unknown> {
  const { keeping, report, reason } = refused
  const { executionId } = refused.execution
  if (keeping === 'new') return tx.run(KEEP, keptParams(tenantId, { executionId, report, reason }, now))
  return keeping === 'counted' ? tx.run(COUNT, { execution_id: executionId }) : NOTHING
}

export const WINDOW_OF = query(
  `select * from windows
   where window_id = (select window_id from executions where execution_id = :execution_id)`,
  windowOf,
)
export const TRADE = query('select * from trades where execution_id = :execution_id', tradeOf)
/** The late fills of an execution, oldest first. */
export const LATE_FILLS_OF = query(
  'select * from late_reports where execution_id = :execution_id order by report_id',
  lateFillOf,
)

export const DECIDE_WHERE = `update late_reports set decided_at = :now, decision_reason = :reason
  where decided_at is null and`
export const DECIDE = query(`${DECIDE_WHERE} report_id = :report_id`)
const EXECUTION = query(
  `${SELECT_EXECUTION} where e.tenant_id = :tenant and e.execution_id = :execution_id`,
  executionOf,
)
const HOLDER = query<{ execution_id: ExecutionId }>(
  `select execution_id from trades where tenant_id = :tenant and partner_order_id = :order
     and execution_id <> :execution_id
   union all select execution_id from adjustments where tenant_id = :tenant and partner_order_id = :order
     and execution_id <> :execution_id`,
)
const SETTLE = query(
  'update executions set status = :status where tenant_id = :tenant and execution_id = :execution_id',
)
export const INSERT_TRADE = query(
  insertInto('trades', { user_id: '(select user_id from plans where plan_id = :plan_id)' }),
)

type Asked = { executionId: string; partnerOrderId: string }

export function* seenFor(
  tx: Tx,
  { tenantId }: Tenant,
  { executionId, partnerOrderId }: Asked,
): Steps<ExecutionFacts> {
  const asked = { tenant: tenantId, execution_id: executionId, order: partnerOrderId }
  const [execution, window = null, trade = null, lateFills, holder, latest = null] = yield* tx.together(
    tx.get(EXECUTION, asked),
    tx.get(WINDOW_OF, asked),
    tx.get(TRADE, asked),
    tx.all(LATE_FILLS_OF, asked),
    tx.get(HOLDER, asked),
    tx.get(LATEST_RECORDED, asked),
  )
  const others = { orderHeldBy: holder?.execution_id ?? null, latestRecordedAt: latest }
  if (!execution) return { execution: null, window: null, trade: null, lateFills: [], ...others }
  return { execution, window, trade, lateFills, ...others }
}

/** Stores a confirmation: the trade, its execution's new status, the window's ledger. */
export function recordTrade(
  tx: Tx,
  { tenantId }: Tenant,
  { execution, window, trade }: Recorded,
): Step<unknown> {
  const { executionId, planId, status } = execution
  return tx.together(
    tx.run(SETTLE, { tenant: tenantId, execution_id: executionId, status }),
    tx.run(INSERT_TRADE, tradeParams({ tenantId, planId }, trade)),
    writeWindow(tx, window),
  )
}

/** When a tenant's latest trade or adjustment was recorded: one step along an index of each table. */
const latestWhere = (condition: string): string =>
  `(select max(l.at) from (select max(recorded_at) as at from trades ${condition}
     union all select max(recorded_at) from adjustments ${condition}) l)`
const LATEST_RECORDED = query(
  `select case
     when not exists (select 1 from sandboxes) then ${latestWhere('')}
     when exists (select 1 from sandboxes where tenant_id = cast(:tenant as bigint))
       then ${latestWhere('where tenant_id = cast(:tenant as bigint)')}
     else (select max(${latestWhere('where tenant_id = tenants.tenant_id')}) from tenants where ${IN_REAL_TIME})
   end as at`,
  atOrNull,
)

/**
 * The latest recorded_at among the tenants that share this one's time; for null, among all in real time. A sandbox is
 * on its own: its records lie in the future of all others and must not move them there.
 */
export function* latestRecordedAt(tx: Tx, tenantId: number | null): Steps<Instant | null> {
  return (yield* tx.get(LATEST_RECORDED, { tenant: tenantId })) ?? null
}
