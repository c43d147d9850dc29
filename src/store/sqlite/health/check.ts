// The check: what SQLite says of the file, every rule of the ledger, and rows that were changed after they were recorded.

import type { WindowStore } from '../../bring-back-windows.ts'
import type { CheckStore, Fault } from '../../check.ts'
import {
  ADJUSTMENTS_AFTER,
  type BrokenRow,
  breakers,
  brokenFault,
  changedAdjustments,
  changedTrades,
  type DigestedAdjustment,
  type DigestedTrade,
  FINDINGS_MAX,
  FINDINGS_PER_RULE_MAX,
  ROWS_PER_READ,
  TRADES_AFTER,
} from '../../common/health/faults.ts'
import { LEDGER_RULES, type Rule } from '../../sql/check-rules.ts'
import { IS_OPEN, TENANT_NAME } from '../../sql/expressions.ts'
import type { Connection, Database } from '../file/connection.ts'
import { inOneLine, isCorrupt } from '../file/error-kinds.ts'
import { createWarnings } from './check-warnings.ts'

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

const broken = (db: Database, rule: Rule): Fault[] =>
  db
    .prepare<[], BrokenRow>(breakers(rule).text)
    .all()
    .map((row) => brokenFault(rule, row))

const tradesAfter = (db: Database, after: string): DigestedTrade[] =>
  db.prepare<object, DigestedTrade>(TRADES_AFTER.text).all({ after, limit: ROWS_PER_READ })

/** Few by nature: read in one go. */
const adjustments = (db: Database): DigestedAdjustment[] =>
  db.prepare<object, DigestedAdjustment>(ADJUSTMENTS_AFTER.text).all({ after: 0, limit: -1 })

/** A poll relies on it: an execution that is not counted would never be handed out. */
const OPEN_COUNT: Rule = {
  kind: 'open_count',
  sql: `select ${TENANT_NAME} as place, null as start, coalesce(c.n, 0) as counted, coalesce(x.n, 0) as expected
    from open_counts c
    full join (
      select e.tenant_id, coalesce(e.lease_expires_at, 0) as lease_expires_at, count(*) as n from executions e
      where ${IS_OPEN} group by 1, 2) x using (tenant_id, lease_expires_at)
    join tenants t using (tenant_id)
    where coalesce(c.n, 0) <> coalesce(x.n, 0)`,
  message: (row) =>
    `counts ${row.counted} open executions whose lease ends at one instant, and has ${row.expected}`,
}
const RULES = [...LEDGER_RULES, OPEN_COUNT]
