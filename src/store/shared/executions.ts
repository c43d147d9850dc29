// Operators' actions on executions: read with everything on record, cancelled, adjusted, and their late fills decided.
// polls.ts delivers them and confirmations.ts confirms them.

import type { ExecutionFacts, LateFill } from '../../core/confirmation.ts'
import type { Adjustment } from '../../core/corrections/adjustment.ts'
import { chosen, type LateFillDecision, undecided, waiting } from '../../core/corrections/late-fill.ts'
import { DUE_LATE_MS } from '../../core/findings.ts'
import type { Tenant } from '../../core/partner.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import { type TenantRow, tenantOf } from '../rows/accounts.ts'
import {
  adjustmentOf,
  adjustmentParams,
  executionOf,
  executionsOfOrder,
  isAsReported,
  type LateFillRow,
  lateFillOf,
  listedExecution,
  type OrderRow,
} from '../rows/ledger.ts'
import {
  EXECUTION_COLUMNS,
  EXECUTION_TABLES,
  IS_OPEN,
  IS_STUCK,
  OF_TENANT,
  OWN_NOW,
  SELECT_EXECUTION,
  unleasedAt,
} from '../sql/fragments.ts'
import { countOf, type Query, query } from '../statement.ts'
import type {
  AuditEntry,
  Decided,
  ExecutionFilter,
  ExecutionRecord,
  ExecutionStore,
  ExecutionsPage,
  TradeStore,
} from '../store.ts'
import { columnsToAdd } from '../tables.ts'
import {
  aloneIn,
  type Base,
  callOf,
  ofTenant,
  type Scope,
  type Step,
  type Steps,
  type Times,
  type Tx,
  type WriteTx,
} from '../transaction.ts'
import { addAudit } from './audit.ts'
import {
  DECIDE,
  DECIDE_WHERE,
  LATE_FILLS_OF,
  latestRecordedAt,
  recordTrades,
  seenFor,
  TRADE,
  WINDOW_OF,
} from './confirmations.ts'
import { countNoUnknown, lockExecutions, writeWindow } from './ledger.ts'
import { timeOf } from './sandboxes.ts'

const IS_OF_ORDER = `partner_order_id = :order
  and tenant_id in (select t.tenant_id from tenants t where ${OF_TENANT})`
/** The executions of an order, a row for each way in which they have it. */
export const OF_ORDER = query<OrderRow>(
  `select ${EXECUTION_COLUMNS}, t.partner_slug, t.environment, o.order_is
   from ${EXECUTION_TABLES} join tenants t on t.tenant_id = e.tenant_id
     join (select execution_id, 'trade' as order_is, 1 as place from trades where ${IS_OF_ORDER}
       union select execution_id, 'further_purchase', 2 from adjustments where ${IS_OF_ORDER}
       union select execution_id, 'late_fill', 3 from late_reports
         where substr(partner_order_id, 1, 32) = substr(cast(:order as text), 1, 32) and ${IS_OF_ORDER}) o
     on o.execution_id = e.execution_id
   order by e.execution_id, o.place`,
)
const CANCEL = query(
  `update executions set status = 'cancelled', cancelled_at = :cancelled_at, cancel_reason = :cancel_reason
   where execution_id = :execution_id`,
)

export const createLevers = (
  base: Base,
): Pick<ExecutionStore, 'cancelExecution' | 'findExecution' | 'findByOrder'> => ({
  cancelExecution: (executionId, decide, entry) =>
    writeRecord(base, executionId, ofTenant, function* (tx, record, times) {
      const { execution, window } = decide(record, times.of(record.execution.tenant.tenantId))
      yield* tx.together(
        tx.run(CANCEL, {
          execution_id: execution.executionId,
          cancelled_at: execution.cancelledAt,
          cancel_reason: execution.cancelReason,
        }),
        writeWindow(tx, window),
        addAudit(tx, entry, times.real),
      )
    }),

  findExecution: (executionId) => base.read((tx) => recordOf(tx, executionId)),

  findByOrder: (filter, order) =>
    base.read(function* (tx) {
      return executionsOfOrder(yield* tx.all(OF_ORDER, { ...filter, order }))
    }),
})

const LATE_FILLS = query<LateFillRow & TenantRow & { unkept: bigint }>(
  `select l.*, t.partner_slug, t.environment, coalesce(e.unkept_reports, t.unkept_reports) as unkept
   from late_reports l join tenants t on t.tenant_id = l.tenant_id
     left join executions e on e.execution_id = l.execution_id
   where l.report_id > :after and ${OF_TENANT} order by l.report_id limit :limit`,
)

export const createTradeStore = (base: Base): TradeStore => ({
  adjustTrade: (executionId, decide, entryOf) =>
    writeRecord(base, executionId, ofTenant, function* (tx, record, times) {
      const { tenantId } = record.execution.tenant
      const now = times.of(tenantId)
      const [latest, recordedAt] = yield* tx.together(latestId(tx), latestRecordedAt(tx, tenantId))
      const made = decide({ ...record, latestId: latest, latestRecordedAt: recordedAt }, now)
      yield* tx.together(
        addAdjustment(tx, made.adjustment),
        writeWindow(tx, made.window),
        decideAll(tx, executionId, { now, reason: made.adjustment.reason }),
        addAudit(tx, entryOf(made), times.real),
      )
      return made
    }),

  async acceptLateFill(ids, decide, entryOf) {
    const { executionId, reason = null } = ids
    const own = { execution_id: executionId }
    chosen(ids, await base.look((tx) => tx.all(LATE_FILLS_OF, own)))
    // No index spans trades and adjustments, so this runs alone: no other write may add an order.
    return writeRecord(base, executionId, aloneIn, function* (tx, { execution, adjustments }, times) {
      const { tenant } = execution
      const now = times.of(tenant.tenantId)
      const late = chosen(ids, yield* tx.all(LATE_FILLS_OF, own))
      yield* refuseDamaged(tx, late)
      const asked = { executionId, partnerOrderId: late.report.partnerOrderId }
      const [latest, [facts]] = yield* tx.together(latestId(tx), seenFor(tx, tenant, [asked]))
      const made = decide({ ...(facts as ExecutionFacts), adjustments, latestId: latest }, late, now)
      if (made.kind === 'recorded') yield* recordTrades(tx, tenant, [made])
      else yield* tx.together(addAdjustment(tx, made.adjustment), writeWindow(tx, made.window))
      yield* accept(tx, late, { now, reason })
      yield* addAudit(tx, entryOf(made, late), times.real)
      return { ...made, waiting: waiting(yield* tx.all(LATE_FILLS_OF, own)) }
    })
  },

  async dismissLateFills(ids, entryOf) {
    const unknown = await base.look((tx) => tx.all(UNKNOWN_TO, { execution_id: ids.executionId }))
    if (unknown.length > 0) return dismissUnknown(base, unknown, ids, entryOf)
    return writeRecord(base, ids.executionId, ofTenant, function* (tx, { execution, lateFills }, times) {
      const { executionId, reportId, reason = null } = ids
      const decided = { now: times.of(execution.tenant.tenantId), reason }
      const counted = reportId === null && (yield* decideAll(tx, executionId, decided)).counted
      const dismissed = undecided(ids, lateFills, counted)
      if (reportId !== null) yield* decideLate(tx, reportId, decided)
      yield* addAudit(tx, entryOf(dismissed), times.real)
      return dismissed
    })
  },

  listLateFills: ({ after, limit }, filter = { slug: null, environment: null }) =>
    base.read(function* (tx) {
      const rows = yield* tx.all(LATE_FILLS, { ...filter, after: after ?? 0, limit })
      const ids = [...new Set(rows.map(({ execution_id }) => execution_id))]
      const found = yield* tx.all(LISTED, { execution_ids: ids })
      const executions = new Map(found.map((one) => [one.executionId as string, one]))
      return rows.map((row) => {
        const execution = executions.get(row.execution_id) ?? null
        const whose = { executionId: row.execution_id, tenant: tenantOf(row) }
        return { ...lateFillOf(row), ...whose, execution, unkept: Number(row.unkept) }
      })
    }),
})

// Reports of executions that the ledger does not know: they have no execution to lock.

/** No other execution can have the id. An execution that does not exist is known only by its reports. */
export const UNKNOWN_TO = query(
  `select t.* from tenants t where t.tenant_id in (
     select l.tenant_id from late_reports l where l.execution_id = :execution_id)
     and not exists (select 1 from executions e where e.execution_id = :execution_id)
   order by t.tenant_id`,
  tenantOf,
)

function dismissUnknown(
  base: Base,
  tenants: readonly Tenant[],
  asked: LateFillDecision,
  entryOf: (dismissed: LateFill[]) => AuditEntry,
): Promise<LateFill[]> {
  const { executionId, reportId, reason = null } = asked
  const ids = tenants.map(({ tenantId }) => tenantId)
  return base.write(
    function* (tx) {
      const times = yield* tx.times
      const decided = { now: times.of(ids[0] ?? 0), reason }
      const kept = yield* tx.all(LATE_FILLS_OF, { execution_id: executionId })
      const dismissed = undecided({ executionId, reportId }, kept, false)
      yield* tx.together(...dismissed.map((late) => decideLate(tx, late.reportId, decided)))
      yield* tx.together(...tenants.map((tenant) => countNoUnknown(tx, tenant)))
      yield* addAudit(tx, entryOf(dismissed), times.real)
      return dismissed
    },
    { tenants: ids, alone: 'tenants' },
  )
}

// Executions as they are listed, for their partner and for an operator.

const OF_TENANT_PAGE = query(
  `${SELECT_EXECUTION} where e.tenant_id = :tenant and (e.created_at, e.execution_id) > (:at, :id)
   order by e.created_at, e.execution_id limit :limit`,
  executionOf,
)
/** Whether it is due for too long (`executions_stuck` of core/findings), by the time of its tenant. */
const IS_DUE_LATE = `${IS_OPEN} and e.created_at < ${OWN_NOW} - ${DUE_LATE_MS} and ${unleasedAt(OWN_NOW)}`
// The plus makes it read by ids, the order of the table: a page is read from where it begins, and nothing is sorted.
const WHERE_LISTED = `left join sandboxes s on s.tenant_id = e.tenant_id
  where e.execution_id > :after and (cast(:status as text) is null or e.status = :status)
    and (:stuck = 0 or (${IS_STUCK}) or (${IS_DUE_LATE})) and (cast(:since as bigint) is null or e.created_at >= :since)
    and +e.tenant_id in (select t.tenant_id from tenants t where ${OF_TENANT})`
const SELECT_LISTED = `select ${EXECUTION_COLUMNS}, t.partner_slug, t.environment
  from ${EXECUTION_TABLES} join tenants t on t.tenant_id = e.tenant_id`
const LIST = query(`${SELECT_LISTED} ${WHERE_LISTED} order by e.execution_id limit :limit`, listedExecution)
const NEWEST = query<{ execution_id: string }>(
  `select e.execution_id from executions e ${WHERE_LISTED} order by e.execution_id desc limit 1 offset :skipped`,
)
const listingParams = ({ stuck, since, ...filter }: ExecutionFilter, now: Instant) => ({
  ...filter,
  now,
  stuck: Number(stuck),
  since: since ?? null,
})

type Page = Awaited<ReturnType<ExecutionStore['readExecutions']>>
type Listings = Pick<ExecutionStore, 'readExecutions' | 'listExecutions' | 'cursorOfNewest'>

/** The parts that each store implements itself. */
export type OwnListings = {
  /** The least id of the executions created from `:since` on. */
  earliest: Query<{ first: string | null }>
  /** Whether nothing can be added to a page any more. */
  isSettled: (page: Page, limit: number) => boolean
}

const LARGE: Scope = { reads: 'large' }

export function createListings({ read, write }: Base, { earliest, isSettled }: OwnListings): Listings {
  function* page(tx: Tx, { tenantId }: Tenant, { after, limit }: ExecutionsPage, now: Instant): Steps<Page> {
    const { createdAt, executionId } = after
    const asked = { tenant: tenantId, at: createdAt, id: executionId, limit }
    return { executions: yield* tx.all(OF_TENANT_PAGE, asked), now }
  }

  /** A cursor after which the executions since then follow; null for none. Earlier ones are not read. */
  function* begin(tx: Tx, params: { since: Instant | null }): Steps<string | null> {
    if (params.since === null) return ''
    return (yield* tx.get(earliest, params))?.first?.slice(0, -1) ?? null
  }

  return {
    async readExecutions(tenant, which) {
      const first = await read(function* (tx) {
        return yield* page(tx, tenant, which, yield* timeOf(tx, tenant.tenantId))
      }, callOf(tenant))
      // A reader that continues after the end of the list must not miss an execution that is dated earlier but
      // committed later, so the list waits for it.
      if (isSettled(first, which.limit)) return first
      return write(
        function* (tx) {
          return yield* page(tx, tenant, which, (yield* tx.times).of(tenant.tenantId))
        },
        { ...callOf(tenant), alone: 'tenants' },
      )
    },

    listExecutions: (filter, { after, limit }) =>
      read(function* (tx) {
        const params = { ...listingParams(filter, yield* tx.clock), limit }
        const start = after ?? (yield* begin(tx, params))
        return start === null ? [] : yield* tx.all(LIST, { ...params, after: start })
      }, LARGE),

    cursorOfNewest: (filter, count) =>
      read(function* (tx) {
        const params = { ...listingParams(filter, yield* tx.clock), skipped: count }
        const start = yield* begin(tx, params)
        if (start === null) return null
        return (yield* tx.get(NEWEST, { ...params, after: start }))?.execution_id ?? null
      }, LARGE),
  }
}

// The whole record of one execution, found by its id alone as operators do.

const LISTED = query(
  ({ among }) => `${SELECT_LISTED} where ${among('e.execution_id', 'execution_ids', 'text')}`,
  listedExecution,
)
/** In the order they were made. */
const ADJUSTMENTS = query(
  'select * from adjustments where execution_id = :execution_id order by adjustment_id',
  adjustmentOf,
)

function* recordOf(tx: Tx, executionId: string): Steps<ExecutionRecord | null> {
  const own = { execution_id: executionId }
  const [[execution], window, trade = null, adjustments, lateFills] = yield* tx.together(
    tx.all(LISTED, { execution_ids: [executionId] }),
    tx.get(WINDOW_OF, own),
    tx.get(TRADE, own),
    tx.all(ADJUSTMENTS, own),
    tx.all(LATE_FILLS_OF, own),
  )
  if (!execution) return null
  if (!window) throw new Error(`execution ${executionId} has no window`)
  return { execution, window, trade, adjustments, lateFills }
}

/** Looks up the execution's tenant, and reads everything again behind the locks. Throws execution_not_found. */
async function writeRecord<T>(
  { look, write }: Base,
  executionId: string,
  scopeOf: (tenant: Tenant) => Scope,
  work: (tx: WriteTx, record: ExecutionRecord, times: Times) => Step<T>,
): Promise<T> {
  const [execution] = await look((tx) => tx.all(LISTED, { execution_ids: [executionId] }))
  if (!execution) throw notFound('execution', executionId)
  const { tenant } = execution
  return write(function* (tx) {
    const [times, , record] = yield* tx.together(
      tx.times,
      lockExecutions(tx, tenant.tenantId, [executionId]),
      recordOf(tx, executionId),
    )
    if (!record) throw notFound('execution', executionId)
    return yield* work(tx, record, times)
  }, scopeOf(tenant))
}

const LATEST_ID = query('select coalesce(max(adjustment_id), 0) as n from adjustments', countOf)
const OF_TRADE: readonly string[] = ['execution_id', 'tenant_id', 'plan_id', 'user_id']
const ADJUSTMENT = columnsToAdd('adjustments')
/** Takes tenant, plan and user from the trade. */
const INSERT_ADJUSTMENT = query(
  `insert into adjustments (${ADJUSTMENT.join(', ')})
   select ${ADJUSTMENT.map((column) => (OF_TRADE.includes(column) ? column : `:${column}`)).join(', ')}
   from trades where execution_id = :execution_id`,
)

/** The number of the latest adjustment, which no other transaction changes before this one has ended. */
function* latestId(tx: Tx): Steps<number> {
  const [, latest = 0] = yield* tx.together(tx.turn('numbering'), tx.get(LATEST_ID))
  return latest
}

const addAdjustment = (tx: Tx, adjustment: Adjustment): Step<unknown> =>
  tx.run(INSERT_ADJUSTMENT, adjustmentParams(adjustment))

const IS_AS_REPORTED = query('select * from late_reports where report_id = :report_id', isAsReported)
/** A late fill that was dismissed and is then accepted has the reason of the acceptance. */
const ACCEPT = query(
  `update late_reports set accepted_at = :now,
     decision_reason = case when decided_at is null then decision_reason else :reason end
   where report_id = :report_id`,
)
const DECIDE_ALL = query(`${DECIDE_WHERE} execution_id = :execution_id`)
/** Decides the late fills equal to an accepted one of the same order; different ones are left to an operator. */
const DECIDE_EQUAL = query(
  `update late_reports set decided_at = :now,
     decision_reason = 'says the same as report ' || cast(:report_id as bigint) || ', which was accepted'
   where decided_at is null and exists (
     select 1 from late_reports l
     where l.report_id = cast(:report_id as bigint) and l.report_id <> late_reports.report_id
       and l.execution_id = late_reports.execution_id and l.partner_order_id = late_reports.partner_order_id
       and l.usd_amount = late_reports.usd_amount and l.btc_amount = late_reports.btc_amount
       and l.partner_fee_usd is not distinct from late_reports.partner_fee_usd)`,
)
const COUNT_NONE = query(
  'update executions set unkept_reports = 0 where execution_id = :execution_id and unkept_reports > 0',
)

/** Throws database_damaged for a late fill that differs from the partner's report: no operator can accept it. */
export function* refuseDamaged(tx: Tx, { reportId }: LateFill): Steps<void> {
  if (yield* tx.get(IS_AS_REPORTED, { report_id: reportId })) return
  throw new Problem(
    'database_damaged',
    `Late fill ${reportId} is not what the partner reported: it was changed after it was stored. tranche check names every such row, and a backup has it as it was.`,
  )
}

/** Marks a late fill as recorded, which also decides equal ones of its order. */
export const accept = (tx: Tx, { reportId }: LateFill, decided: Decided): Step<unknown> =>
  tx.together(
    tx.run(ACCEPT, { report_id: reportId, ...decided }),
    decideLate(tx, reportId, decided),
    tx.run(DECIDE_EQUAL, { report_id: reportId, now: decided.now }),
  )

const decideLate = (tx: Tx, reportId: number, decided: Decided): Step<unknown> =>
  tx.run(DECIDE, { report_id: reportId, ...decided })

/** Decides all late fills of an execution, kept or only counted. Returns whether any were only counted. */
function* decideAll(tx: Tx, executionId: string, decided: Decided): Steps<{ counted: boolean }> {
  const own = { execution_id: executionId }
  const [, cleared] = yield* tx.together(tx.run(DECIDE_ALL, { ...own, ...decided }), tx.run(COUNT_NONE, own))
  return { counted: cleared > 0 }
}
