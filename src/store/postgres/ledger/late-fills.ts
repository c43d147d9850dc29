// The reports that were refused and kept, for the transactions of executions and trades.

import type { Refused } from '../../../core/confirmation.ts'
import type { Instant } from '../../../core/instant.ts'
import type { LateFill } from '../../../core/keep-late-fill.ts'
import { reportDigest, withDigest } from '../../digests.ts'
import { reportParams } from '../../rows/confirmation-report.ts'
import { intactReport, type LateFillRow, lateFillOf } from '../../rows/late-fill.ts'
import {
  ACCEPT_REPORT,
  COUNT_NO_REPORTS,
  DECIDE_EQUAL,
  DECIDE_REPORT,
  DECIDE_REPORTS,
  LATE_REPORT,
  LATE_REPORTS,
} from '../../sql/trades-and-late-fills.ts'
import type { Decided } from '../../trades.ts'
import type { Tx } from '../server/pipeline.ts'
import { arraysOf, type Columns, namesOf, rowsIn } from '../server/rows-in.ts'
import { query } from '../server/statement.ts'

const OF = query<LateFillRow>(LATE_REPORTS)
const ONE = query<LateFillRow>(LATE_REPORT)
const ACCEPT = query(ACCEPT_REPORT)
const DECIDE_SAME = query(DECIDE_EQUAL)
const DECIDE = query(DECIDE_REPORT)
const DECIDE_ALL = query(DECIDE_REPORTS)
const COUNT_NONE = query(COUNT_NO_REPORTS)

/** What a report says about a fill: for those that were kept and, with other columns, for those that were recorded. */
export const REPORTED = {
  partner_order_id: 'text',
  status: 'text',
  usd_amount: 'bigint',
  btc_amount: 'bigint',
  execution_price: 'bigint',
  partner_fee_usd: 'bigint',
  executed_at: 'bigint',
} satisfies Columns
const KEPT = {
  execution_id: 'text',
  fingerprint: 'text',
  ...REPORTED,
  reason: 'text',
  digest: 'bigint',
} satisfies Columns
const KEEP = query(
  `insert into late_reports (tenant_id, received_at, ${namesOf(KEPT)})
   select :tenant, :now, r.* from ${rowsIn(KEPT, 'r')} on conflict (execution_id, fingerprint) do nothing`,
)
const COUNTED = { execution_id: 'text' } satisfies Columns
const COUNT = query(
  `update executions set unkept_reports = unkept_reports + r.n
   from (select execution_id, count(*) as n from ${rowsIn(COUNTED, 'c')} group by execution_id) r
   where executions.execution_id = r.execution_id`,
)

const keptRow = ({ execution, report, reason }: Refused, tenantId: number, now: Instant) =>
  withDigest('late_reports', {
    ...reportParams(report),
    execution_id: execution.executionId,
    tenant_id: tenantId,
    fingerprint: reportDigest(report),
    reason,
    received_at: now,
  })

export const lateReports = {
  /** All that are kept of an execution, oldest first. */
  of: async (tx: Tx, executionId: string): Promise<LateFill[]> =>
    (await tx.all(OF, { execution_id: executionId })).map(lateFillOf),

  /** Keeps or counts the reports of refused confirmations, and skips those that are already kept. */
  async keep(tx: Tx, tenantId: number, refused: readonly Refused[], now: Instant): Promise<void> {
    const kept = refused.filter(({ keeping }) => keeping === 'new').map((one) => keptRow(one, tenantId, now))
    const counted = refused
      .filter(({ keeping }) => keeping === 'counted')
      .map(({ execution }) => ({ execution_id: execution.executionId }))
    await Promise.all([
      kept.length > 0 && tx.run(KEEP, { tenant: tenantId, now, ...arraysOf(KEPT, kept) }),
      counted.length > 0 && tx.run(COUNT, arraysOf(COUNTED, counted)),
    ])
  },

  /** Throws DamagedRow if one is not what the partner reported: no operator can accept it. */
  async refuseDamaged(tx: Tx, { reportId }: LateFill): Promise<void> {
    intactReport((await tx.get(ONE, { report_id: reportId })) as LateFillRow)
  },

  /** Notes that one was recorded, which settles those that say the same of its order. */
  async accept(tx: Tx, { reportId }: LateFill, decided: Decided): Promise<void> {
    await Promise.all([
      tx.run(ACCEPT, { report_id: reportId, ...decided }),
      tx.run(DECIDE, { report_id: reportId, ...decided }),
      tx.run(DECIDE_SAME, { report_id: reportId, now: decided.now }),
    ])
  },

  async decide(tx: Tx, reportId: number, decided: Decided): Promise<void> {
    await tx.run(DECIDE, { report_id: reportId, ...decided })
  },

  /**
   * Notes that an operator has settled an execution: the reports that were kept and those that were only counted.
   * Returns whether there were any.
   */
  async decideAll(tx: Tx, executionId: string, decided: Decided): Promise<{ counted: boolean }> {
    const own = { execution_id: executionId }
    const [, cleared] = await Promise.all([
      tx.run(DECIDE_ALL, { ...own, ...decided }),
      tx.run(COUNT_NONE, own),
    ])
    return { counted: cleared > 0 }
  },
}
