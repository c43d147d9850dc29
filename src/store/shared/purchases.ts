// Purchases that an operator books because the ledger does not know them.

import type { ExecutionId } from '../../core/execution.ts'
import { BOOKED_FROM, type Booking, type PurchaseFacts } from '../../core/late-fill.ts'
import type { Tenant } from '../../core/partner.ts'
import type { Plan } from '../../core/plan.ts'
import { notFound, type Problem } from '../../core/problem.ts'
import { type Instant, plus, WINDOW_MS } from '../../core/time.ts'
import { windowCellAt } from '../../core/window.ts'
import { intact } from '../digests.ts'
import {
  bookedParams,
  closingParams,
  executionsOfOrder,
  type OrderRow,
  openingParams,
  type PlanRow,
  planOf,
  type TradeRow,
  tradeOf,
  tradeParams,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import { EXECUTIONS_OF_ORDER, PLAN_BY_NAME } from '../sql/ledger.ts'
import { query } from '../statement.ts'
import type { PurchaseStore } from '../store.ts'
import { columnsToAdd, insertInto } from '../tables.ts'
import { type Base, ofTenant, type Steps, type Tx, type WriteTx } from '../transaction.ts'
import { addAudit } from './audit.ts'
import { latestRecordedAt, RECORDED } from './executions.ts'
import { lockPlans, writeWindow } from './ledger.ts'

const PLAN = query<PlanRow & { digest: bigint }>(PLAN_BY_NAME)
const OF_ORDER = query<OrderRow>(EXECUTIONS_OF_ORDER)
const TRADE = query<TradeRow>('select * from trades where execution_id = :execution_id')
const WAITING = query<{ execution_id: string; report_id: bigint }>(
  `select execution_id, report_id from late_reports
   where substr(partner_order_id, 1, 32) = substr(cast(:order as text), 1, 32) and partner_order_id = :order
     and tenant_id = :tenant and decided_at is null order by report_id`,
)
const LAST_WINDOW = query<WindowRow>(
  'select * from windows where plan_id = :plan_id order by window_start desc, window_id desc limit 1',
)
/** The window of a time, else the last one that began in its cell. */
const WINDOW_OF_TIME = query<WindowRow>(
  `select * from windows
   where plan_id = :plan_id and ((window_start <= :at and window_end > :at)
     or (window_start >= :start and window_start < :end))
   order by case when window_start <= :at and window_end > :at then 0 else 1 end, window_start desc, window_id desc
   limit 1`,
)
const WINDOW = query<WindowRow>('select * from windows where window_id = :window_id')
const LOCK_WINDOW = query('select from windows where window_id = :window_id for no key update')
const LAST_INDEX = query<{ last: bigint | null }>(
  `select max(tranche_index) as last from executions
   where plan_id = :plan_id and window_start = :start and tranche_index >= ${BOOKED_FROM}`,
)
const LATEST_ID = query<{ id: string }>(
  'select execution_id as id from executions order by execution_id desc limit 1',
)
/** Closed as it is added: its plan may have another one that is open. */
const ADD_CLOSED = query(
  `insert into windows (${[...columnsToAdd('windows'), 'released', 'closed_at', 'close_reason'].join(', ')})
   values (${columnsToAdd('windows')
     .map((name) => `:${name}`)
     .join(', ')}, :budget, :closed_at, :close_reason)`,
)
const ADD_EXECUTION = query(insertInto('executions'))

/** What is asked of the ledger about a purchase; without a time, it was made now. */
type Asked = { partnerPlanId: string; partnerOrderId: string; executedAt: Instant | null }

export const createPurchaseStore = ({ look, write }: Base): PurchaseStore => ({
  async recordPurchase(tenant, asked, { decide, newExecutionId }, entryOf) {
    const named = { tenant: tenant.tenantId, partner_plan_id: asked.partnerPlanId }
    const found = await look((tx) => tx.get(PLAN, named))
    if (!found) throw planNotFound(tenant, asked)
    return write(
      function* (tx) {
        const [times] = yield* tx.together(tx.times, lockPlans(tx, [Number(found.plan_id)]))
        const now = times.of(tenant.tenantId)
        const facts = yield* factsOf(tx, tenant, asked, now)
        const previous = (yield* tx.get(LATEST_ID))?.id ?? null
        const executionId = newExecutionId(previous as ExecutionId | null, times.real)
        const booking = decide({ ...facts, executionId }, now)
        if (booking.kind === 'known') return booking
        yield* book(tx, tenant, booking)
        yield* addAudit(tx, entryOf(booking), times.real)
        return booking
      },
      // Orders are compared across trades and adjustments, as where a late fill is accepted.
      { ...ofTenant(tenant), alone: 'tenants' },
    )
  },
})

const planNotFound = ({ partnerSlug, environment }: Tenant, { partnerPlanId }: Asked): Problem =>
  notFound('plan', `${partnerPlanId} of ${partnerSlug} ${environment}`)

function* factsOf(
  tx: WriteTx,
  tenant: Tenant,
  asked: Asked,
  now: Instant,
): Steps<Omit<PurchaseFacts, 'executionId'>> {
  const { tenantId: id, partnerSlug: slug, environment } = tenant
  const order = asked.partnerOrderId
  const [row, ofOrder, waiting, recordedAt] = yield* tx.together(
    tx.get(PLAN, { tenant: id, partner_plan_id: asked.partnerPlanId }),
    tx.all(OF_ORDER, { slug, environment, order }),
    tx.all(WAITING, { tenant: id, order }),
    latestRecordedAt(tx, id),
  )
  if (!row) throw planNotFound(tenant, asked)
  const plan = planOf(intact('plans', row))
  const held = executionsOfOrder(ofOrder).find(({ orderIs }) => orderIs.some((is) => is !== 'late_fill'))
  const trade = held && (yield* tx.get(TRADE, { execution_id: held.execution.executionId }))
  return {
    plan,
    holder: held
      ? { execution: held.execution, trade: trade && held.orderIs.includes('trade') ? tradeOf(trade) : null }
      : null,
    waiting: waiting.map((one) => ({ executionId: one.execution_id, reportId: Number(one.report_id) })),
    latestRecordedAt: recordedAt,
    ...(yield* placeIn(tx, plan, asked.executedAt ?? now)),
  }
}

/** Where a purchase of that time belongs among the windows of its plan. */
function* placeIn(
  tx: WriteTx,
  plan: Plan,
  at: Instant,
): Steps<Pick<PurchaseFacts, 'window' | 'cell' | 'windowId' | 'trancheIndex'>> {
  const { planId } = plan
  const last = yield* tx.get(LAST_WINDOW, { plan_id: planId })
  const { startDate, frequency } = plan
  const onGrid = last ? windowOf(last) : { start: startDate, end: plus(startDate, WINDOW_MS[frequency]) }
  const cell = windowCellAt({ ...plan, ...onGrid }, at)
  const { start, end } = cell
  const row = yield* tx.get(WINDOW_OF_TIME, { plan_id: planId, at, start, end })
  if (row) yield* tx.lock(LOCK_WINDOW, { window_id: Number(row.window_id) })
  const own = row && (yield* tx.get(WINDOW, { window_id: Number(row.window_id) }))
  const window = own ? windowOf(intact('windows', own)) : null
  const used = yield* tx.get(LAST_INDEX, { plan_id: planId, start: window?.start ?? start })
  const trancheIndex = used?.last == null ? BOOKED_FROM : Number(used.last) + 1
  return { window, cell, windowId: window?.windowId ?? (yield* tx.nextId('windows')), trancheIndex }
}

/** Stores what was booked: its window first, which the execution refers to. */
function* book(tx: Tx, { tenantId }: Tenant, booked: Booking & { kind: 'booked' }): Steps<void> {
  const { execution, window, isNewWindow, trade } = booked
  const { windowId, planId, closed } = window
  yield* tx.together(
    tx.when(isNewWindow && closed !== null, () =>
      tx.run(ADD_CLOSED, {
        window_id: windowId,
        ...openingParams(planId, window),
        ...closingParams(closed as NonNullable<typeof closed>),
      }),
    ),
    writeWindow(tx, window),
    tx.run(ADD_EXECUTION, bookedParams(execution, tenantId)),
    tx.run(RECORDED.trade, tradeParams({ tenantId, planId }, trade)),
  )
}
