// Trades after the fact: adjusted by an operator, or made of a report that was refused and kept.

import type { Adjustment } from '../../../core/adjustment.ts'
import { chosen, undecided, waiting } from '../../../core/decide-late-fill.ts'
import { adjustmentDigest } from '../../digests.ts'
import { adjustmentParams } from '../../rows/adjustment.ts'
import { type LateFillRow, lateFillOf } from '../../rows/late-fill.ts'
import { INSERT_ADJUSTMENT, LIST_LATE_REPORTS } from '../../sql/trades-and-late-fills.ts'
import type { TradeStore } from '../../trades.ts'
import { addAudit } from '../accounts/audit.ts'
import { latestRecordedAt } from '../sandbox/tenant-time.ts'
import type { Connection } from '../server/connection.ts'
import { LOCK } from '../server/locks.ts'
import type { Tx } from '../server/pipeline.ts'
import { query } from '../server/statement.ts'
import { readBatch, writeBatch } from './confirmation-rows.ts'
import { records, writeRecord } from './execution-record.ts'
import { lateReports } from './late-fills.ts'
import { ledger } from './windows-and-schedules.ts'

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
