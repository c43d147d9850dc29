// Purchases that an operator books because the ledger does not know them.

import type { Fill } from '../../core/confirmation.ts'
import { chosen } from '../../core/corrections/late-fill.ts'
import {
  BOOKED_FROM,
  type Booked,
  KEPT_UNKNOWN_MAX,
  type PurchaseFacts,
  TWIN_MS,
} from '../../core/corrections/purchase.ts'
import type { ExecutionId } from '../../core/execution.ts'
import { LEDGER_MAX, type Price } from '../../core/money.ts'
import { type Tenant, tenantName } from '../../core/partner.ts'
import type { Plan } from '../../core/plan.ts'
import { MARKET_PRICE_MS } from '../../core/price.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { earlier, type Instant, plus } from '../../core/time.ts'
import { type Schedule, WINDOW_MS, windowCellAt } from '../../core/window.ts'
import {
  executionParams,
  executionsOfOrder,
  keptParams,
  type LateFillRow,
  lateFillOf,
  ledgerParams,
  openingParams,
  planOf,
  scheduleParams,
  tradeParams,
  windowOf,
} from '../rows/ledger.ts'
import { IS_OPEN, isOfOrder, LATEST_EXECUTION, PLAN_BY_NAME } from '../sql/fragments.ts'
import { countOf, instant, query } from '../statement.ts'
import type { PurchaseStore } from '../store.ts'
import { columnsOf, insertInto, insertRows } from '../tables.ts'
import { aloneIn, type Base, callOf, type Steps, type Times, type Tx, type WriteTx } from '../transaction.ts'
import { addAudit } from './audit.ts'
import { INSERT_TRADES, KEEP, LATE_FILLS_OF, latestRecordedAt, TRADE } from './confirmations.ts'
import { accept, OF_ORDER, refuseDamaged, UNKNOWN_TO } from './executions.ts'
import { countNoUnknown, lockPlans, PUT_SCHEDULE, wake, writeWindow } from './ledger.ts'
import { SCHEDULE } from './plans.ts'

const PLAN = query(PLAN_BY_NAME, planOf)
const WAITING = query(
  `select execution_id, report_id from late_reports
   where substr(partner_order_id, 1, 32) = substr(cast(:order as text), 1, 32) and partner_order_id = :order
     and tenant_id = :tenant and decided_at is null order by report_id`,
  (row: { execution_id: string; report_id: bigint }) => ({
    executionId: row.execution_id,
    reportId: Number(row.report_id),
  }),
)
const LAST_WINDOW = query(
  'select * from windows where plan_id = :plan_id order by window_start desc, window_id desc limit 1',
  windowOf,
)
/** The window of a time, else the last one that began in its cell. */
const WINDOW_OF_TIME = query(
  `select * from windows
   where plan_id = :plan_id and ((window_start <= :at and window_end > :at)
     or (window_start >= :start and window_start < :end))
   order by case when window_start <= :at and window_end > :at then 0 else 1 end, window_start desc, window_id desc
   limit 1`,
  windowOf,
)
const WINDOW = query('select * from windows where window_id = :window_id', windowOf)
const LOCK_WINDOW = query('select from windows where window_id = :window_id for no key update')
const NEXT_INDEX = query(
  `select coalesce(max(tranche_index) + 1, ${BOOKED_FROM}) as n from executions
   where plan_id = :plan_id and window_start = :start and tranche_index >= ${BOOKED_FROM}`,
  countOf,
)
const ORDERS_BOOKED = query(
  `select t.partner_order_id from executions e join trades t on t.execution_id = e.execution_id
   where e.plan_id = :plan_id and e.window_start = :start and e.tranche_index >= ${BOOKED_FROM}`,
  (row: { partner_order_id: string }) => row.partner_order_id,
)
const OPEN_IN_WINDOW = query(
  `select e.execution_id, e.tranche_index from executions e
   where e.plan_id = :plan_id and e.window_start = :start and ${IS_OPEN}`,
  (row: { execution_id: string; tranche_index: bigint }) => ({
    executionId: row.execution_id,
    trancheIndex: Number(row.tranche_index),
  }),
)
/** Closed as it is added: its plan may have another one that is open. */
const ADD_CLOSED = query((dialect) => insertRows(dialect, 'windows', { names: columnsOf('windows') }))
/** The market's price at a time, as far as one is known: the last stored before it, unless that is too old. */
const MARKET = query(
  'select price from prices where at between :since and :at order by at desc limit 1',
  (row: { price: bigint }) => row.price as Price,
)
const ADD_EXECUTION = query(insertInto('executions'))

/** In any window: a report may come long after its own has ended. */
const TWIN = query(
  `select x.* from (
     select d.execution_id, d.partner_order_id, coalesce(d.executed_at, d.received_at, d.recorded_at) as at
     from executions e join trades d on d.execution_id = e.execution_id
     where e.plan_id = :plan_id and d.usd_amount = :usd and d.btc_amount = :btc) x
   where x.at between :since and :until order by x.at, x.execution_id limit 1`,
  (row: { execution_id: string; partner_order_id: string; at: bigint }) => ({
    executionId: row.execution_id,
    partnerOrderId: row.partner_order_id,
    at: instant(row.at),
  }),
)

/** What is asked of the ledger about a purchase; one without a time was made now. */
type Asked = { partnerPlanId: string; fill: Fill }

/** Writes what is booked for a plan, with the plan locked. Throws plan_not_found. */
async function writeForPlan<T>(
  { look, write }: Base,
  tenant: Tenant,
  partnerPlanId: string,
  work: (tx: WriteTx, times: Times, now: Instant) => Steps<T>,
): Promise<T> {
  const named = { tenant: tenant.tenantId, partner_plan_id: partnerPlanId }
  const found = await look((tx) => tx.get(PLAN, named))
  if (!found) throw planNotFound(tenant, partnerPlanId)
  // Alone: orders are compared across trades and adjustments, as where a late fill is accepted.
  return write(function* (tx) {
    const [times] = yield* tx.together(tx.times, lockPlans(tx, [found.planId]))
    return yield* work(tx, times, times.of(tenant.tenantId))
  }, aloneIn(tenant))
}

export const createPurchaseStore = (base: Base): PurchaseStore => ({
  recordPurchase: (tenant, asked, { decide, newExecutionId }, entryOf) =>
    writeForPlan(base, tenant, asked.partnerPlanId, function* (tx, times, now) {
      const facts = yield* factsOf(tx, tenant, asked, now)
      const previous = (yield* tx.get(LATEST_EXECUTION)) ?? null
      const executionId = newExecutionId(previous, times.real)
      const booking = decide({ ...facts, executionId }, now)
      if (booking.kind === 'known') return booking
      yield* book(tx, tenant, booking)
      yield* addAudit(tx, entryOf(booking), times.real)
      return booking
    }),

  keepUnknownFill: (tenant, executionId, report) =>
    base.write((tx) => keepUnknown(tx, tenant, executionId, report), callOf(tenant)),

  findUnknown: (executionId) => base.look((tx) => tx.all(UNKNOWN_TO, { execution_id: executionId })),

  findUnknownFills: ({ tenantId }, order) => base.look((tx) => tx.all(KEPT, { tenant: tenantId, order })),

  acceptUnknownFill(tenant, { partnerPlanId, ...ids }, decide, entryOf) {
    const { executionId, reason = null } = ids
    return writeForPlan(base, tenant, partnerPlanId, function* (tx, times, now) {
      const own = { execution_id: executionId }
      const whose = yield* tx.all(UNKNOWN_TO, own)
      // An execution is of one tenant.
      if (whose.length !== 1 || whose[0]?.tenantId !== tenant.tenantId)
        throw new Problem(
          'late_fill_conflict',
          `Execution ${executionId} was reported by several partners or environments, or is known by now: dismiss the reports of all but one.`,
        )
      const late = chosen(ids, yield* tx.all(LATE_FILLS_OF, own))
      yield* refuseDamaged(tx, late)
      const executedAt = earlier(late.report.executedAt ?? late.receivedAt, now)
      const facts = yield* factsOf(tx, tenant, { partnerPlanId, fill: { ...late.report, executedAt } }, now)
      const made = decide({ ...facts, executionId: executionId as ExecutionId }, late, now)
      yield* book(tx, tenant, made)
      yield* tx.together(accept(tx, late, { now, reason }), countNoUnknown(tx, tenant))
      yield* addAudit(tx, entryOf(made, late), times.real)
      return made
    })
  },

  dismissUnkept: (tenant, entryOf) =>
    // Alone: a report that comes meanwhile is counted after it.
    base.write(function* (tx) {
      const [{ real }, unkept] = yield* tx.together(tx.times, tx.get(UNKEPT, { tenant: tenant.tenantId }))
      if (!unkept)
        throw new Problem(
          'late_fill_not_found',
          `${tenantName(tenant)} has no reports of unknown executions that were counted and not kept.`,
        )
      yield* tx.together(countNoUnknown(tx, tenant), addAudit(tx, entryOf(unkept), real))
      return unkept
    }, aloneIn(tenant)),
})

// Reports of executions that the ledger does not know.

const KEPT = query(
  `select l.* from late_reports l
   where substr(l.partner_order_id, 1, 32) = substr(cast(:order as text), 1, 32) and l.partner_order_id = :order
     and l.tenant_id = :tenant and l.decided_at is null
     and not exists (select 1 from executions e where e.execution_id = l.execution_id)
   order by l.report_id`,
  (row: LateFillRow) => ({ executionId: row.execution_id, late: lateFillOf(row) }),
)
/** Whether there is nothing to keep: it is somebody else's, or its purchase is on record. */
const SETTLED = query(
  `select count(*) as n from (
     select 1 from executions where execution_id = :execution_id
     union all select 1 from trades where ${isOfOrder(':partner_order_id')}
       and usd_amount = :usd_amount and btc_amount = :btc_amount) x`,
  countOf,
)
/** Whether another tenant reported it first, as with the wrong environment's key: nobody can tell whose it is. */
const CLAIMED = query(
  'select count(*) as n from late_reports where execution_id = :execution_id and tenant_id <> :tenant',
  countOf,
)
const UNDECIDED = query(
  `select count(*) as n from (
     select 1 from late_reports where tenant_id = :tenant and decided_at is null limit ${KEPT_UNKNOWN_MAX}) x`,
  countOf,
)
const UNKEPT = query('select unkept_reports as n from tenants where tenant_id = :tenant', countOf)
const COUNT = query('update tenants set unkept_reports = unkept_reports + 1 where tenant_id = :tenant')

function* keepUnknown(
  tx: WriteTx,
  { tenantId }: Tenant,
  executionId: ExecutionId,
  report: Fill,
): Steps<void> {
  const times = yield* tx.times
  const kept = { executionId, report, reason: 'execution_not_found' as const }
  const row = keptParams(tenantId, kept, times.of(tenantId))
  const asked = { ...row, tenant: tenantId }
  const canBeStored = report.usdAmount <= LEDGER_MAX
  const [settled = 0, claimed, undecided = 0] = yield* tx.together(
    tx.when(canBeStored, () => tx.get(SETTLED, asked)),
    tx.get(CLAIMED, asked),
    tx.get(UNDECIDED, { tenant: tenantId }),
  )
  if (settled > 0) return
  const canBeKept = canBeStored && claimed === 0 && undecided < KEPT_UNKNOWN_MAX
  if (canBeKept) yield* tx.run(KEEP, row)
  else yield* tx.run(COUNT, { tenant: tenantId })
}

const planNotFound = (tenant: Tenant, partnerPlanId: string): Problem =>
  notFound('plan', `${partnerPlanId} of ${tenantName(tenant)}`)

type Facts = Omit<PurchaseFacts, 'executionId'>

function* factsOf(tx: WriteTx, tenant: Tenant, asked: Asked, now: Instant): Steps<Facts> {
  const { tenantId: id, partnerSlug: slug, environment } = tenant
  const { partnerOrderId: order, executedAt, usdAmount: usd, btcAmount: btc } = asked.fill
  const at = executedAt ?? now
  const [plan, ofOrder, waiting, recordedAt, market = null] = yield* tx.together(
    tx.get(PLAN, { tenant: id, partner_plan_id: asked.partnerPlanId }),
    tx.all(OF_ORDER, { slug, environment, order }),
    tx.all(WAITING, { tenant: id, order }),
    latestRecordedAt(tx, id),
    tx.get(MARKET, { at, since: at - MARKET_PRICE_MS }),
  )
  if (!plan) throw planNotFound(tenant, asked.partnerPlanId)
  const held = executionsOfOrder(ofOrder).find(({ orderIs }) => orderIs.some((is) => is !== 'late_fill'))
  const heldId = held?.execution.executionId
  const [since, until] = [plus(at, -TWIN_MS), plus(at, TWIN_MS)]
  const [trade, twin = null] = yield* tx.together(
    tx.when(heldId !== undefined, () => tx.get(TRADE, { execution_id: heldId })),
    tx.get(TWIN, { plan_id: plan.planId, since, until, usd, btc }),
  )
  return {
    plan,
    twin,
    holder: held
      ? { execution: held.execution, trade: trade && held.orderIs.includes('trade') ? trade : null }
      : null,
    waiting,
    latestRecordedAt: recordedAt,
    market,
    environment,
    ...(yield* placeIn(tx, plan, at)),
  }
}

type Place = Pick<
  PurchaseFacts,
  'window' | 'cell' | 'windowId' | 'trancheIndex' | 'schedule' | 'ordersBooked' | 'openInWindow'
>

/** Where a purchase of that time belongs among the windows of its plan. */
function* placeIn(tx: WriteTx, plan: Plan, at: Instant): Steps<Place> {
  const { planId } = plan
  const last = yield* tx.get(LAST_WINDOW, { plan_id: planId })
  const { startDate, frequency } = plan
  const onGrid = last ?? { start: startDate, end: plus(startDate, WINDOW_MS[frequency]) }
  const cell = windowCellAt({ ...plan, ...onGrid }, at)
  const { start, end } = cell
  const found = yield* tx.get(WINDOW_OF_TIME, { plan_id: planId, at, start, end })
  const own = { window_id: found?.windowId ?? null }
  // Read again once it is locked.
  if (found) yield* tx.lock(LOCK_WINDOW, own)
  const window = (found && (yield* tx.get(WINDOW, own))) ?? null
  const inWindow = { plan_id: planId, start: window?.start ?? start }
  const [trancheIndex = BOOKED_FROM, ordersBooked, openInWindow, schedule = null] = yield* tx.together(
    tx.get(NEXT_INDEX, inWindow),
    tx.all(ORDERS_BOOKED, inWindow),
    tx.all(OPEN_IN_WINDOW, inWindow),
    tx.get(SCHEDULE, { plan_id: planId }),
  )
  return {
    window,
    cell,
    windowId: window?.windowId ?? (yield* tx.nextId('windows')),
    trancheIndex,
    schedule,
    ordersBooked,
    openInWindow,
  }
}

/** Stores what was booked: its window first, which the execution refers to. */
function* book(tx: Tx, { tenantId }: Tenant, booked: Booked): Steps<void> {
  const { execution, window, isNewWindow, schedule, trade } = booked
  const { planId } = window
  yield* tx.together(
    isNewWindow
      ? tx.run(ADD_CLOSED, { rows: [{ ...openingParams(planId, window), ...ledgerParams(window) }] })
      : writeWindow(tx, window),
    tx.when(schedule !== null, () => tx.run(PUT_SCHEDULE, scheduleParams(schedule as Schedule))),
    tx.when(schedule !== null, () => wake(tx, planId)),
    tx.run(ADD_EXECUTION, executionParams(execution, tenantId)),
    tx.run(INSERT_TRADES, { rows: [tradeParams({ tenantId, planId }, trade)] }),
  )
}
