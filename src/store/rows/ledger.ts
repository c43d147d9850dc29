// Rows and values of plans, windows, schedules, executions, trades, adjustments, late fills and prices.

import { hash } from 'node:crypto'
import type { Dispute } from '../../core/clock.ts'
import {
  type Fill,
  isFill,
  type KeptFor,
  type LateFill,
  type Report,
  reportFingerprint,
  type Trade,
} from '../../core/confirmation.ts'
import { type Adjustment, adjustmentContent } from '../../core/corrections/adjustment.ts'
import type { Execution, ExecutionId, ExecutionStatus } from '../../core/execution.ts'
import type { Btc, Price, Usd } from '../../core/money.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Plan, PlanState, PlanStatus, PlanTerms } from '../../core/plan.ts'
import type { Volatility } from '../../core/price.ts'
import type { Instant } from '../../core/time.ts'
import type { CloseReason, Frequency, Opening, Schedule, Window } from '../../core/window.ts'
import { instant, instantOrNull } from '../statement.ts'
import type { ExecutionOfOrder, Fired, ListedPrice, OrderIs } from '../store.ts'
import {
  type ColumnName,
  type NewRow,
  REPORTED_COLUMNS,
  type ReportRow,
  type ReportValues,
  type RowOf,
} from '../tables.ts'
import { type TenantRow, tenantOf } from './accounts.ts'

export type PlanRow = Omit<RowOf<'plans'>, 'tenant_id'> & { partner_user_id: string }
export const planOf = (row: PlanRow): Plan => ({
  planId: Number(row.plan_id),
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  amount: row.amount_usd as Usd,
  frequency: row.frequency as Frequency,
  smartTimingEnabled: row.smart_timing_enabled === 1n,
  startDate: instant(row.start_date),
  status: row.status as PlanStatus,
  createdAt: instant(row.created_at),
  updatedAt: instant(row.updated_at),
})
/** For the plan of a user, by the numbers of both rows. */
export const planParams = (plan: PlanTerms, { tenantId, userId }: { tenantId: number; userId: bigint }) =>
  ({
    tenant_id: tenantId,
    user_id: userId,
    partner_plan_id: plan.partnerPlanId,
    amount_usd: plan.amount,
    frequency: plan.frequency,
    smart_timing_enabled: plan.smartTimingEnabled ? 1 : 0,
    start_date: plan.startDate,
    status: plan.status,
    created_at: plan.createdAt,
    updated_at: plan.updatedAt,
  }) satisfies NewRow<'plans'>

// A plan with its user's status, its current window, and the part of its schedule that its next step depends on.

/** The window's columns are all set or all null, and so are the schedule's. */
type PlanStateRow = PlanRow & {
  user_status: string
  s_next_run_at: bigint | null
  s_fireable: bigint
  s_floor: bigint
} & (WindowRow | { window_id: null })

export const planStateOf = (row: PlanStateRow): Omit<PlanState, 'held' | 'now'> => ({
  ...planOf(row),
  userStatus: row.user_status as PlanState['userStatus'],
  window: row.window_id === null ? null : windowOf(row),
  schedule:
    row.s_next_run_at === null
      ? null
      : { nextRunAt: instant(row.s_next_run_at), fireable: row.s_fireable as Usd, floor: row.s_floor as Usd },
})

export type WindowRow = RowOf<'windows'>
export const windowOf = (row: WindowRow): Window => ({
  windowId: Number(row.window_id),
  planId: Number(row.plan_id),
  start: instant(row.window_start),
  end: instant(row.window_end),
  budget: row.budget as Usd,
  reserved: row.reserved as Usd,
  spent: row.spent as Usd,
  excess: row.excess as Usd,
  released: row.released as Usd,
  closed:
    row.closed_at === null ? null : { at: instant(row.closed_at), reason: row.close_reason as CloseReason },
})
/** For a window that is opened. */
export const openingParams = (planId: number, { start, end, budget }: Opening) =>
  ({
    plan_id: planId,
    window_start: start,
    window_end: end,
    budget,
  }) satisfies Omit<NewRow<'windows'>, 'window_id'>
export const ledgerParams = (window: Window) => ({
  window_id: window.windowId,
  reserved: window.reserved,
  spent: window.spent,
  excess: window.excess,
  released: window.released,
  closed_at: window.closed?.at ?? null,
  close_reason: window.closed?.reason ?? null,
})

export type ScheduleRow = Omit<RowOf<'schedules'>, 'awake'>
export const scheduleOf = (row: ScheduleRow): Schedule => ({
  planId: Number(row.plan_id),
  windowId: Number(row.window_id),
  windowStart: instant(row.window_start),
  windowEnd: instant(row.window_end),
  budget: row.budget as Usd,
  fireable: row.fireable as Usd,
  floor: row.floor as Usd,
  trancheIndex: Number(row.tranche_index),
  layout:
    row.slots === null
      ? null
      : {
          slots: Number(row.slots),
          unitsPerSlot: Number(row.units_per_slot),
          unitsFired: Number(row.units_fired),
        },
  slot: Number(row.slot),
  reference:
    row.reference_price === null || row.half_width === null
      ? null
      : { price: row.reference_price as Price, halfWidth: row.half_width },
  nextRunAt: instant(row.next_run_at),
  limitPrice: priceOrNull(row.limit_price),
  clockAt: instantOrNull(row.clock_at),
  extrasLeft: Number(row.extras_left),
  nextExtraAt: instant(row.next_extra_at),
})
export const scheduleParams = (schedule: Schedule) =>
  ({
    plan_id: schedule.planId,
    window_id: schedule.windowId,
    next_run_at: schedule.nextRunAt,
    limit_price: schedule.limitPrice,
    clock_at: schedule.clockAt,
    window_start: schedule.windowStart,
    window_end: schedule.windowEnd,
    budget: schedule.budget,
    fireable: schedule.fireable,
    floor: schedule.floor,
    tranche_index: schedule.trancheIndex,
    slots: schedule.layout?.slots ?? null,
    units_per_slot: schedule.layout?.unitsPerSlot ?? null,
    units_fired: schedule.layout?.unitsFired ?? null,
    slot: schedule.slot,
    reference_price: schedule.reference?.price ?? null,
    half_width: schedule.reference?.halfWidth ?? null,
    extras_left: schedule.extrasLeft,
    next_extra_at: schedule.nextExtraAt,
  }) satisfies Omit<NewRow<'schedules'>, 'awake'>

/** With the partner's names of its user and plan. */
export type ExecutionRow = Omit<RowOf<'executions'>, 'tenant_id' | 'unkept_reports'> & {
  partner_user_id: string
  partner_plan_id: string
}
export const executionOf = (row: ExecutionRow): Execution => ({
  executionId: row.execution_id as ExecutionId,
  planId: Number(row.plan_id),
  windowId: Number(row.window_id),
  partnerUserId: row.partner_user_id,
  partnerPlanId: row.partner_plan_id,
  windowStart: instant(row.window_start),
  trancheIndex: Number(row.tranche_index),
  amount: row.amount_usd as Usd,
  firing: {
    trigger: row.trigger_kind as Execution['firing']['trigger'],
    slot: Number(row.slot),
    units: Number(row.units),
    price: priceOrNull(row.price),
    reference: priceOrNull(row.reference_price),
    reservationPrice: priceOrNull(row.reservation_price),
  },
  createdAt: instant(row.created_at),
  deliveredCount: Number(row.delivered_count),
  leaseExpiresAt: instantOrNull(row.lease_expires_at),
  status: row.status as ExecutionStatus,
  cancelledAt: instantOrNull(row.cancelled_at),
  cancelReason: row.cancel_reason,
})

export type ListedExecutionRow = ExecutionRow & TenantRow

export type OrderRow = ListedExecutionRow & { order_is: OrderIs }

/** Consecutive rows of the same execution make one. */
export function executionsOfOrder(rows: readonly OrderRow[]): ExecutionOfOrder[] {
  const byId = Map.groupBy(rows, ({ execution_id }) => execution_id)
  return [...byId.values()].flatMap((of) => {
    const [row] = of
    return row ? { execution: listedExecution(row), orderIs: of.map(({ order_is }) => order_is) } : []
  })
}

export const listedExecution = (row: ListedExecutionRow): Execution & { tenant: Tenant } => ({
  ...executionOf(row),
  tenant: tenantOf(row),
})

/** `at` is the time of the plan's tenant. */
export type FiredRow = Fired & { at: Instant }

export const firedParams = ({ tenant, executionId, tranche, schedule, at }: FiredRow) =>
  executionParams(
    {
      executionId,
      planId: schedule.planId,
      windowId: schedule.windowId,
      windowStart: schedule.windowStart,
      trancheIndex: schedule.trancheIndex - 1,
      amount: tranche.amount,
      firing: tranche,
      createdAt: at,
      status: 'pending',
    },
    tenant.tenantId,
  )

type NewExecution = Omit<
  Execution,
  'partnerUserId' | 'partnerPlanId' | 'deliveredCount' | 'leaseExpiresAt' | 'cancelledAt' | 'cancelReason'
>

export const executionParams = (execution: NewExecution, tenantId: number) =>
  ({
    execution_id: execution.executionId,
    tenant_id: tenantId,
    plan_id: execution.planId,
    window_id: execution.windowId,
    window_start: execution.windowStart,
    tranche_index: execution.trancheIndex,
    amount_usd: execution.amount,
    trigger_kind: execution.firing.trigger,
    slot: execution.firing.slot,
    units: execution.firing.units,
    price: execution.firing.price,
    reference_price: execution.firing.reference,
    reservation_price: execution.firing.reservationPrice,
    created_at: execution.createdAt,
    status: execution.status,
  }) satisfies NewRow<'executions'>

/** The columns of a trade. */
export const TRADE_COLUMNS = [
  'execution_id',
  ...REPORTED_COLUMNS,
  'recorded_at',
  'received_at',
] as const satisfies readonly ColumnName<'trades'>[]
export type TradeRow = Pick<RowOf<'trades'>, (typeof TRADE_COLUMNS)[number]>
export const tradeOf = (row: TradeRow): Trade => ({
  executionId: row.execution_id as ExecutionId,
  recordedAt: instant(row.recorded_at),
  receivedAt: instantOrNull(row.received_at),
  report: reportOf(row),
})

/** For a statement that finds the user by the plan. */
export const tradeParams = ({ tenantId, planId }: { tenantId: number; planId: number }, trade: Trade) =>
  ({
    execution_id: trade.executionId,
    tenant_id: tenantId,
    plan_id: planId,
    ...reportParams(trade.report),
    recorded_at: trade.recordedAt,
    received_at: trade.receivedAt,
    digest: tradeDigest(trade),
  }) satisfies Omit<NewRow<'trades'>, 'user_id'> & { digest: string }

// A partner's report, in time or late: the columns and the value, and back.

export function reportOf(row: ReportRow): Report {
  const common = { partnerOrderId: row.partner_order_id, executedAt: instantOrNull(row.executed_at) }
  if (row.status === 'failed' || row.status === 'cancelled') {
    return { status: row.status, ...common, failureReason: row.failure_reason }
  }
  return {
    status: row.status as 'filled' | 'partial',
    ...common,
    usdAmount: row.usd_amount as Usd,
    btcAmount: row.btc_amount as Btc,
    executionPrice: row.execution_price as Price,
    partnerFee: row.partner_fee_usd as Usd | null,
  }
}
export function reportParams(report: Report): ReportValues {
  const fill = isFill(report) ? report : null
  return {
    partner_order_id: report.partnerOrderId,
    status: report.status,
    usd_amount: fill?.usdAmount ?? null,
    btc_amount: fill?.btcAmount ?? null,
    execution_price: fill?.executionPrice ?? null,
    partner_fee_usd: fill?.partnerFee ?? null,
    executed_at: report.executedAt,
    failure_reason: isFill(report) ? null : report.failureReason,
  }
}

export type AdjustmentRow = Omit<RowOf<'adjustments'>, 'tenant_id' | 'plan_id' | 'user_id'>
export const adjustmentOf = (row: AdjustmentRow): Adjustment => ({
  adjustmentId: Number(row.adjustment_id),
  executionId: row.execution_id as ExecutionId,
  usd: row.usd_amount as Usd,
  btc: row.btc_amount as Btc,
  reason: row.reason,
  recordedAt: instant(row.recorded_at),
  reportId: row.report_id === null ? null : Number(row.report_id),
  partnerOrderId: row.partner_order_id,
  fill:
    row.execution_price === null || row.executed_at === null
      ? null
      : {
          partnerFee: row.partner_fee_usd as Usd | null,
          executionPrice: row.execution_price as Price,
          executedAt: instant(row.executed_at),
        },
})
/** For a statement that takes tenant, plan and user from the trade. */
export const adjustmentParams = (adjustment: Adjustment) =>
  ({
    adjustment_id: adjustment.adjustmentId,
    execution_id: adjustment.executionId,
    usd_amount: adjustment.usd,
    btc_amount: adjustment.btc,
    reason: adjustment.reason,
    recorded_at: adjustment.recordedAt,
    report_id: adjustment.reportId,
    partner_order_id: adjustment.partnerOrderId,
    partner_fee_usd: adjustment.fill?.partnerFee ?? null,
    execution_price: adjustment.fill?.executionPrice ?? null,
    executed_at: adjustment.fill?.executedAt ?? null,
    digest: adjustmentDigest(adjustment),
  }) satisfies Omit<NewRow<'adjustments'>, 'tenant_id' | 'plan_id' | 'user_id'> & { digest: string }

export type LateFillRow = RowOf<'late_reports'>
export const lateFillOf = (row: LateFillRow): LateFill => ({
  reportId: Number(row.report_id),
  report: reportOf(row) as Fill,
  reason: row.reason as KeptFor,
  receivedAt: instant(row.received_at),
  acceptedAt: instantOrNull(row.accepted_at),
  decidedAt: instantOrNull(row.decided_at),
  decisionReason: row.decision_reason,
})

/** For a report whose execution may be unknown. It is a fill, so it has no failure reason. */
export function keptParams(
  tenantId: number,
  { executionId, report, reason }: Pick<LateFill, 'report' | 'reason'> & { executionId: ExecutionId },
  now: Instant,
) {
  const { failure_reason: _, ...reported } = reportParams(report)
  return {
    execution_id: executionId,
    tenant_id: tenantId,
    fingerprint: reportDigest(report),
    ...reported,
    reason,
    received_at: now,
    content_digest: lateReportDigest({ executionId, tenantId, report, reason, receivedAt: now }),
  } satisfies NewRow<'late_reports'>
}

/** Whether a late fill is what the partner reported. Rows from before these digests have only a fingerprint. */
export function isAsReported(row: LateFillRow): boolean {
  const { reason, receivedAt } = lateFillOf(row)
  const report = reportOf(row)
  const executionId = row.execution_id as ExecutionId
  const digest = { executionId, tenantId: Number(row.tenant_id), report, reason, receivedAt }
  return (
    reportDigest(report) === row.fingerprint &&
    (row.content_digest === null || row.content_digest === lateReportDigest(digest))
  )
}

export const priceOrNull = (value: bigint | null): Price | null => value as Price | null

export const priceOf = (row: RowOf<'prices'>): ListedPrice => ({
  at: instant(row.at),
  price: row.price as Price,
  source: row.source,
})

export const volatilityOf = ({ variance, hours, ...row }: RowOf<'volatility'>): Volatility => ({
  variance,
  hours,
  last:
    row.last_price === null || row.last_at === null
      ? null
      : { price: row.last_price as Price, at: instant(row.last_at) },
})
export const volatilityParams = ({ variance, hours, last }: Volatility): NewRow<'volatility'> => ({
  one: 1,
  variance,
  hours,
  last_price: last?.price ?? null,
  last_at: last?.at ?? null,
})

export const disputeOf = (row: RowOf<'clock_disputes'>): Dispute => ({
  clockAt: instant(row.clock_at),
  witness: { source: row.source, at: instant(row.witness_at) },
})

// Digests of rows that never change and are about money: trades, adjustments and late reports. Each is stored with its
// row, and the check compares the two. Rows that change have none (docs/decisions/file.md#digests).

export const tradeDigest = ({ executionId, recordedAt, receivedAt, report }: Trade): string => {
  const content = [executionId, recordedAt, reportFingerprint(report)]
  // Trades that were confirmed in time are hashed as before late ones stored the time of their report.
  return digestOf(receivedAt === null ? content : [...content, receivedAt])
}

export const adjustmentDigest = (adjustment: Adjustment): string => digestOf(adjustmentContent(adjustment))

/** Has a fixed size, however long the report. */
const reportDigest = (report: Report): string => digestOf([reportFingerprint(report)])

type KeptReport = Pick<LateFill, 'reason' | 'receivedAt'> & {
  executionId: ExecutionId
  tenantId: number
  report: Report
}

const lateReportDigest = ({ executionId, tenantId, reason, receivedAt, report }: KeptReport): string =>
  digestOf([executionId, tenantId, reason, receivedAt, reportFingerprint(report)])

const digestOf = (content: unknown[]): string => hash('sha256', JSON.stringify(content))
