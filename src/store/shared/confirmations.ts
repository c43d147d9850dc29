// Confirmations: reads everything that decides reports of executions, lets core decide, and stores the outcomes.

import {
  type Confirmation,
  type ExecutionFacts,
  RECORDED_SINCE,
  type Recorded,
  type Refused,
} from '../../core/confirmation.ts'
import type { ExecutionId } from '../../core/execution.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Instant } from '../../core/time.ts'
import {
  type ExecutionRow,
  executionOf,
  keptParams,
  type LateFillRow,
  lateFillOf,
  type TradeRow,
  tradeOf,
  tradeParams,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { EXECUTION_COLUMNS, EXECUTION_TABLES, IN_REAL_TIME, isOfOrder } from '../sql/fragments.ts'
import { atOrNull, query } from '../statement.ts'
import type { ExecutionStore } from '../store.ts'
import { insertInto, insertRows, updateOf } from '../tables.ts'
import {
  type Base,
  callOf,
  NOTHING,
  runRows,
  type Step,
  type Steps,
  type Tx,
  type WriteTx,
} from '../transaction.ts'
import { grouped } from '../writes.ts'
import { lockExecutions, writeWindows } from './ledger.ts'

type Asked = { executionId: string; partnerOrderId: string }
type Report = Asked & { decide: Parameters<ExecutionStore['confirmExecution']>[2] }
type Outcome = PromiseSettledResult<Confirmation>

export function createConfirmationStore(
  { write }: Base,
  inGroups: boolean,
): Pick<ExecutionStore, 'confirmExecution'> {
  const confirm = grouped(inGroups, (caller, reports: readonly Report[]) =>
    write((tx) => confirmAll(tx, caller, reports), { ...callOf(caller), onceMore: true }),
  )
  return { confirmExecution: (caller, ids, decide) => confirm(caller, { ...ids, decide }) }
}

/** In their order. A report sees the outcomes of earlier ones. */
function* confirmAll(tx: WriteTx, tenant: Tenant, reports: readonly Report[]): Steps<Outcome[]> {
  const executionIds = reports.map(({ executionId }) => executionId)
  const [times, , first] = yield* tx.together(
    tx.times,
    lockExecutions(tx, tenant.tenantId, executionIds),
    seenFor(tx, tenant, reports),
  )
  const now = times.of(tenant.tenantId)
  const outcomes: Outcome[] = []
  for (let [left, seen] = [reports, first]; ; seen = yield* seenFor(tx, tenant, left)) {
    const decided = decideApart(left, seen, now)
    const confirmations = decided.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    yield* storeAll(tx, tenant, confirmations, now)
    outcomes.push(...decided)
    left = left.slice(decided.length)
    if (left.length === 0) break
  }
  // Alone, a refusal undoes its transaction, as everywhere: that waits for no disk.
  if (reports.length === 1 && outcomes[0]?.status === 'rejected') throw outcomes[0].reason
  return outcomes
}

/** Decides reports up to the first that touches the window or the order of an earlier one. */
function decideApart(reports: readonly Report[], seen: readonly ExecutionFacts[], now: Instant): Outcome[] {
  const touched = new Set<unknown>()
  const outcomes: Outcome[] = []
  for (const [i, facts] of seen.entries()) {
    const { executionId, partnerOrderId, decide } = reports[i] as Report
    const touches = [facts.window?.windowId ?? executionId, partnerOrderId]
    if (touches.some((one) => touched.has(one))) break
    for (const one of touches) touched.add(one)
    try {
      outcomes.push({ status: 'fulfilled', value: decide(facts, now) })
    } catch (reason) {
      outcomes.push({ status: 'rejected', reason })
    }
  }
  return outcomes
}

const storeAll = (
  tx: Tx,
  tenant: Tenant,
  confirmations: readonly Confirmation[],
  now: Instant,
): Step<unknown> =>
  tx.together(
    recordTrades(
      tx,
      tenant,
      confirmations.filter((one) => one.kind === 'recorded'),
    ),
    ...confirmations.flatMap((one) => {
      if (one.kind === 'refused') return [keep(tx, tenant, one, now)]
      // Decides a late fill of the same order.
      if (one.kind === 'recorded' && one.settles !== null)
        return [tx.run(DECIDE, { report_id: one.settles, now, reason: RECORDED_SINCE })]
      return []
    }),
  )

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

/** By its place: an execution may be asked for twice. */
const ASKED = { place: 'integer', execution_id: 'text', partner_order_id: 'text' } as const
type Placed = { place: bigint }
const holderIn = (table: 'trades' | 'adjustments'): string =>
  `select execution_id from ${table} where ${isOfOrder('a.partner_order_id')} and execution_id <> a.execution_id`
const EXECUTIONS = query(
  ({ rows }) =>
    `select a.place, ${EXECUTION_COLUMNS}, w.*,
       (select execution_id from (${holderIn('trades')} union all ${holderIn('adjustments')}) h limit 1) as holder
     from ${rows('asked', ASKED, 'a')} cross join ${EXECUTION_TABLES} join windows w on w.window_id = e.window_id
     where e.execution_id = a.execution_id and +e.tenant_id = :tenant`,
  (row: ExecutionRow & WindowRow & Placed & { holder: ExecutionId | null }) => ({
    place: Number(row.place),
    execution: executionOf(row),
    window: windowOf(row),
    orderHeldBy: row.holder,
  }),
)
const TRADES = query(
  ({ rows }) =>
    `select a.place, t.* from ${rows('asked', ASKED, 'a')} cross join trades t
     where t.execution_id = a.execution_id`,
  (row: TradeRow & Placed) => ({ place: Number(row.place), trade: tradeOf(row) }),
)
const LATE_FILLS = query(
  ({ rows }) =>
    `select a.place, l.* from ${rows('asked', ASKED, 'a')} cross join late_reports l
     where l.execution_id = a.execution_id order by l.report_id`,
  (row: LateFillRow & Placed) => ({ place: Number(row.place), late: lateFillOf(row) }),
)

/** The facts of each report, in their order. */
export function* seenFor(tx: Tx, { tenantId }: Tenant, reports: readonly Asked[]): Steps<ExecutionFacts[]> {
  const asked = reports.map(({ executionId, partnerOrderId }, place) => ({
    place,
    execution_id: executionId,
    partner_order_id: partnerOrderId,
  }))
  const [executions, trades, late, latest = null] = yield* tx.together(
    tx.all(EXECUTIONS, { tenant: tenantId, asked }),
    tx.all(TRADES, { asked }),
    tx.all(LATE_FILLS, { asked }),
    tx.get(LATEST_RECORDED, { tenant: tenantId }),
  )
  const found = new Map(executions.map(({ place, ...facts }) => [place, facts]))
  return reports.map((_, place) => {
    const facts = found.get(place)
    if (!facts) return { ...UNKNOWN, latestRecordedAt: latest }
    return {
      ...facts,
      trade: trades.find((one) => one.place === place)?.trade ?? null,
      lateFills: late.filter((one) => one.place === place).map((one) => one.late),
      latestRecordedAt: latest,
    }
  })
}
const UNKNOWN = { execution: null, window: null, trade: null, lateFills: [], orderHeldBy: null }

const SETTLE = updateOf('executions', ['execution_id'], ['status'])
export const INSERT_TRADES = query((dialect) =>
  insertRows(dialect, 'trades', {
    values: { user_id: '(select user_id from plans where plan_id = n.plan_id)' },
  }),
)

/** Stores confirmations: the trades, their executions' new status, the windows' ledgers. */
export const recordTrades = (tx: Tx, { tenantId }: Tenant, recorded: readonly Recorded[]): Step<unknown> =>
  tx.together(
    runRows(
      tx,
      SETTLE,
      recorded.map(({ execution }) => ({ execution_id: execution.executionId, status: execution.status })),
    ),
    runRows(
      tx,
      INSERT_TRADES,
      recorded.map(({ execution: { planId }, trade }) => tradeParams({ tenantId, planId }, trade)),
    ),
    writeWindows(
      tx,
      recorded.map(({ window }) => window),
    ),
  )

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
