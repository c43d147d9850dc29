// Rows that are wrong, as faults: those that break a rule, and those that were changed after they were recorded.

import { formatInstant } from '../../../core/instant.ts'
import type { Fault } from '../../check.ts'
import { TABLES } from '../../copying/tables.ts'
import {
  adjustmentDigest,
  DIGESTED,
  type Digested,
  type DigestedRow,
  isIntact,
  placeOf,
  tradeDigest,
} from '../../digests.ts'
import { type AdjustmentRow, adjustmentOf } from '../../rows/adjustment.ts'
import { instant } from '../../rows/instant.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import { LEDGER_RULES, type Rule } from '../../sql/check-rules.ts'
import { type Sql, sql } from '../reader.ts'

/** A rule stops after so many findings: more would say nothing new. */
export const FINDINGS_PER_RULE_MAX = 100
/** After so many in all, no further trades are looked at. */
export const FINDINGS_MAX = FINDINGS_PER_RULE_MAX * LEDGER_RULES.length
export const ROWS_PER_READ = 5_000

export type BrokenRow = Record<string, unknown>

/** The rows that break a rule. */
export const breakers = (rule: Rule): Sql<BrokenRow> => sql(`${rule.sql} limit ${FINDINGS_PER_RULE_MAX}`)

export function brokenFault({ kind, message }: Rule, row: BrokenRow): Fault {
  const start = typeof row.start === 'bigint' ? ` window ${formatInstant(instant(row.start))}` : ''
  return { kind, subject: `${row.place}${start}`, message: message(row) }
}

export type DigestedTrade = TradeRow & { digest: string }
export const TRADES_AFTER = sql<DigestedTrade>(
  'select * from trades where execution_id > :after order by execution_id limit :limit',
)
export const changedTrades = (rows: readonly DigestedTrade[]): Fault[] =>
  rows
    .filter((row) => tradeDigest(tradeOf(row)) !== row.digest)
    .map((row) => ({
      kind: 'trade_changed',
      subject: `trade ${row.execution_id}`,
      message: `was changed after it was recorded (partner_order_id ${row.partner_order_id})`,
    }))

export type DigestedAdjustment = AdjustmentRow & { digest: string }
/** Few by nature. */
export const ADJUSTMENTS_AFTER = sql<DigestedAdjustment>(
  'select * from adjustments where adjustment_id > :after order by adjustment_id limit :limit',
)
export const changedAdjustments = (rows: readonly DigestedAdjustment[]): Fault[] =>
  rows
    .filter((row) => adjustmentDigest(adjustmentOf(row)) !== row.digest)
    .map((row) => ({
      kind: 'adjustment_changed',
      subject: `adjustment ${row.adjustment_id}`,
      message: `was changed after it was recorded (execution ${row.execution_id})`,
    }))

type Key = Record<string, unknown>
/** A table with digests, read in the order of its key. */
export type DigestedTable = {
  name: Digested
  page: Sql<DigestedRow>
  first: Key
  keyOf: (row: DigestedRow) => Key
}

/** Below every text and every number. */
const FIRST = { text: '', integer: -(2n ** 62n), real: 0 }

export const DIGESTED_TABLES: readonly DigestedTable[] = (Object.keys(DIGESTED) as Digested[]).map((name) => {
  const { key } = DIGESTED[name]
  const kindOf = (column: string) =>
    TABLES.find((table) => table.name === name)?.columns.find((one) => one.name === column)?.kind ?? 'integer'
  const after = key.map((column) => `:${column}`)
  return {
    name,
    page: sql(
      `select * from ${name} where (${key.join(', ')}) > (${after.join(', ')}) order by ${key.join(', ')} limit :limit`,
    ),
    first: Object.fromEntries(key.map((column) => [column, FIRST[kindOf(column)]])),
    keyOf: (row) => Object.fromEntries(key.map((column) => [column, row[column]])),
  }
})

/** What the partner calls it, for the operator who looks for it. */
const NAMES = ['partner_plan_id', 'partner_user_id', 'label']

export const changedRows = (name: Digested, rows: readonly DigestedRow[]): Fault[] =>
  rows
    .filter((row) => !isIntact(name, row))
    .slice(0, FINDINGS_PER_RULE_MAX)
    .map((row) => {
      const called = NAMES.filter((column) => row[column] != null).map(
        (column) => ` (${column} ${row[column]})`,
      )
      const subject = name === 'executions' ? `execution ${row.execution_id}` : placeOf(name, row)
      return { kind: 'row_changed', subject, message: `is not what was stored${called.join('')}` }
    })
