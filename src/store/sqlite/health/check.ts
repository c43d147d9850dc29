// The check: what SQLite says of the file, every rule of the ledger, and rows that were changed after they were recorded.

import { formatInstant } from '../../../core/instant.ts'
import type { CheckStore, Fault } from '../../check.ts'
import { adjustmentDigest, tradeDigest } from '../../digests.ts'
import { type AdjustmentRow, adjustmentOf } from '../../rows/adjustment.ts'
import { instant } from '../../rows/instant.ts'
import { type TradeRow, tradeOf } from '../../rows/trade.ts'
import type { Connection, Database } from '../file/connection.ts'
import { inOneLine, isCorrupt } from '../file/errors.ts'
import { LEDGER_RULES, type Rule } from './check-rules.ts'
import { createWarnings } from './check-warnings.ts'

/** A rule stops after so many findings: more say nothing new. */
const FINDINGS_PER_RULE_MAX = 100
const FINDINGS_MAX = FINDINGS_PER_RULE_MAX * LEDGER_RULES.length
const TRADES_PER_READ = 5_000

export const createCheckStore = (connection: Connection): CheckStore => ({
  findFaults: createFaults(connection),
  findWarnings: createWarnings(connection),
})

function createFaults({ db, read }: Connection): CheckStore['findFaults'] {
  return async () => {
    const findings = await read(() => [
      ...readable('integrity', () => integrity(db)),
      ...readable('foreign_key', () => danglingRows(db)),
      ...LEDGER_RULES.flatMap((rule) => readable(rule.kind, () => broken(db, rule))),
      ...readable('adjustment_changed', () => changedAdjustments(db)),
    ])
    for (let after: string | null = ''; after !== null && findings.length <= FINDINGS_MAX; ) {
      let last: string | null = null
      const from: string = after
      const changed = await read(() =>
        readable('trade_changed', () => {
          const rows = tradesAfter(db, from)
          last = rows.at(-1)?.execution_id ?? null
          return rows.filter(wasChanged).map(changedTrade)
        }),
      )
      findings.push(...changed)
      after = last
    }
    return findings
  }
}

/** A page that cannot be read is a finding like any other: the rest of the file may still have something to say. */
function readable(kind: string, look: () => Fault[]): Fault[] {
  try {
    return look()
  } catch (error) {
    if (!isCorrupt(error)) throw error
    const message = `the file is damaged where ${kind} is looked for: ${(error as Error).message}`
    return [{ kind: 'integrity', subject: 'database', message }]
  }
}

function integrity(db: Database): Fault[] {
  const lines = db.prepare(`pragma integrity_check(${FINDINGS_PER_RULE_MAX})`).pluck().all() as string[]
  const faults = lines.filter((line) => line !== 'ok')
  return faults.map((fault) => ({ kind: 'integrity', subject: 'database', message: inOneLine(fault) }))
}

function danglingRows(db: Database): Fault[] {
  const rows = db.pragma('foreign_key_check') as { table: string; rowid: bigint | null; parent: string }[]
  return rows.slice(0, FINDINGS_PER_RULE_MAX).map(({ table, rowid, parent }) => ({
    kind: 'foreign_key',
    subject: `${table} row ${rowid ?? '?'}`,
    message: `refers to a row of ${parent} that does not exist`,
  }))
}

function broken(db: Database, { kind, sql, message }: Rule): Fault[] {
  const rows = db.prepare(`${sql} limit ${FINDINGS_PER_RULE_MAX}`).all() as Record<string, unknown>[]
  return rows.map((row) => {
    const start = typeof row.start === 'bigint' ? ` window ${formatInstant(instant(row.start))}` : ''
    return { kind, subject: `${row.place}${start}`, message: message(row) }
  })
}

const tradesAfter = (db: Database, after: string): (TradeRow & { digest: string })[] =>
  db
    .prepare<[string, number], TradeRow & { digest: string }>(
      'select * from trades where execution_id > ? order by execution_id limit ?',
    )
    .all(after, TRADES_PER_READ)

const wasChanged = (row: TradeRow & { digest: string }): boolean => tradeDigest(tradeOf(row)) !== row.digest

const changedTrade = (row: TradeRow): Fault => ({
  kind: 'trade_changed',
  subject: `trade ${row.execution_id}`,
  message: `was changed after it was recorded (partner_order_id ${row.partner_order_id})`,
})

/** Few by nature: read in one go. */
function changedAdjustments(db: Database): Fault[] {
  const rows = db.prepare<[], AdjustmentRow & { digest: string }>('select * from adjustments').all()
  return rows
    .filter((row) => adjustmentDigest(adjustmentOf(row)) !== row.digest)
    .map((row) => ({
      kind: 'adjustment_changed',
      subject: `adjustment ${row.adjustment_id}`,
      message: `was changed after it was recorded (execution ${row.execution_id})`,
    }))
}
