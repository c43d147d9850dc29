// The check: what SQLite says of the file, every rule of the ledger, and rows that were changed after they were
// recorded.

import type { WindowStore } from '../../bring-back-windows.ts'
import type { CheckStore, Fault } from '../../check.ts'
import {
  ADJUSTMENTS_AFTER,
  type BrokenRow,
  breakers,
  brokenFault,
  changedAdjustments,
  changedRows,
  changedTrades,
  DIGESTED_TABLES,
  type DigestedAdjustment,
  type DigestedTable,
  type DigestedTrade,
  FINDINGS_MAX,
  ROWS_PER_READ,
  TRADES_AFTER,
} from '../../common/health/faults.ts'
import type { DigestedRow } from '../../digests.ts'
import { followsRule, LEDGER_RULES, type Rule } from '../../sql/check-rules.ts'
import type { Connection, Database } from '../file/connection.ts'
import { isCorrupt } from '../file/error-kinds.ts'
import { createWarnings } from './check-warnings.ts'
import { danglingRows, integrity } from './integrity.ts'
import { OPEN_COUNT } from './open-count-rule.ts'

export const createCheckStore = (
  connection: Connection,
  listAhead: WindowStore['listAhead'],
): CheckStore => ({
  findFaults: createFaults(connection),
  findWarnings: createWarnings(connection, listAhead),
})

function createFaults({ db, read }: Connection): CheckStore['findFaults'] {
  return async () => {
    const findings = await read(() => [
      ...readable('integrity', () => integrity(db)),
      ...readable('foreign_key', () => danglingRows(db)),
      ...RULES.flatMap((rule) => readable(rule.kind, () => broken(db, rule))),
      ...readable('adjustment_changed', () => changedAdjustments(adjustments(db))),
    ])
    for (const table of DIGESTED_TABLES) {
      for (let after: object | null = table.first; after !== null && findings.length <= FINDINGS_MAX; ) {
        const from: object = after
        after = null
        const changed = await read(() =>
          readable('row_changed', () => {
            const rows = digested(db, table, from)
            const last = rows.length < ROWS_PER_READ ? undefined : rows.at(-1)
            after = last ? table.keyOf(last) : null
            return changedRows(table.name, rows)
          }),
        )
        findings.push(...changed)
      }
    }
    for (let after: string | null = ''; after !== null && findings.length <= FINDINGS_MAX; ) {
      let last: string | null = null
      const from: string = after
      const changed = await read(() =>
        readable('trade_changed', () => {
          const rows = tradesAfter(db, from)
          last = rows.at(-1)?.execution_id ?? null
          return changedTrades(rows)
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

const broken = (db: Database, rule: Rule): Fault[] =>
  db
    .prepare<[], BrokenRow>(breakers(rule).text)
    .all()
    .map((row) => brokenFault(rule, row))

const digested = (db: Database, { page }: DigestedTable, after: object): DigestedRow[] =>
  db.prepare<object, DigestedRow>(page.text).all({ ...after, limit: ROWS_PER_READ })

const tradesAfter = (db: Database, after: string): DigestedTrade[] =>
  db.prepare<object, DigestedTrade>(TRADES_AFTER.text).all({ after, limit: ROWS_PER_READ })

/** Few by nature: read in one go. */
const adjustments = (db: Database): DigestedAdjustment[] =>
  db.prepare<object, DigestedAdjustment>(ADJUSTMENTS_AFTER.text).all({ after: 0, limit: -1 })

const RULES = [...LEDGER_RULES, followsRule(''), OPEN_COUNT]
