// What confirmations are decided on, and what they leave behind, for the transactions of executions and trades: many in
// a few statements. The caller has locked the executions (row-locks.ts).

import type { ExecutionId } from '../../../core/execution-id.ts'
import type { Instant } from '../../../core/instant.ts'
import { RECORDED_SINCE } from '../../../core/keep-late-fill.ts'
import { DamagedRow } from '../../../core/problem.ts'
import { unreserved, type Window } from '../../../core/window.ts'
import { intact, tradeDigest } from '../../digests.ts'
import { reportParams } from '../../rows/confirmation-report.ts'
import { type ExecutionRow, executionOf } from '../../rows/execution.ts'
import { type LateFillRow, lateFillOf } from '../../rows/late-fill.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { amountParams, type WindowRow, windowOf } from '../../rows/window.ts'
import { SELECT_EXECUTION } from '../../sql/executions.ts'
import { latestRecordedAt } from '../sandbox/tenant-time.ts'
import type { Tx } from '../server/pipeline.ts'
import { arraysOf, type Columns, namesOf, rowsIn } from '../server/rows-in.ts'
import { query } from '../server/statement.ts'
import { type Asked, type ConfirmationBatch, createBatch } from './confirmation-batch.ts'
import { lateReports, REPORTED } from './late-fills.ts'

// The plus keeps the planner from reading everything that a tenant has: it knows little about tables that have just
// begun to grow, and then sticks to its plan.
const ASKED = 'execution_id = any(:execution_ids::text[]) and +tenant_id = :tenant'
const EXECUTIONS = query<ExecutionRow>(
  `${SELECT_EXECUTION} where e.execution_id = any(:execution_ids::text[]) and +e.tenant_id = :tenant`,
)
const WINDOWS = query<WindowRow>(
  `select * from windows where window_id in (select window_id from executions where ${ASKED})`,
)
const TRADES = query<TradeRow>(`select * from trades where ${ASKED}`)
const LATE_REPORTS = query<LateFillRow>(`select * from late_reports where ${ASKED} order by report_id`)
const HOLDERS = query<{ partner_order_id: string; execution_id: string }>(
  `select partner_order_id, execution_id from trades
     where partner_order_id = any(:orders::text[]) and +tenant_id = :tenant
   union all select partner_order_id, execution_id from adjustments
     where partner_order_id = any(:orders::text[]) and +tenant_id = :tenant`,
)

const SETTLED = { execution_id: 'text', status: 'text' } satisfies Columns
const SETTLE = query(
  `update executions set status = r.status from ${rowsIn(SETTLED, 'r')}
   where executions.execution_id = r.execution_id and +executions.tenant_id = :tenant`,
)
const TRADED = {
  execution_id: 'text',
  plan_id: 'bigint',
  ...REPORTED,
  failure_reason: 'text',
  recorded_at: 'bigint',
  received_at: 'bigint',
  digest: 'text',
} satisfies Columns
// In the order of what there is once: another host that adds some of the same orders waits for this one, or this for
// it.
const INSERT_TRADES = query(
  `insert into trades (tenant_id, user_id, ${namesOf(TRADED)})
   select :tenant, p.user_id, r.* from ${rowsIn(TRADED, 'r')} join plans p on p.plan_id = r.plan_id
   order by r.partner_order_id`,
)
const AMOUNTS = {
  window_id: 'bigint',
  reserved: 'bigint',
  spent: 'bigint',
  excess: 'bigint',
  released: 'bigint',
} satisfies Columns
const WRITE_WINDOWS = query(
  `update windows set reserved = r.reserved, spent = r.spent, excess = r.excess, released = r.released
   from ${rowsIn(AMOUNTS, 'r')} where windows.window_id = r.window_id`,
)
const FIREABLE = { plan_id: 'bigint', window_id: 'bigint', fireable: 'bigint' } satisfies Columns
// A purchase of exactly what was reserved gives nothing back, and writes nothing here.
const REFUND = query(
  `update schedules set fireable = r.fireable from ${rowsIn(FIREABLE, 'r')}
   where schedules.plan_id = r.plan_id and schedules.window_id = r.window_id
     and schedules.fireable <> r.fireable`,
)

/** Reads what is asked for, for decisions one after the other. */
export async function readBatch(
  tx: Tx,
  tenantId: number,
  asked: readonly Asked[],
): Promise<ConfirmationBatch> {
  const of = { tenant: tenantId, execution_ids: asked.map(({ executionId }) => executionId) }
  const [executions, windows, trades, lateFills, holders, latest] = await Promise.all([
    tx.all(EXECUTIONS, of),
    tx.all(WINDOWS, of),
    tx.all(TRADES, of),
    tx.all(LATE_REPORTS, of),
    tx.all(HOLDERS, { tenant: tenantId, orders: asked.map(({ partnerOrderId }) => partnerOrderId) }),
    latestRecordedAt(tx, tenantId),
  ])
  return createBatch({
    executions: executions.map(executionOf),
    windows: windows.map(windowOf),
    damaged: damagedOf(executions, windows),
    trades: trades.map(tradeOf),
    lateFills: lateFills.map((row) => ({ executionId: row.execution_id, late: lateFillOf(row) })),
    holders: holders.map((row) => ({
      partnerOrderId: row.partner_order_id,
      executionId: row.execution_id as ExecutionId,
    })),
    latestRecordedAt: latest,
  })
}

/** The executions that are damaged themselves, or in a window that is: each is refused alone. */
function damagedOf(
  executions: readonly ExecutionRow[],
  windows: readonly WindowRow[],
): Map<string, DamagedRow> {
  const damaged = new Map<string, DamagedRow>()
  for (const row of executions) {
    const window = windows.find(({ window_id }) => window_id === row.window_id)
    try {
      intact('executions', row)
      if (window) intact('windows', window)
    } catch (error) {
      if (!(error instanceof DamagedRow)) throw error
      damaged.set(row.execution_id, error)
    }
  }
  return damaged
}

/** Stores what was decided: trades, the new statuses of their executions, windows, and what was refused but kept. */
export async function writeBatch(
  tx: Tx,
  tenantId: number,
  batch: ConfirmationBatch,
  now: Instant,
): Promise<void> {
  const { recorded, refused, windows } = batch.changes()
  const tenant = tenantId
  const settled = recorded.map(({ execution: { executionId, status } }) => ({
    execution_id: executionId,
    status,
  }))
  const traded = recorded.map(({ execution, trade }) => ({
    ...reportParams(trade.report),
    execution_id: execution.executionId,
    plan_id: execution.planId,
    recorded_at: trade.recordedAt,
    received_at: trade.receivedAt,
    digest: tradeDigest(trade),
  }))
  await Promise.all([
    writeWindows(tx, windows),
    recorded.length > 0 && tx.run(SETTLE, { tenant, ...arraysOf(SETTLED, settled) }),
    recorded.length > 0 && tx.run(INSERT_TRADES, { tenant, ...arraysOf(TRADED, traded) }),
    lateReports.keep(tx, tenantId, refused, now),
    ...recorded.map(
      ({ settles }) => settles !== null && lateReports.decide(tx, settles, { now, reason: RECORDED_SINCE }),
    ),
  ])
}

/** Stores the amounts of windows and, for the current ones among them, what their schedules may still fire. */
async function writeWindows(tx: Tx, windows: readonly Window[]): Promise<void> {
  const fireable = windows
    .filter(({ closed }) => closed === null)
    .map((window) => ({
      plan_id: window.planId,
      window_id: window.windowId,
      fireable: unreserved(window),
    }))
  await Promise.all([
    fireable.length > 0 && tx.run(REFUND, arraysOf(FIREABLE, fireable)),
    windows.length > 0 && tx.run(WRITE_WINDOWS, arraysOf(AMOUNTS, windows.map(amountParams))),
  ])
}
