// Executions: polled, confirmed, cancelled, listed.

import {
  type ExecutionSeen,
  type LateFill,
  RECORDED_SINCE,
  type Recorded,
  type Refused,
} from '../../core/confirmation.ts'
import { type Execution, type ExecutionId, LEASE_AHEAD_MAX_MS } from '../../core/execution.ts'
import type { Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import type { Instant } from '../../core/time.ts'
import { intact, isIntact, reportDigest, tradeDigest, withDigest } from '../digests.ts'
import { createPollNotes, type PollNotes } from '../monitoring.ts'
import {
  type AdjustmentRow,
  adjustmentOf,
  type ExecutionRow,
  executionOf,
  executionsOfOrder,
  intactReport,
  type LateFillRow,
  type ListedExecutionRow,
  lateFillOf,
  listedExecution,
  type OrderRow,
  reportParams,
  type TradeRow,
  tradeOf,
} from '../rows/ledger.ts'
import { SEAL, type SealRow, sealedProblem, sealIn } from '../seal.ts'
import { OF_TENANT } from '../sql/accounts.ts'
import {
  ACCEPT_REPORT,
  ADJUSTMENTS,
  CANCEL_EXECUTION,
  COUNT_NO_REPORTS,
  DECIDE_EQUAL,
  DECIDE_REPORT,
  DECIDE_REPORTS,
  EXECUTIONS_OF_ORDER,
  EXECUTIONS_OF_TENANT,
  IS_OPEN,
  LATE_REPORT,
  LATE_REPORTS,
  LIST_EXECUTIONS,
  listingParams,
  NEWEST_EXECUTION,
  SELECT_EXECUTION,
  SELECT_LISTED_EXECUTION,
  TRADE,
} from '../sql/ledger.ts'
import type { Decided, ExecutionRecord, ExecutionStore, ListedExecution } from '../store.ts'
import type { AuditLog } from './audit.ts'
import type { Connection, Database } from './file/connection.ts'
import type { Ledger, Stops } from './plans.ts'
import type { TenantTime } from './tenant-time.ts'

type DuePage = { executions: Execution[]; remaining: number }
type Handing = { limit: number; deliver: (seen: Execution, now: Instant) => Execution; now: Instant }
type Parts = {
  ledger: Ledger
  stops: Stops
  audit: AuditLog
  time: TenantTime
  confirmations: Confirmations
  lateReports: LateReports
  records: Records
  polls: PollNotes
}

export function createExecutionStore(connection: Connection, parts: Parts): ExecutionStore {
  const { ledger, stops, audit, time, confirmations, lateReports, records, polls } = parts
  const { clock, read, write } = connection
  const sql = prepare(connection)
  const dueList = createDueList(connection.db)

  /** Leases the first `limit` of what is due, and counts the rest. */
  function hand(tenant: Tenant, { limit, deliver, now }: Handing): DuePage {
    const due = dueList.first(tenant, now, limit)
    // Nobody buys on the word of a row that is damaged. The check names it, and it stays where it is.
    const sound = due.filter((row) => isIntact('executions', row))
    const executions = sound.map((row) => deliver(executionOf(row), now))
    const delivered = executions.map((one) => [
      one.executionId,
      one.status,
      one.deliveredCount,
      one.leaseExpiresAt,
    ])
    sql.deliver.run({ tenant: tenant.tenantId, delivered: JSON.stringify(delivered) })
    sql.forgetCounts.run({ tenant: tenant.tenantId })
    return { executions, remaining: dueList.count(tenant, now) - (due.length - sound.length) }
  }

  /** A cursor after which everything created since then follows; null when nothing was. Nothing before it is read. */
  function begin(params: { since: Instant | null }): string | null {
    if (params.since === null) return ''
    return sql.earliest.get(params)?.slice(0, -1) ?? null
  }

  return {
    async deliverDue(tenant, limit, deliver) {
      polls.note(tenant, clock())
      for (;;) {
        // Most polls find nothing: they take no write lock and wait for no disk.
        const found = await read(() => {
          // A poll that finds nothing would write nothing, and so would not learn of it.
          const seal = sealIn(sql.seal.get())
          if (seal) throw sealedProblem(seal)
          if (stops.isAnyStopping(tenant)) return 'stopping'
          return dueList.count(tenant, time.of(tenant.tenantId, connection.present())) === 0
            ? 'nothing'
            : 'due'
        })
        if (found === 'nothing') return { executions: [], remaining: 0 }
        // Not one execution of a user who is being disabled is handed out: they are all cancelled first.
        if (found === 'stopping') await stops.finishAll(tenant)
        const page = await time.write(tenant, (now) =>
          stops.isAnyStopping(tenant) ? null : hand(tenant, { limit, deliver, now }),
        )
        if (page) return page
      }
    },

    changeExecution: (tenant, ids, decide) =>
      time.write(tenant, (now) => {
        const confirmation = decide(confirmations.seen(tenant, ids), now)
        if (confirmation.kind === 'recorded') {
          confirmations.record(tenant, confirmation)
          if (confirmation.settles !== null)
            lateReports.decide(confirmation.settles, { now, reason: RECORDED_SINCE })
        }
        if (confirmation.kind === 'refused') lateReports.keep(tenant, confirmation, now)
        return confirmation
      }),

    cancelExecution: (executionId, decide, entry) =>
      write((real) => {
        const record = records.get(executionId)
        const { execution, window } = decide(record, time.of(record.execution.tenant.tenantId, real))
        sql.cancel.run({
          execution_id: execution.executionId,
          cancelled_at: execution.cancelledAt,
          cancel_reason: execution.cancelReason,
        })
        ledger.write(window)
        audit.add(entry, real)
      }),

    readExecutions: ({ tenantId }, { after, limit }) =>
      read(() => {
        const { createdAt, executionId } = after
        const rows = sql.ofTenant.all({ tenant: tenantId, at: createdAt, id: executionId, limit })
        return { executions: rows.map(executionOf), now: time.of(tenantId, connection.present()) }
      }),

    listExecutions: (filter, { after, limit }) =>
      read(() => {
        const params = { ...listingParams(filter, clock()), limit }
        const start = after ?? begin(params)
        return start === null ? [] : sql.list.all({ ...params, after: start }).map(listedExecution)
      }),

    cursorOfNewest: (filter, count) =>
      read(() => {
        const params = { ...listingParams(filter, clock()), skipped: count }
        const start = begin(params)
        return start === null ? null : (sql.newest.get({ ...params, after: start }) ?? null)
      }),

    findExecution: (executionId) => read(() => records.find(executionId)),

    findByOrder: (filter, order) => read(() => executionsOfOrder(sql.ofOrder.all({ ...filter, order }))),
  }
}

function prepare({ db }: Connection) {
  return {
    seal: db.prepare<[], SealRow>(SEAL.text),
    // The plus keeps SQLite from reading the tenant's whole index for each of them.
    deliver: db.prepare(
      `update executions
       set status = d.value ->> 1, delivered_count = d.value ->> 2, lease_expires_at = d.value ->> 3
       from json_each(:delivered) d where execution_id = d.value ->> 0 and +tenant_id = :tenant`,
    ),
    ofTenant: db.prepare<object, ExecutionRow>(EXECUTIONS_OF_TENANT),
    forgetCounts: db.prepare('delete from open_counts where tenant_id = :tenant and n = 0'),
    cancel: db.prepare(CANCEL_EXECUTION),
    list: db.prepare<object, ListedExecutionRow>(LIST_EXECUTIONS),
    ofOrder: db.prepare<object, OrderRow>(EXECUTIONS_OF_ORDER),
    earliest: db
      .prepare<object, string | null>(
        `select min(e.execution_id) from tenants t cross join executions e on e.tenant_id = t.tenant_id
         where ${OF_TENANT} and e.created_at >= :since`,
      )
      .pluck(),
    newest: db.prepare<object, string>(NEWEST_EXECUTION).pluck(),
  }
}

// What a poll is handed. Executions that are open lie in one index by the end of their lease (sql/0009_load.sql), and
// how many end when is counted as it changes (sql/0010_open_counts.sql): what is out under a lease is never stepped
// over, and what is left for the next poll is not counted one by one.

/** `unleasedAt` for a row of open_counts, where 0 stands for never delivered: that lease is over at any time. */
const IS_DUE = `tenant_id = :tenant and (lease_expires_at <= :now or lease_expires_at > :now + ${LEASE_AHEAD_MAX_MS})`

/** After every execution. */
const END = { created_at: 2n ** 62n, execution_id: '' }

function createDueList(db: Database) {
  const sql = {
    count: db.prepare<object, bigint>(`select coalesce(sum(n), 0) from open_counts where ${IS_DUE}`).pluck(),
    leases: db
      .prepare<object, bigint>(
        `select lease_expires_at from open_counts where ${IS_DUE} and n > 0 order by lease_expires_at`,
      )
      .pluck(),
    underLease: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION}
       where e.tenant_id = :tenant and ${IS_OPEN} and e.lease_expires_at is nullif(:lease, 0)
         and (e.created_at, e.execution_id) < (:created_at, :execution_id)
       order by e.created_at, e.execution_id limit :limit`,
    ),
  }
  const at = ({ tenantId }: Tenant, now: Instant) => ({ tenant: tenantId, now })

  return {
    /** How many are due. */
    count: (tenant: Tenant, now: Instant): number => Number(sql.count.get(at(tenant, now))),

    /** The oldest of what is due, in the order of creation. */
    first(tenant: Tenant, now: Instant, limit: number): ExecutionRow[] {
      let found: ExecutionRow[] = []
      for (const lease of sql.leases.all(at(tenant, now))) {
        // Leases follow the order of creation, because polls did: most hold nothing older than what has been found by
        // then.
        const { created_at, execution_id } = found[limit - 1] ?? END
        const older = sql.underLease.all({ tenant: tenant.tenantId, lease, created_at, execution_id, limit })
        if (older.length > 0) found = [...found, ...older].sort(byCreation).slice(0, limit)
      }
      return found
    },
  }
}

function byCreation(a: ExecutionRow, b: ExecutionRow): number {
  if (a.created_at !== b.created_at) return a.created_at < b.created_at ? -1 : 1
  return a.execution_id < b.execution_id ? -1 : 1
}

// What a confirmation is decided on, and what it leaves behind, for the transactions of executions and trades.

export type Confirmations = ReturnType<typeof createConfirmations>

type RowParts = { ledger: Ledger; time: TenantTime; lateReports: LateReports }

export function createConfirmations(db: Database, { ledger, time, lateReports }: RowParts) {
  const sql = {
    execution: db.prepare<object, ExecutionRow>(
      `${SELECT_EXECUTION} where e.tenant_id = :tenant and e.execution_id = :execution_id`,
    ),
    trade: db.prepare<object, TradeRow>(
      'select * from trades where tenant_id = :tenant and execution_id = :execution_id',
    ),
    orderHolder: db
      .prepare<object, string>(
        `select execution_id from trades where tenant_id = :tenant and partner_order_id = :order
           and execution_id <> :execution_id
         union all select execution_id from adjustments where tenant_id = :tenant and partner_order_id = :order
           and execution_id <> :execution_id`,
      )
      .pluck(),
    settle: db.prepare(
      'update executions set status = :status where tenant_id = :tenant and execution_id = :execution_id',
    ),
    insertTrade: db.prepare(
      `insert into trades (execution_id, tenant_id, plan_id, user_id, partner_order_id, status, usd_amount,
         btc_amount, execution_price, partner_fee_usd, executed_at, failure_reason, recorded_at,
         received_at, digest)
       values (:execution_id, :tenant, :plan_id, (select user_id from plans where plan_id = :plan_id),
         :partner_order_id, :status, :usd_amount, :btc_amount, :execution_price, :partner_fee_usd, :executed_at,
         :failure_reason, :recorded_at, :received_at, :digest)`,
    ),
  }

  return {
    /** What the decision is made on. */
    seen(tenant: Tenant, ids: { executionId: string; partnerOrderId: string }): ExecutionSeen {
      const scope = { tenant: tenant.tenantId, execution_id: ids.executionId }
      const row = sql.execution.get(scope)
      const trade = sql.trade.get(scope)
      return {
        execution: row ? executionOf(intact('executions', row)) : null,
        window: row ? ledger.sound(row.window_id) : null,
        trade: trade ? tradeOf(trade) : null,
        lateFills: row ? lateReports.of(row.execution_id) : [],
        orderHeldBy: (sql.orderHolder.get({ ...scope, order: ids.partnerOrderId }) ??
          null) as ExecutionId | null,
        latestRecordedAt: time.latestRecordedAt(tenant.tenantId),
      }
    },

    /** Stores a confirmation: the trade, its execution's new status, the window's ledger. */
    record(tenant: Tenant, recorded: Recorded): void {
      const { execution, window, trade } = recorded
      const scope = { tenant: tenant.tenantId, execution_id: execution.executionId }
      sql.settle.run({ ...scope, status: execution.status })
      sql.insertTrade.run({
        ...scope,
        plan_id: execution.planId,
        ...reportParams(trade.report),
        recorded_at: trade.recordedAt,
        received_at: trade.receivedAt,
        digest: tradeDigest(trade),
      })
      ledger.write(window)
    },
  }
}

// The reports that were refused and kept, for the transactions of executions and trades.

export type LateReports = ReturnType<typeof createLateReports>

export function createLateReports(db: Database) {
  const sql = {
    of: db.prepare<object, LateFillRow>(LATE_REPORTS),
    one: db.prepare<object, LateFillRow>(LATE_REPORT),
    keep: db.prepare(
      `insert into late_reports (execution_id, tenant_id, fingerprint, partner_order_id, status, usd_amount,
         btc_amount, execution_price, partner_fee_usd, executed_at, reason, received_at, digest)
       values (:execution_id, :tenant_id, :fingerprint, :partner_order_id, :status, :usd_amount,
         :btc_amount, :execution_price, :partner_fee_usd, :executed_at, :reason, :received_at, :digest)
       on conflict (execution_id, fingerprint) do nothing`,
    ),
    count: db.prepare(
      'update executions set unkept_reports = unkept_reports + 1 where execution_id = :execution_id',
    ),
    accept: db.prepare(ACCEPT_REPORT),
    decideEqual: db.prepare(DECIDE_EQUAL),
    decide: db.prepare(DECIDE_REPORT),
    decideAll: db.prepare(DECIDE_REPORTS),
    countNone: db.prepare(COUNT_NO_REPORTS),
  }

  const lateReports = {
    /** All that are kept of an execution, oldest first. */
    of: (executionId: string): LateFill[] => sql.of.all({ execution_id: executionId }).map(lateFillOf),

    /** Keeps or counts the report of a refused confirmation, or does nothing if the same one is already kept. */
    keep(tenant: Tenant, { execution, report, reason, keeping }: Refused, now: Instant): void {
      const { executionId } = execution
      if (keeping === 'counted') sql.count.run({ execution_id: executionId })
      if (keeping !== 'new') return
      const { failure_reason: _, ...params } = reportParams(report)
      sql.keep.run(
        withDigest('late_reports', {
          execution_id: executionId,
          tenant_id: tenant.tenantId,
          fingerprint: reportDigest(report),
          ...params,
          reason,
          received_at: now,
        }),
      )
    },

    /** Throws DamagedRow if one is not what the partner reported: no operator can accept it. */
    refuseDamaged({ reportId }: LateFill): void {
      intactReport(sql.one.get({ report_id: reportId }) as LateFillRow)
    },

    /** Notes that one was recorded, which settles those that say the same of its order. */
    accept({ reportId }: LateFill, decided: Decided): void {
      sql.accept.run({ report_id: reportId, ...decided })
      sql.decide.run({ report_id: reportId, ...decided })
      sql.decideEqual.run({ report_id: reportId, now: decided.now })
    },

    decide: (reportId: number, decided: Decided) => sql.decide.run({ report_id: reportId, ...decided }),

    /**
     * Notes that an operator has settled an execution: the reports that were kept and those that were only counted.
     * Returns whether there were any.
     */
    decideAll(executionId: string, decided: Decided): { counted: boolean } {
      sql.decideAll.run({ execution_id: executionId, ...decided })
      return { counted: sql.countNone.run({ execution_id: executionId }).changes > 0 }
    },
  }
  return lateReports
}

// Everything on record of one execution, found by its id alone as operators do, for the transactions of the other
// files.

export type Records = ReturnType<typeof createRecords>

export function createRecords(db: Database, ledger: Ledger) {
  const sql = {
    execution: db.prepare<[string], ListedExecutionRow>(
      `${SELECT_LISTED_EXECUTION} where e.execution_id = ?`,
    ),
    trade: db.prepare<object, TradeRow>(TRADE),
    adjustments: db.prepare<object, AdjustmentRow>(ADJUSTMENTS),
    lateFills: db.prepare<object, LateFillRow>(LATE_REPORTS),
  }

  const records = {
    execution(executionId: string): ListedExecution | null {
      const row = sql.execution.get(executionId)
      return row ? listedExecution(row) : null
    },

    find(executionId: string): ExecutionRecord | null {
      const execution = records.execution(executionId)
      if (!execution) return null
      const window = ledger.find(execution.windowId)
      if (!window) throw new Error(`execution ${executionId} has no window`)
      const trade = sql.trade.get({ execution_id: executionId })
      const adjustments = sql.adjustments.all({ execution_id: executionId }).map(adjustmentOf)
      const lateFills = sql.lateFills.all({ execution_id: executionId }).map(lateFillOf)
      return { execution, window, trade: trade ? tradeOf(trade) : null, adjustments, lateFills }
    },

    /** To be acted on. Throws execution_not_found, DamagedRow. */
    get(executionId: string): ExecutionRecord {
      const found = records.find(executionId)
      if (!found) throw new Problem('execution_not_found', `Execution ${executionId} not found.`)
      intact('executions', sql.execution.get(executionId) as ListedExecutionRow)
      ledger.sound(found.window.windowId)
      return found
    },
  }
  return records
}

// Writes when tenants last polled (../../last-polls.ts).

export function pollNotesOf({ db, write }: Connection): PollNotes {
  const insert = db.prepare(
    `insert into polls (tenant_id, polled_at) select value ->> 0, value ->> 1 from json_each(:polls) where true
     on conflict do update set polled_at = excluded.polled_at`,
  )
  return createPollNotes((polls) => write(() => insert.run({ polls: JSON.stringify(polls) })))
}
