// Trades after the fact: adjusted by an operator, or made of a report that was refused and kept.

import { type Adjustment, chosen, undecided, waiting } from '../../core/late-fill.ts'
import type { Tenant } from '../../core/partner.ts'
import { Problem } from '../../core/problem.ts'
import { adjustmentDigest, intact } from '../digests.ts'
import {
  type AdjustmentRow,
  adjustmentOf,
  adjustmentParams,
  type LateFillRow,
  type ListedExecutionRow,
  lateFillOf,
  listedExecution,
  type TradeRow,
  tradeOf,
  type WindowRow,
  windowOf,
} from '../rows/ledger.ts'
import {
  ADJUSTMENTS,
  INSERT_ADJUSTMENT,
  LATE_REPORTS,
  LIST_LATE_REPORTS,
  SELECT_LISTED_EXECUTION,
  TRADE,
} from '../sql/ledger.ts'
import type { ExecutionRecord, ListedExecution, TradeStore } from '../store.ts'
import { ofTenant } from '../transaction.ts'
import { addAudit } from './audit.ts'
import { lateReports, readBatch, writeBatch } from './confirmations.ts'
import { ledger, lockExecutions } from './plans.ts'
import type { Connection, WriteTx } from './server/connection.ts'
import { LOCK } from './server/locks.ts'
import type { Times } from './server/month-gate.ts'
import type { Tx } from './server/pipeline.ts'
import { query } from './server/statement.ts'
import { latestRecordedAt } from './tenant-time.ts'

const NUMBERING = query(`select pg_advisory_xact_lock(${LOCK.numbering}, 0)`)
const LATEST_ID = query<{ id: bigint | null }>('select max(adjustment_id) as id from adjustments')
const INSERT = query(INSERT_ADJUSTMENT)
const LATE_FILLS = query<LateFillRow & { unkept_reports: bigint }>(LIST_LATE_REPORTS)

/** The number of the latest adjustment. It stays that until this transaction has ended. */
async function latestId(tx: Tx): Promise<number> {
  const [, latest] = await Promise.all([tx.run(NUMBERING), tx.get(LATEST_ID)])
  return Number(latest?.id ?? 0n)
}

async function insert(tx: Tx, adjustment: Adjustment): Promise<void> {
  await tx.run(INSERT, { ...adjustmentParams(adjustment), digest: adjustmentDigest(adjustment) })
}

export function createTradeStore(connection: Connection): TradeStore {
  return {
    adjustTrade: (executionId, decide, entryOf) =>
      writeRecord(connection, executionId, {
        async work(tx, record, times) {
          const { tenantId } = record.execution.tenant
          const now = times.of(tenantId)
          const [latest, recordedAt] = await Promise.all([latestId(tx), latestRecordedAt(tx, tenantId)])
          const made = decide({ ...record, latestId: latest, latestRecordedAt: recordedAt }, now)
          await Promise.all([
            insert(tx, made.adjustment),
            ledger.write(tx, made.window),
            lateReports.decideAll(tx, executionId, { now, reason: made.adjustment.reason }),
            addAudit(tx, entryOf(made), times.real),
          ])
          return made
        },
      }),

    async acceptLateReport(ids, decide, entryOf) {
      const { executionId, reason = null } = ids
      chosen(ids, await connection.look((tx) => lateReports.of(tx, executionId)))
      return writeRecord(connection, executionId, {
        // Orders are compared across trades and adjustments, which no index can do, so nobody else may add one
        // meanwhile.
        alone: true,
        async work(tx, { execution, adjustments }, times) {
          const { tenantId } = execution.tenant
          const now = times.of(tenantId)
          const late = chosen(ids, await lateReports.of(tx, executionId))
          await lateReports.refuseDamaged(tx, late)
          const asked = { executionId, partnerOrderId: late.report.partnerOrderId }
          const [latest, batch] = await Promise.all([latestId(tx), readBatch(tx, tenantId, [asked])])
          const made = decide({ ...batch.seen(asked), adjustments, latestId: latest }, late, now)
          if (made.kind === 'recorded') {
            batch.take(made, now)
            await writeBatch(tx, tenantId, batch, now)
          } else await Promise.all([insert(tx, made.adjustment), ledger.write(tx, made.window)])
          await lateReports.accept(tx, late, { now, reason })
          await addAudit(tx, entryOf(made, late), times.real)
          return { ...made, waiting: waiting(await lateReports.of(tx, executionId)) }
        },
      })
    },

    dismissLateReports: (ids, entryOf) =>
      writeRecord(connection, ids.executionId, {
        async work(tx, { execution }, times) {
          const { executionId, reportId, reason = null } = ids
          const decided = { now: times.of(execution.tenant.tenantId), reason }
          const late = await lateReports.of(tx, executionId)
          const counted = reportId === null && (await lateReports.decideAll(tx, executionId, decided)).counted
          const dismissed = undecided(ids, late, counted)
          if (reportId !== null) await lateReports.decide(tx, reportId, decided)
          await addAudit(tx, entryOf(dismissed), times.real)
          return dismissed
        },
      }),

    listLateFills: ({ after, limit }) =>
      connection.read(async (tx) => {
        const rows = await tx.all(LATE_FILLS, { after: after ?? 0, limit })
        const found = await records.executions(tx, [...new Set(rows.map(({ execution_id }) => execution_id))])
        const executions = new Map<string, (typeof found)[number]>(found.map((one) => [one.executionId, one]))
        return rows.map((row) => {
          const execution = executions.get(row.execution_id)
          if (!execution) throw new Error(`late report ${row.report_id} has no execution`)
          return { ...lateFillOf(row), execution, unkept: Number(row.unkept_reports) }
        })
      }),
  }
}

// Everything on record of one execution, found by its id alone as operators do, for the transactions of the other
// files.

const EXECUTIONS = query<ListedExecutionRow>(
  `${SELECT_LISTED_EXECUTION} where e.execution_id = any(:execution_ids::text[])`,
)
const WINDOW_OF = query<WindowRow>(
  `select * from windows
   where window_id = (select window_id from executions where execution_id = :execution_id)`,
)
const TRADE_OF = query<TradeRow>(TRADE)
const ADJUSTMENTS_OF = query<AdjustmentRow>(ADJUSTMENTS)
const LATE_FILLS_OF = query<LateFillRow>(LATE_REPORTS)

/** Those that there are, in no order. */
const executions = async (tx: Tx, ids: readonly string[]): Promise<ListedExecution[]> =>
  (await tx.all(EXECUTIONS, { execution_ids: ids })).map(listedExecution)

/** To be acted on, or only listed. Throws DamagedRow for the first. */
async function read(tx: Tx, executionId: string, toActOn: boolean): Promise<ExecutionRecord | null> {
  const own = { execution_id: executionId }
  const [[execution], window, trade, adjustments, lateFills] = await Promise.all([
    tx.all(EXECUTIONS, { execution_ids: [executionId] }),
    tx.get(WINDOW_OF, own),
    tx.get(TRADE_OF, own),
    tx.all(ADJUSTMENTS_OF, own),
    tx.all(LATE_FILLS_OF, own),
  ])
  if (!execution) return null
  if (!window) throw new Error(`execution ${executionId} has no window`)
  if (toActOn) {
    intact('executions', execution)
    intact('windows', window)
  }
  return {
    execution: listedExecution(execution),
    window: windowOf(window),
    trade: trade ? tradeOf(trade) : null,
    adjustments: adjustments.map(adjustmentOf),
    lateFills: lateFills.map(lateFillOf),
  }
}

const find = (tx: Tx, executionId: string) => read(tx, executionId, false)

/** To be acted on. Throws execution_not_found, DamagedRow. */
async function get(tx: Tx, executionId: string): Promise<ExecutionRecord> {
  const found = await read(tx, executionId, true)
  if (!found) throw notFound(executionId)
  return found
}

const notFound = (executionId: string): Problem =>
  new Problem('execution_not_found', `Execution ${executionId} not found.`)

export const records = { executions, find, get }

/** With `alone`, waits until no other write of the execution's tenant is under way. */
type Lever<T> = {
  alone?: boolean
  work: (tx: WriteTx, record: ExecutionRecord, times: Times) => Promise<T>
}

/**
 * An operator's write on one execution: its tenant is looked up first, and everything is read again behind the locks.
 * Throws execution_not_found.
 */
export async function writeRecord<T>(
  { look, write }: Connection,
  executionId: string,
  { alone = false, work }: Lever<T>,
): Promise<T> {
  const [seen] = await look((tx) => executions(tx, [executionId]))
  if (!seen) throw notFound(executionId)
  const { tenant }: { tenant: Tenant } = seen
  return write(
    async (tx) => {
      const [times, , record] = await Promise.all([
        tx.times,
        lockExecutions(tx, tenant.tenantId, [executionId]),
        get(tx, executionId),
      ])
      return work(tx, record, times)
    },
    alone ? { ...ofTenant(tenant), alone: 'tenants' } : ofTenant(tenant),
  )
}
