// Rows of adjustments, and what the check has to say about them.

import { createHash } from 'node:crypto'
import type { Adjustment } from '../../../core/adjustment.ts'
import type { ExecutionId } from '../../../core/execution-id.ts'
import { type Btc, formatUsd, type Usd } from '../../../core/money.ts'
import type { Finding } from '../../health.ts'
import { instant } from '../../rows.ts'
import type { Database } from '../file/connection.ts'
import type { Rule } from '../health/ledger-check.ts'

export type AdjustmentRow = {
  adjustment_id: bigint
  execution_id: string
  usd_amount: bigint
  btc_amount: bigint
  reason: string
  recorded_at: bigint
}

export const adjustmentOf = (row: AdjustmentRow): Adjustment => ({
  adjustmentId: Number(row.adjustment_id),
  executionId: row.execution_id as ExecutionId,
  usd: row.usd_amount as Usd,
  btc: row.btc_amount as Btc,
  reason: row.reason,
  recordedAt: instant(row.recorded_at),
})

/** The adjustments of one trade, in the order they were made. */
export function adjustmentsOf(db: Database): (executionId: string) => Adjustment[] {
  const select = db.prepare<[string], AdjustmentRow>(
    'select * from adjustments where execution_id = ? order by adjustment_id',
  )
  return (executionId) => select.all(executionId).map(adjustmentOf)
}

/** What an adjustment's row must hash to. */
export const adjustmentDigest = (adjustment: Adjustment): string => {
  const { adjustmentId, executionId, usd, btc, reason, recordedAt } = adjustment
  const content = [adjustmentId, executionId, usd.toString(), btc.toString(), reason, recordedAt]
  return createHash('sha256').update(JSON.stringify(content)).digest('hex')
}

/** Dollars of a trade's adjustments, for the rules that add up what a window spent. */
export const ADJUSTED_USD = `left join (select execution_id, sum(usd_amount) as usd from adjustments group by execution_id) a
          on a.execution_id = e.execution_id`

export const ADJUSTMENT_RULES: Rule[] = [
  {
    kind: 'adjustment_place',
    sql: `select 'adjustment ' || a.adjustment_id as place, null as start
      from adjustments a left join trades d on d.execution_id = a.execution_id
      where d.usd_amount is null or d.tenant_id <> a.tenant_id or d.plan_id <> a.plan_id or d.user_id <> a.user_id
        or a.recorded_at < d.recorded_at`,
    message: () =>
      'does not belong to the fill, plan, user or tenant its records say, or was made before the fill',
  },
  {
    kind: 'adjustment_amount',
    sql: `select 'execution ' || e.execution_id as place, null as start,
        d.usd_amount + sum(a.usd_amount) as usd, e.amount_usd
      from adjustments a join trades d on d.execution_id = a.execution_id
        join executions e on e.execution_id = a.execution_id
      group by e.execution_id
      having d.usd_amount + sum(a.usd_amount) not between 0 and e.amount_usd or d.btc_amount + sum(a.btc_amount) < 0`,
    message: (row) =>
      `its adjustments bring the fill to ${formatUsd(row.usd as Usd)} USD of a reservation of ` +
      `${formatUsd(row.amount_usd as Usd)}, or its coins below nothing`,
  },
]

/** Few by nature: read in one go. */
export function changedAdjustments(db: Database): Finding[] {
  const rows = db.prepare<[], AdjustmentRow & { digest: string }>('select * from adjustments').all()
  return rows
    .filter((row) => adjustmentDigest(adjustmentOf(row)) !== row.digest)
    .map((row) => ({
      kind: 'adjustment_changed',
      subject: `adjustment ${row.adjustment_id}`,
      message: `was changed after it was recorded (execution ${row.execution_id})`,
    }))
}
